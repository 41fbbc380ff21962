"""An item's body: what is served, what the content check reads of it, and its digest."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from app.core.ledger.canonical import canonical, wire_safe

if TYPE_CHECKING:
    from collections.abc import Iterator


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
