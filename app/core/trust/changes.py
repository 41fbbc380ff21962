"""Changes of several entries: their signed members wait here until all are there.

A change is known by its id from its first member on: the same id with other entries, and any member after the
change was refused, are refused. So an id cannot be used twice, and what waits cannot be completed by anything
but the entries that its signers listed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.core.trust.refused import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from app.core.trust.revisions import Accepted
    from app.core.trust.signed_entries import Change


@dataclass(slots=True)
class _Begun:
    entries: frozenset[str]
    members: dict[str, Accepted] = field(default_factory=dict)
    refused: bool = False

    def missing(self, there: Callable[[str], bool]) -> list[str]:
        return sorted(entry for entry in self.entries if entry not in self.members and not there(entry))


class Changes:
    """The changes that have begun. `there` says of an entry's key whether that revision counts already."""

    def __init__(self) -> None:
        self._begun: dict[str, _Begun] = {}

    def join(self, change: Change, member: Accepted) -> Reason | None:
        """Let a member wait, or say why it may not. The same member again changes nothing."""
        entries = frozenset(change.entries)
        begun = self._begun.setdefault(change.id, _Begun(entries))
        if begun.entries != entries:
            return Reason("change_conflict", "$.change", f"{change.id} is the id of another change")
        if begun.refused:
            return Reason("change_refused", "$.change", f"{change.id} was refused")
        first = begun.members.setdefault(member.key, member)
        if first.hash != member.hash:
            told = f"the change has this revision with other content ({first.hash})"
            return Reason("revision_conflict", "$.revision", told)
        return None

    def waits(self, change: Change, member: Accepted) -> bool:
        """Whether exactly this member waits already."""
        begun = self._begun.get(change.id)
        first = None if begun is None else begun.members.get(member.key)
        return first is not None and first.hash == member.hash

    def take_complete(self, there: Callable[[str], bool]) -> tuple[Accepted, ...]:
        """The members of a change of which all entries are there, which then wait no more; () if none is."""
        for begun in self._begun.values():
            if begun.members and not begun.missing(there):
                members, begun.members = tuple(begun.members.values()), {}
                return members
        return ()

    def refuse(self, change: Change) -> None:
        """No member of this change counts any more."""
        self._begun[change.id].refused = True

    def incomplete(self, there: Callable[[str], bool]) -> Iterator[tuple[Accepted, Reason]]:
        """Every member that still waits, with what it waits for."""
        for begun in self._begun.values():
            told = f"the change lacks {', '.join(begun.missing(there))}"
            for member in begun.members.values():
                yield member, Reason("incomplete_change", "$.change", told)
