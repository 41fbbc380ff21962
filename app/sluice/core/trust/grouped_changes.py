"""Changes of several entries: their signed members wait here until all are there.

The id of a change is known from its first member on. The same id with other entries is refused, and so is
every member after the change was refused. So an id cannot be used twice, and only the change's own records,
with the content that its first member fixed, complete it: the same revision published by itself does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sluice.core.trust.refused import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sluice.core.trust.revisions import Accepted
    from sluice.core.trust.signed_entries import EntryChange, Statement


@dataclass(slots=True)
class _BegunChange:
    entries: Mapping[str, str]
    members: dict[str, Accepted] = field(default_factory=dict)
    refused: bool = False

    @property
    def missing(self) -> list[str]:
        return sorted(self.entries - self.members.keys())


class Changes:
    """The changes that have begun."""

    def __init__(self) -> None:
        self._begun: dict[str, _BegunChange] = {}

    def repeats(self, change: EntryChange, statement: Statement) -> bool:
        """Whether exactly this is a member already."""
        begun = self._begun.get(change.id)
        first = None if begun is None or begun.refused else begun.members.get(statement.key)
        return first is not None and first.hash == statement.hash

    def object_to(self, change: EntryChange) -> Reason | None:
        """Why an entry may not become a member of this change."""
        begun = self._begun.get(change.id)
        if begun is None:
            return None
        if begun.entries != change.entries:
            return Reason("change_conflict", "$.change", f"{change.id} is the id of another change")
        if begun.refused:
            return Reason("change_refused", "$.change", f"{change.id} was refused")
        return None

    def join(self, change: EntryChange, member: Accepted) -> tuple[Accepted, ...]:
        """Add a member; return all members if this was the last missing one, else none. Call only if
        `object_to` is None."""
        begun = self._begun.setdefault(change.id, _BegunChange(change.entries))
        begun.members[member.key] = member
        return () if begun.missing else tuple(begun.members.values())

    def refuse(self, change: EntryChange) -> None:
        """Refuse the change: none of its members counts from now on."""
        self._begun[change.id].refused = True

    def list_incomplete(self) -> Iterator[tuple[Accepted, Reason]]:
        """Every member that still waits, with what it waits for."""
        for begun in self._begun.values():
            if begun.missing:
                description = f"the change lacks {', '.join(begun.missing)}"
                for member in begun.members.values():
                    yield member, Reason("incomplete_change", "$.change", description)
