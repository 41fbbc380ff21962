"""Reruns over a ledger on a broker: which verdicts, and what each rests on, fetched and executed."""

from __future__ import annotations

import heapq
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from app.core.ids import coordinates_of, verdict_id
from app.core.ledger.recorded_verdict import NotAVerdict, recorded_verdict
from app.core.ledger.rerun import Rerunner
from app.core.ledger.rerun_result import Rerun

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from app.adapters.kafka_evidence import KafkaEvidence, Place, Places
    from app.core.actions.stage import Stage
    from app.core.arrival import Arrival

    StageOf = Callable[[str], Stage]

CLOCKS_APART_MS = 60_000
"""A verdict is written after its input; brokers' clocks differ by less than this."""


async def rerun_ids(kafka: KafkaEvidence, stage_of: StageOf, ids: Sequence[str]) -> list[Rerun]:
    """The verdicts of these ids, in this order. Raises ValueError for what is no id."""
    places = [coordinates_of(one) for one in ids]
    async with kafka.places() as reader:
        inputs = await reader.inputs(places)
        raws = [await _verdict_at(reader, place, inputs.get(place)) for place in places]
        rerunner = Rerunner(await kafka.policy(), stage_of)
    pairs = zip(places, raws, strict=True)
    return [_executed(rerunner, place, raw, inputs.get(place)) for place, raw in pairs]


async def rerun_all(kafka: KafkaEvidence, stage_of: StageOf) -> AsyncIterator[Rerun]:
    """Every verdict that is in the ledger now."""
    rerunner = None
    async with kafka.places() as reader:
        async for raws in kafka.verdicts():
            # Read after the verdicts' end was fixed, or a policy published in between would seem to be gone.
            rerunner = rerunner or Rerunner(await kafka.policy(), stage_of)
            for one in await _batch(rerunner, reader, raws):
                yield one


async def rerun_sample(kafka: KafkaEvidence, stage_of: StageOf, size: int, seed: int) -> list[Rerun]:
    """`size` verdicts by the hash of seed and record: of the same ledger the same ones, in the same order."""
    kept: list[tuple[bytes, bytes]] = []
    async for raws in kafka.verdicts():
        kept = heapq.nsmallest(size, [*kept, *((_lot(seed, raw), raw) for raw in raws)])
    async with kafka.places() as reader:
        return await _batch(Rerunner(await kafka.policy(), stage_of), reader, [raw for _, raw in kept])


def _lot(seed: int, raw: bytes) -> bytes:
    return sha256(b"%d:%b" % (seed, raw)).digest()


async def _verdict_at(reader: Places, place: Place, arrival: Arrival | None) -> bytes | None:
    since_ms = 0 if arrival is None else max(0, arrival.timestamp_ms - CLOCKS_APART_MS)
    return await reader.verdict(place, since_ms)


def _executed(rerunner: Rerunner, place: Place, raw: bytes | None, arrival: Arrival | None) -> Rerun:
    named = verdict_id(":".join(map(str, place)))
    if raw is None:
        return Rerun(named, missing=(f"verdict {named}",))
    try:
        return rerunner.rerun(recorded_verdict(raw), arrival)
    except NotAVerdict as error:
        return Rerun(named, missing=(f"a readable verdict {named}: {error}",))


async def _batch(rerunner: Rerunner, reader: Places, raws: Iterable[bytes]) -> list[Rerun]:
    read = [_read(raw) for raw in raws]
    verdicts = [one for one in read if not isinstance(one, Rerun)]
    inputs = await reader.inputs(_place(one) for one in verdicts)
    return [one if isinstance(one, Rerun) else rerunner.rerun(one, inputs.get(_place(one))) for one in read]


def _read(raw: bytes) -> dict[str, Any] | Rerun:
    try:
        return recorded_verdict(raw)
    except NotAVerdict as error:
        return Rerun("", missing=(f"a readable verdict: {error}",))


def _place(verdict: dict[str, Any]) -> Place:
    place = verdict["input"]
    return place["topic"], place["partition"], place["offset"]
