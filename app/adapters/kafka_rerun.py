"""Reruns over a ledger on a broker: which decisions, and what each rests on, fetched and executed."""

from __future__ import annotations

import heapq
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from app.adapters.kafka_evidence import id_at
from app.core.ids import coordinates_of
from app.core.ledger.recorded_decision import NotADecision, recorded_decision
from app.core.ledger.rerun import Rerunner
from app.core.ledger.rerun_result import Rerun
from topics.catalog import ACTIONS, MEMORY_DECISIONS, MEMORY_WRITES, QUALITY_DECISIONS, RETRIEVALS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from app.adapters.kafka_evidence import KafkaEvidence, Place, Places, Recorded
    from app.core.actions.stage import Stage
    from app.core.arrival import Arrival
    from app.core.ledger.rerun_result import Kind

    StageOf = Callable[[str], Stage]

_WORDS: dict[Kind, str] = {
    "verdict": "verdict",
    "memory_decision": "decision on a memory",
    "quality_decision": "decision on a retrieved item",
}
_KINDS: dict[str, Kind] = {
    ACTIONS: "verdict",
    VERDICTS: "verdict",
    MEMORY_WRITES: "memory_decision",
    MEMORY_DECISIONS: "memory_decision",
    RETRIEVALS: "quality_decision",
    QUALITY_DECISIONS: "quality_decision",
}
"""By the base topic of the input, and of the decision."""
_OF_ITEMS = "quality:"
CLOCKS_APART_MS = 60_000
"""A decision is written after its input; brokers' clocks differ by less than this."""


async def rerun_ids(kafka: KafkaEvidence, stage_of: StageOf, ids: Sequence[str]) -> list[Rerun]:
    """The decisions of these ids, in this order. Raises ValueError for what is no id."""
    wanted = [_wanted(one) for one in ids]
    places = [place for place, _ in wanted]
    async with kafka.places() as reader:
        inputs = await reader.inputs(places)
        found = [await _decision_on(reader, *one, inputs.get(one[0])) for one in wanted]
        rerunner = Rerunner(await kafka.policy(), stage_of)
    pairs = zip(wanted, found, strict=True)
    return [_executed(rerunner, *sought, one, inputs.get(sought[0])) for sought, one in pairs]


async def rerun_all(kafka: KafkaEvidence, stage_of: StageOf) -> AsyncIterator[Rerun]:
    """Every decision that is in the ledger now."""
    rerunner = None
    async with kafka.places() as reader:
        async for batch in kafka.decisions():
            # Read after the decisions' end was fixed, or a policy published in between would seem to be gone.
            rerunner = rerunner or Rerunner(await kafka.policy(), stage_of)
            for one in await _batch(rerunner, reader, batch):
                yield one


async def rerun_sample(kafka: KafkaEvidence, stage_of: StageOf, size: int, seed: int) -> list[Rerun]:
    """`size` decisions by the hash of seed and record: of the same ledger the same, in the same order."""
    kept: list[tuple[bytes, Recorded]] = []
    async for batch in kafka.decisions():
        kept = heapq.nsmallest(size, [*kept, *((_lot(seed, one.value), one) for one in batch)])
    async with kafka.places() as reader:
        return await _batch(Rerunner(await kafka.policy(), stage_of), reader, [one for _, one in kept])


def _lot(seed: int, raw: bytes) -> bytes:
    return sha256(b"%d:%b" % (seed, raw)).digest()


def _wanted(an_id: str) -> tuple[Place, str]:
    """Of an id, the input's place and the decision's own id."""
    place = coordinates_of(an_id)
    return place, an_id if an_id.startswith(_OF_ITEMS) else id_at(place)


async def _decision_on(reader: Places, place: Place, sought: str, arrival: Arrival | None) -> Recorded | None:
    since_ms = 0 if arrival is None else max(0, arrival.timestamp_ms - CLOCKS_APART_MS)
    return await reader.decision(place, sought, since_ms)


def _executed(
    rerunner: Rerunner, place: Place, named: str, found: Recorded | None, arrival: Arrival | None
) -> Rerun:
    kind = _KINDS.get(place[0], "verdict")
    if found is None:
        return Rerun(kind, named, missing=(f"{_WORDS[kind]} {named}",))
    try:
        return rerunner.rerun(recorded_decision(*found), arrival)
    except NotADecision as error:
        return Rerun(kind, named, missing=(f"a readable {_WORDS[kind]} {named}: {error}",))


async def _batch(rerunner: Rerunner, reader: Places, found: Iterable[Recorded]) -> list[Rerun]:
    read = [_read(one) for one in found]
    decisions = [one for one in read if not isinstance(one, Rerun)]
    inputs = await reader.inputs(_place(one) for one in decisions)
    return [one if isinstance(one, Rerun) else rerunner.rerun(one, inputs.get(_place(one))) for one in read]


def _read(one: Recorded) -> dict[str, Any] | Rerun:
    try:
        return recorded_decision(*one)
    except NotADecision as error:
        kind = _KINDS[one.topic]
        return Rerun(kind, "", missing=(f"a readable {_WORDS[kind]}: {error}",))


def _place(decision: dict[str, Any]) -> Place:
    place = decision["input"]
    return place["topic"], place["partition"], place["offset"]
