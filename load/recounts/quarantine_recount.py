"""One partition's quarantine once more, from the ledger's events alone, and what the state holds of memories.

Imports nothing of the core. What must hold: a memory enters once and leaves once; by time not before its
time, by a review not after it; for want of room only when there is none, the oldest of the agent that holds
the most, and there are never more than the cap; what is said of a memory at its end is what was said when it
entered.

The changelog keeps every version: each held memory must be in it once and taken out once, with one value
throughout, whatever happened to its partition's owners.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from load.sites.policy import REVIEW_AFTER_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.adapters.kafka.kafka_read import StoredRecord
    from load.recounts.memory_recount import Memories

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
    held: dict[str, dict[str, Any]] = field(default_factory=dict)
    left: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _making_room: str | None = None

    def take(self, event: dict[str, Any]) -> None:
        """The next event of the partition."""
        name, kind = event["memory_id"], event["schema"]
        self.counts[kind] += 1
        if kind == ENTERED:
            self._enter(name, event)
        elif (entered := self.held.pop(name, None)) is None:
            self._say(event, "left without being held")
        else:
            self._check(event, entered)
            self.left[name] = event

    def _enter(self, name: str, event: dict[str, Any]) -> None:
        if name in self.held or name in self.left:
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
        self.held[name] = event
        if len(self.held) > self.most:
            self._say(event, f"is number {len(self.held)} where {self.most} find room")

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
            self._evicted(event)

    def _evicted(self, event: dict[str, Any]) -> None:
        self._making_room = event["by"]
        if len(self.held) + 1 < self.most:
            self._say(event, "was evicted where there was room")
        held = [*self.held.values(), event]
        counts = Counter((one["tenant_id"], one["agent_id"]) for one in held)
        whose = event["tenant_id"], event["agent_id"]
        if counts[whose] < max(counts.values()):
            self._say(event, "was evicted and another agent held more")
        if any(_offset(one) < _offset(event) for one in held if (one["tenant_id"], one["agent_id"]) == whose):
            self._say(event, "was evicted before an older one")

    def _say(self, event: dict[str, Any], what: str) -> None:
        self.problems.append(f"{event['schema']} {event['memory_id']} {what}")


def milliseconds(moment: str) -> int:
    """Milliseconds since 1970 of a ledger record's time."""
    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def _offset(event: dict[str, Any]) -> int:
    return int(event["held"].rpartition(":")[2])


HELD_KEY = b"q:"
STATISTICS_KEY = b"n:"
ENTERED_MS, EXPIRES_MS = -2, -1
"""Places in a held memory as it is stored."""


def wrong_held(memories: Memories, changelog: Iterable[StoredRecord]) -> list[str]:
    """Held memories whose entries in the state are not what the ledger says."""
    versions: dict[str, list[list[Any] | None]] = defaultdict(list)
    for record in changelog:
        if (record.key or b"").startswith(HELD_KEY):
            stored = json.loads(record.value) if record.value else None
            versions[(record.key or b"")[len(HELD_KEY) :].decode()].append(stored)
    held = {name for one in memories.quarantines.values() for name in one.held}
    gone = {name for one in memories.quarantines.values() for name in one.left}
    problems = [
        f"{name}: {wrong}"
        for name, stored in versions.items()
        if (wrong := _wrong_versions(stored, held=name in held)) is not None
    ]
    problems += [f"{name}: in the state and not in the ledger" for name in versions.keys() - held - gone]
    return problems + [f"{name}: held and not in the state" for name in held - versions.keys()]


def _wrong_versions(stored: list[list[Any] | None], *, held: bool) -> str | None:
    puts = [one for one in stored if one is not None]
    if len(puts) > 1 or stored.count(None) > 1:
        return f"written {len(puts)} times and deleted {stored.count(None)} times"
    if (stored[-1] is not None) != held:
        return f"{'still' if not held else 'no longer'} in the state"
    if puts and puts[0][EXPIRES_MS] - puts[0][ENTERED_MS] != REVIEW_AFTER_MS:
        return "has other times than the bundle gives"
    return None


def wrong_statistics(memories: Memories, changelog: Iterable[StoredRecord]) -> list[str]:
    """Counts of the state that are not the recount's."""
    state: dict[tuple[int, str, str], list[int]] = {}
    for record in changelog:
        if (record.key or b"").startswith(STATISTICS_KEY):
            tenant, agent = json.loads((record.key or b"")[len(STATISTICS_KEY) :])
            state[record.partition, tenant, agent] = json.loads(record.value or b"null")
    return [
        f"{whose}: counted {state.get(whose)}, recounted {memories.statistics.get(whose)}"
        for whose in state.keys() | memories.statistics.keys()
        if state.get(whose) != memories.statistics.get(whose)
    ]


def wrong_releases(memories: Memories, admitted: Iterable[StoredRecord]) -> list[str]:
    """Memories released and not due, or twice, or otherwise than written, or not released."""
    due, problems = dict(memories.released), []
    for record in admitted:
        body = json.loads(record.value or b"null")
        how, write = due.pop(body["memory_id"], ("", None))
        if write is None:
            problems.append(f"{body['memory_id']} was released twice, or without being due")
            continue
        place = (write.record.partition, write.record.offset, write.digest)
        origin = body["input"]
        there = (record.partition, origin["offset"], origin["digest"])
        if (body["how"], body["content"], there) != (how, write.message["content"], place):
            problems.append(f"{body['memory_id']} was released otherwise than it is due: {how} {place}")
    return problems + [f"{memory} was not released" for memory in due]
