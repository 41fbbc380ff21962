"""What is in quarantine, as gate.quarantine alone tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topics.records import QuarantineEntered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.memory.from_ledger import Event


class Waiting:
    """What is held: entered and not ended. Each partition's events are taken in their order."""

    def __init__(self) -> None:
        self._entered: dict[str, QuarantineEntered] = {}

    def take(self, event: Event) -> None:
        """One event more."""
        if isinstance(event, QuarantineEntered):
            self._entered[event.memory_id] = event
        else:
            self._entered.pop(event.memory_id, None)

    def __iter__(self) -> Iterator[QuarantineEntered]:
        """The oldest first, by the time of their inputs."""
        return iter(sorted(self._entered.values(), key=lambda one: (one.entered_at, one.sequence)))
