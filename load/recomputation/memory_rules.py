"""What each memory write and review must come to, by rules written down here a second time.

Imports nothing of the core. The rules are those of the gate under the policy of the fault runs: a write
follows from what it says and from what became, in its session, of the memories that it derives from; a review
from its kind and from whether its memory is held.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from load.inputs.memory_traffic import QUALITY
from load.installations.neutral_policy import (
    AGENT,
    ATTACK,
    EXEMPT_SOURCE,
    QUARANTINE_THRESHOLD,
    WRITE_THRESHOLD,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Trust = Literal["trusted", "doubted", "distrusted"]
ACTIONS: dict[Trust, str] = {"trusted": "allow", "doubted": "quarantine", "distrusted": "reject"}
ORDER: tuple[Trust, ...] = ("distrusted", "doubted", "trusted")
REFUSALS = {
    "deny": "wrong_decision",
    "wrong_digest": "wrong_digest",
    "stranger": "not_a_reviewer",
    "wrong_signature": "wrong_signature",
}
"""By kind of a review of a memory that is held."""


@dataclass(slots=True)
class _KnownMemories:
    digest: str
    memory_id: str
    action: str


@dataclass(frozen=True, slots=True)
class Due:
    """What a decision must be. `first`: the memory that it repeats; `remembered`: its session keeps it."""

    action: str
    reason: str
    first: str | None = None
    remembered: bool = False


@dataclass(slots=True)
class MemorySession:
    """What one session knows of its writes."""

    writes: dict[str, _KnownMemories] = field(default_factory=dict)
    trust: dict[str, Trust | None] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)

    def write(
        self, fields: dict[str, Any], digest: str, memory_id: str, elsewhere: Callable[[str], Trust | None]
    ) -> Due:
        """The decision that is due; remembers the write. `elsewhere`: of memories of other sessions."""
        previous = self.writes.get(fields["write_id"])
        if previous is not None and previous.digest == digest:
            return Due(previous.action, "duplicate_of", previous.memory_id)
        if previous is not None:
            return Due("reject", "write_id_conflict")
        due, trust = self._judge(fields, elsewhere)
        if not due.remembered:
            return due
        self.writes[fields["write_id"]] = _KnownMemories(digest, memory_id, due.action)
        self.trust[memory_id] = trust
        return due

    def note_review(self, memory_id: str, *, approved: bool) -> None:
        """A reviewer's word counts for what derives from the memory later."""
        if memory_id in self.trust:
            self.trust[memory_id] = "trusted" if approved else "distrusted"

    def first_sight(self, fields: dict[str, Any]) -> bool:
        """Whether the session has not seen the write's source; it has from now on."""
        new = fields["source"]["id"] not in self.sources
        self.sources.add(fields["source"]["id"])
        return new

    def _judge(
        self, fields: dict[str, Any], elsewhere: Callable[[str], Trust | None]
    ) -> tuple[Due, Trust | None]:
        if fields["agent_id"] != AGENT:
            return Due("reject", "unknown_agent"), None
        missing = [name for name in QUALITY if name not in fields]
        if missing and fields["source"]["id"] != EXEMPT_SOURCE:
            return Due("reject", f"quality_metadata: {', '.join(missing)}", remembered=True), None
        if ATTACK in fields["content"]:
            return Due("reject", "finding: load.attack", remembered=True), "distrusted"
        parents = fields.get("derived_from", [])
        return _derive(
            [self.trust[parent] if parent in self.trust else elsewhere(parent) for parent in parents]
        )


def _derive(trusts: list[Trust | None]) -> tuple[Due, Trust]:
    """The least trusted parent decides; one that nobody scored is doubted."""
    ranks = [ORDER.index(trust or "doubted") for trust in trusts]
    least = ORDER[min(ranks, default=-1)]
    if least == "trusted":
        return Due("allow", "trusted", remembered=True), least
    reason = "parent_trust" if least in trusts else "unknown_parent"
    return Due(ACTIONS[least], reason, remembered=True), least


def trust_of(total: float | None) -> Trust | None:
    """What a parent's trust score means for what derives from it."""
    if total is None:
        return None
    if total < QUARANTINE_THRESHOLD:
        return "distrusted"
    return "doubted" if total < WRITE_THRESHOLD else "trusted"


def due_refusal(kind: str, *, quarantined: bool, expired: bool) -> str | None:
    """Why a review of this kind must be refused; None when it counts. `expired`: it found its memory so."""
    if not quarantined and not expired:
        return "unknown_subject"
    return REFUSALS.get(kind) or ("expired" if expired else None)
