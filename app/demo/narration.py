"""How a run tells of itself; `app/cli` has the teller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class Step(Protocol):
    """A step under way."""

    def say(self, detail: str) -> None:
        """What came of it."""

    def progress(self, published: int, answered: int, total: int) -> None:
        """How far the publishing and the answering are."""


class Narrator(Protocol):
    """Tells whoever watches."""

    def step(self, what: str) -> AbstractContextManager[Step]:
        """A step that takes as long as the context."""
