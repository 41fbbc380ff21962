"""What the state holds of memories, and what was released, against the recount.

The changelog keeps every version: each held memory must be in it once and taken out once, with one value
throughout, whatever happened to its partition's owners.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from load.installations.neutral_policy import REVIEW_AFTER_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from load.recomputation.write_recount import Memories
    from sluice.adapters.kafka.kafka_read import StoredRecord

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
    quarantined = {name for quarantine in memories.quarantines.values() for name in quarantine.quarantined}
    gone = {name for quarantine in memories.quarantines.values() for name in quarantine.ended}
    problems = [
        f"{name}: {wrong}"
        for name, stored in versions.items()
        if (wrong := _wrong_versions(stored, quarantined=name in quarantined)) is not None
    ]
    problems += [
        f"{name}: in the state and not in the ledger" for name in versions.keys() - quarantined - gone
    ]
    return problems + [f"{name}: held and not in the state" for name in quarantined - versions.keys()]


def _wrong_versions(stored: list[list[Any] | None], *, quarantined: bool) -> str | None:
    puts = [version for version in stored if version is not None]
    if len(puts) > 1 or stored.count(None) > 1:
        return f"written {len(puts)} times and deleted {stored.count(None)} times"
    if (stored[-1] is not None) != quarantined:
        return f"{'still' if not quarantined else 'no longer'} in the state"
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
        due_input = (write.record.partition, write.record.offset, write.digest)
        origin = body["input"]
        there = (record.partition, origin["offset"], origin["digest"])
        if (body["how"], body["content"], there) != (how, write.message["content"], due_input):
            problems.append(f"{body['memory_id']} was released otherwise than it is due: {how} {due_input}")
    return problems + [f"{memory} was not released" for memory in due]
