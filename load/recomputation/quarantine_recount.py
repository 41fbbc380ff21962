"""One partition's quarantine once more, from the ledger's events alone, in their order.

Imports nothing of the core. What must hold: a memory enters once and leaves once; by time not before its
time, by a review not after it; for want of room only when there is none, the oldest of the agent that holds
the most, and there are never more than the cap; what is said of a memory at its end is what was said when it
entered.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from load.installations.neutral_policy import REVIEW_AFTER_MS

ENTERED, APPROVED, REJECTED, EXPIRED, EVICTED = (
    f"sluice/quarantine_{what}/v1" for what in ("entered", "approved", "rejected", "expired", "evicted")
)
LEAVING = frozenset({APPROVED, REJECTED, EXPIRED, EVICTED})
KEPT = (
    "write_id",
    "agent_id",
    "session_id",
    "tenant_id",
    "source_id",
    "source_type",
    "content_digest",
    "held",
    "trust",
    "entered_at",
    "expires_at",
)
"""What every event says of its memory, and what stays as it was."""


@dataclass(slots=True)
class Quarantine:
    """`most` memories at a time. `left`: the event by which each memory went; `problems`: what is wrong."""

    most: int
    quarantined: dict[str, dict[str, Any]] = field(default_factory=dict)
    ended: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _making_room: str | None = None

    def take(self, event: dict[str, Any]) -> None:
        """The next event of the partition."""
        name, kind = event["memory_id"], event["schema"]
        self.counts[kind] += 1
        if kind == ENTERED:
            self._enter(name, event)
        elif (entered := self.quarantined.pop(name, None)) is None:
            self._say(event, "left without being held")
        else:
            self._check(event, entered)
            self.ended[name] = event

    def _enter(self, name: str, event: dict[str, Any]) -> None:
        if name in self.quarantined or name in self.ended:
            self._say(event, "entered twice")
        at = event["input"]["timestamp"]
        if (milliseconds(event["entered_at"]), milliseconds(event["expires_at"])) != (
            at,
            at + REVIEW_AFTER_MS,
        ):
            self._say(event, "has other times than its input and the bundle give")
        if self._making_room not in {None, name}:
            self._say(event, f"came where room was made for {self._making_room}")
        self._making_room = None
        self.quarantined[name] = event
        if len(self.quarantined) > self.most:
            self._say(event, f"is number {len(self.quarantined)} where {self.most} find room")

    def _check(self, event: dict[str, Any], entered: dict[str, Any]) -> None:
        if any(event[each] != entered[each] for each in KEPT):
            self._say(event, "is not what entered")
        end = milliseconds(entered["expires_at"])
        at = milliseconds(event["decided_at"])
        if event["schema"] == EXPIRED and at < end:
            self._say(event, f"expired {end - at} ms too early")
        if event["schema"] in {APPROVED, REJECTED} and at >= end:
            self._say(event, f"was reviewed {at - end} ms too late")
        if event["schema"] == EVICTED:
            self._note_eviction(event)

    def _note_eviction(self, event: dict[str, Any]) -> None:
        self._making_room = event["by"]
        if len(self.quarantined) + 1 < self.most:
            self._say(event, "was evicted where there was room")
        quarantined = [*self.quarantined.values(), event]
        counts = Counter((entry["tenant_id"], entry["agent_id"]) for entry in quarantined)
        whose = event["tenant_id"], event["agent_id"]
        if counts[whose] < max(counts.values()):
            self._say(event, "was evicted and another agent held more")
        if any(
            _offset(entry) < _offset(event)
            for entry in quarantined
            if (entry["tenant_id"], entry["agent_id"]) == whose
        ):
            self._say(event, "was evicted before an older one")

    def _say(self, event: dict[str, Any], what: str) -> None:
        self.problems.append(f"{event['schema']} {event['memory_id']} {what}")


def milliseconds(moment: str) -> int:
    """Milliseconds since 1970 of a ledger record's time."""
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def _offset(event: dict[str, Any]) -> int:
    return int(event["held"].rpartition(":")[2])
