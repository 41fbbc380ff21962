"""An item's body: what is served, what the content check reads of it, and its digest."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from app.core.ledger.canonical import canonical, is_odd_float, wire_safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from topics.records.retrievals import RetrievedItem

MAX_WRITTEN_BYTES = 2 * 1024 * 1024
"""Of a request's JSON bodies in their RFC 8785 form, so that what is served stays below the output's limit: a
number of four characters may take twenty there."""
MAX_ODD_NUMBERS = 2048
"""Of a request: numbers that RFC 8785 writes otherwise than a fast writer does cost 15 us each."""


class Body:
    """A text stands for itself; of other JSON the keys and texts are read, a line each, and the digest is
    over its RFC 8785 form. `value` is what may be served."""

    __slots__ = ("_digest", "_written", "given", "text", "value")

    def __init__(self, value: Any) -> None:
        """Raises CanonicalError for what no ledger could carry."""
        self.given = value is not None
        self._digest: str | None = None
        if isinstance(value, str):
            self.value: Any = value
            self.text = value
            self._written = b""
        else:
            self.value = wire_safe(value)
            self.text = "\n".join(_texts(self.value))
            self._written = canonical(self.value)

    @classmethod
    def of(cls, value: Any) -> Body:
        """The body of an item; None is none."""
        return NO_BODY if value is None else cls(value)

    @property
    def digest(self) -> str | None:
        """ "sha256:" and the hex digest of the text's UTF-8 or the canonical JSON; None without a body."""
        if self._digest is None and self.given:
            self._digest = "sha256:" + sha256(self._written or self.text.encode()).hexdigest()
        return self._digest

    @property
    def written_bytes(self) -> int:
        """Of the RFC 8785 form; 0 for a text, which takes no more room in an output than in its input."""
        return len(self._written)


class Bodies:
    """Those of a request, in the order of its items. `problem`: why none of them is read or served."""

    __slots__ = ("bodies", "problem")

    def __init__(self, items: Iterable[RetrievedItem]) -> None:
        values = [item.body for item in items]
        self.problem = _too_many_numbers(values)
        self.bodies = [NO_BODY] * len(values) if self.problem else [Body.of(value) for value in values]
        written = sum(body.written_bytes for body in self.bodies)
        if written > MAX_WRITTEN_BYTES:
            self.problem = f"too_long: written out, the bodies have {written} bytes"
            self.bodies = [NO_BODY] * len(values)


def _too_many_numbers(values: Iterable[Any]) -> str | None:
    left = MAX_ODD_NUMBERS
    for value in values:
        if isinstance(value, list | dict):
            for number in _floats(value):
                left -= is_odd_float(number)
                if left < 0:
                    return f"too_long: more than {MAX_ODD_NUMBERS} numbers that no plain decimal writes"
    return None


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _floats(item)
    elif isinstance(value, list):
        for item in value:
            yield from _floats(item)


def _texts(value: Any) -> Iterator[str]:
    """Every key and text of a JSON value, in its order. Escapes would hide what begins a line."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


NO_BODY = Body(None)
