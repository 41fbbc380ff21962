"""An item's body: what is served, what the content check reads of it, and its digest."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sluice.core.foundation.canonical import canonical, is_odd_float, wire_safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluice_topics.records.retrieval_inputs import RetrievedItem

MAX_WRITTEN_BYTES = 2 * 1024 * 1024
"""Of a request's JSON bodies in their RFC 8785 form, so that what is served stays below the output's limit: a
number of four characters may take twenty there."""
MAX_ODD_NUMBERS = 4096
"""Of a request: numbers that RFC 8785 writes otherwise than a fast writer does cost 15 us each."""


class Body:
    """A text stands for itself; of other JSON the keys and texts are read, a line each, and the digest is
    over its RFC 8785 form. `value` is what may be served; `problem`: why it is neither read nor served."""

    __slots__ = ("_digest", "_written", "given", "problem", "text", "value")

    def __init__(self, value: Any, problem: str | None = None) -> None:
        """Raises CanonicalError for what no ledger could carry."""
        self.given = value is not None
        self.problem = problem
        self._digest: str | None = None
        self._written = b""
        if isinstance(value, str):
            self.value: Any = value
            self.text = value
        elif problem is not None:
            self.value, self.text = None, ""
        else:
            self.value = wire_safe(value)
            self.text = "\n".join(_list_texts(self.value))
            self._written = canonical(self.value)

    @property
    def digest(self) -> str | None:
        """ "sha256:" and the hex digest of the text's UTF-8 or the canonical JSON; None without a body, and
        where that is too long."""
        if self._digest is None and self.given and self.problem is None:
            self._digest = "sha256:" + sha256(self._written or self.text.encode()).hexdigest()
        return self._digest

    @property
    def written_bytes(self) -> int:
        """Of the RFC 8785 form; 0 for a text, which takes no more room in an output than in its input."""
        return len(self._written)


def read_bodies(items: Iterable[RetrievedItem]) -> list[Body]:
    """The bodies of a request's items, in their order; those with which it passes a bound have a problem."""
    numbers, written = MAX_ODD_NUMBERS, MAX_WRITTEN_BYTES
    bodies = []
    for item in items:
        body = _read_body(item.body, numbers, written)
        if body.problem is None and not isinstance(body.value, str | None):
            numbers -= _count_odd_numbers(item.body, numbers)
            written -= body.written_bytes
        bodies.append(body)
    return bodies


def _read_body(value: Any, numbers: int, written: int) -> Body:
    """`numbers` and `written`: what of the bounds is left."""
    if value is None:
        return NO_BODY
    if not isinstance(value, str) and _count_odd_numbers(value, numbers) > numbers:
        return Body(value, f"too_long: over {MAX_ODD_NUMBERS} numbers that no plain decimal writes")
    body = Body(value)
    if body.written_bytes > written:
        return Body(value, f"too_long: over {MAX_WRITTEN_BYTES} bytes written out")
    return body


def _count_odd_numbers(value: Any, most: int) -> int:
    """How many, counted to one more than `most`."""
    found = 0
    for number in _list_floats(value):
        found += is_odd_float(number)
        if found > most:
            break
    return found


def _list_floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _list_floats(item)
    elif isinstance(value, list):
        for item in value:
            yield from _list_floats(item)


def _list_texts(value: Any) -> Iterator[str]:
    """Every key and text of a JSON value, in its order. Escapes would hide what begins a line."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _list_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _list_texts(item)


NO_BODY = Body(None)
