"""An item's body: the text that the content check reads, and its digest, each made when it is asked for."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from app.core.ledger.canonical import canonical, wire_safe


class Body:
    """A text stands for itself, other JSON for its RFC 8785 form. `value` is what may be served."""

    __slots__ = ("_digest", "given", "text", "value")

    def __init__(self, value: Any) -> None:
        """Raises CanonicalError for what no ledger could carry."""
        self.given = value is not None
        self.value = value if isinstance(value, str) else wire_safe(value)
        self.text = value if isinstance(value, str) else canonical(self.value).decode() if self.given else ""
        self._digest: str | None = None

    @classmethod
    def of(cls, value: Any) -> Body:
        """The body of an item; None is none."""
        return NO_BODY if value is None else cls(value)

    @property
    def digest(self) -> str | None:
        """ "sha256:" and the hex digest of the text's UTF-8; None without a body."""
        if self._digest is None and self.given:
            self._digest = "sha256:" + sha256(self.text.encode()).hexdigest()
        return self._digest


NO_BODY = Body(None)
