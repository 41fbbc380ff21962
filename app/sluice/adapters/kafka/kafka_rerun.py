"""Reruns over a ledger on a broker or in an archive: which decisions, and what each rests on, fetched and
executed."""

from __future__ import annotations

import heapq
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from sluice.adapters.kafka.kafka_evidence import INPUTS, name_decision
from sluice.core.actions.plan import sort_stages
from sluice.core.decide.kinds import DECIDING, DECISIONS
from sluice.core.foundation.input_record import read_coordinates
from sluice.core.rerun.evidence import PolicyEvidence
from sluice.core.rerun.policy_then import PolicyThen
from sluice.core.rerun.recomputation import Recomputation
from sluice.core.rerun.rerun_result import Rerun
from sluice.core.rerun.rerunner import Rerunner
from sluice.core.rerun.walk import (
    PartitionWalk,
    check_outside,
    describe_second_decision,
    execute_again,
    group_answers,
    list_places,
    read_entry,
)
from sluice_topics.catalog import ACTIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from sluice.core.actions.stage import Stage
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.rerun.policy_then import DecisionSettings
    from sluice.core.rerun.walk import (
        Inputs,
        LedgerEntry,
        LedgerPartitions,
        LedgerSource,
        Place,
        RecordFetcher,
        WrittenRecord,
    )

_OF_ITEMS = "quality:"
CLOCKS_APART_MS = 60_000
"""A decision is written after its input; brokers' clocks differ by less than this."""


async def rerun_ids(source: LedgerSource, of: DecisionSettings, ids: Sequence[str]) -> list[Rerun]:
    """The decisions of these ids, in this order; of one id the second and later ones too, as differences.
    Raises ValueError for a text that is not an id."""
    placed_ids = [_read_place(one) for one in ids]
    places = [place for place, _ in placed_ids]
    async with source.open_fetcher() as reader:
        inputs = await reader.fetch_inputs(places)
        found = [await _fetch_decisions(reader, *one, inputs.get(one[0])) for one in placed_ids]
        inputs |= await _fetch_approved(reader, [one for these in found for one in these])
        rerunner = _make_rerunner(await source.read_policy(), of)
    pairs = zip(placed_ids, found, strict=True)
    return [one for sought, these in pairs for one in _execute(rerunner, *sought, these, inputs)]


async def rerun_all(source: LedgerSource, of: DecisionSettings) -> AsyncIterator[Rerun]:
    """Every decision that is in the ledger now, and every other record that something is wrong with. The
    sessions are recounted along the way, and inputs that were decided and are not answered are told."""
    partitions = source.open_partitions(of.group)
    walks = _Walks(source, of)
    async with source.open_fetcher() as reader:
        for number in await partitions.list_numbers():
            walk: PartitionWalk | None = None
            async for groups in _group_entries(partitions.read_entries(number)):
                walk = walk or await walks.begin()
                for one in await _walk(walk, reader, groups):
                    yield one
            async for one in _find_unanswered(walk, partitions, number):
                yield one


class _Walks:
    """The control topics are read when a partition's end is fixed: of what was published before that,
    nothing may seem to be gone."""

    def __init__(self, source: LedgerSource, of: DecisionSettings) -> None:
        self._source = source
        self._of = of
        self._read = -1

    async def begin(self) -> PartitionWalk:
        """A walk over the next partition."""
        records = await self._source.read_policy()
        if len(records) != self._read:
            self._read = len(records)
            self._rerunner, self._then = _replay_policy(records, self._of)
        recount = None if self._then is None else Recomputation(self._then, self._of.limits)
        return PartitionWalk(self._rerunner, recount)


async def _walk(walk: PartitionWalk, reader: RecordFetcher, groups: list[list[LedgerEntry]]) -> list[Rerun]:
    inputs = await reader.fetch_inputs(list_places(entry for group in groups for entry in group))
    input_records = [None if group[0].place is None else inputs.get(group[0].place) for group in groups]
    return [one for pair in zip(groups, input_records, strict=True) for one in walk.take(*pair, inputs)]


async def _find_unanswered(
    walk: PartitionWalk | None, partitions: LedgerPartitions, number: int
) -> AsyncIterator[Rerun]:
    if walk is None:
        return
    for topic in INPUTS:
        async for batch in partitions.read_decided_inputs(topic, number):
            for one in walk.list_unanswered(batch):
                yield one


async def _group_entries(batches: AsyncIterator[list[LedgerEntry]]) -> AsyncIterator[list[list[LedgerEntry]]]:
    """The records of one input together, also where a batch ends among them."""
    left: list[LedgerEntry] = []
    async for batch in batches:
        groups = list(group_answers([*left, *batch]))
        left = groups.pop() if groups else []
        yield groups
    if left:
        yield [left]


async def rerun_sample(source: LedgerSource, of: DecisionSettings, size: int, seed: int) -> list[Rerun]:
    """`size` decisions by the hash of seed and record: of the same ledger the same, in the same order."""
    kept: list[tuple[bytes, WrittenRecord]] = []
    async for batch in source.read_decisions():
        kept = heapq.nsmallest(size, [*kept, *((_draw_lot(seed, one.value), one) for one in batch)])
    async with source.open_fetcher() as reader:
        return await _rerun_batch(
            _make_rerunner(await source.read_policy(), of), reader, [one for _, one in kept]
        )


def _make_rerunner(records: Sequence[InputRecord], of: DecisionSettings) -> Rerunner:
    return _replay_policy(records, of)[0]


def _replay_policy(
    records: Sequence[InputRecord], of: DecisionSettings
) -> tuple[Rerunner, PolicyThen | None]:
    evidence = PolicyEvidence()
    for one in records:
        evidence.add(one.topic, one.value)
    then = None if of.roots is None else PolicyThen(records, of.roots, of)
    return Rerunner(evidence, partial(_find_stage, of), of.version, then, of.audience), then


def _find_stage(of: DecisionSettings, name: str) -> Stage:
    return sort_stages([name], of.stages)[0]


def _draw_lot(seed: int, raw: bytes) -> bytes:
    return sha256(b"%d:%b" % (seed, raw)).digest()


def _read_place(an_id: str) -> tuple[Place, str]:
    """Read the input's place and the decision's own id from an id."""
    place = read_coordinates(an_id)
    return place, an_id if an_id.startswith(_OF_ITEMS) else name_decision(place)


async def _fetch_decisions(
    reader: RecordFetcher, place: Place, sought: str, input_record: InputRecord | None
) -> list[WrittenRecord]:
    since_ms = 0 if input_record is None else max(0, input_record.timestamp_ms - CLOCKS_APART_MS)
    return await reader.fetch_decisions(place, sought, since_ms)


def _execute(
    rerunner: Rerunner, place: Place, named: str, found: list[WrittenRecord], inputs: Inputs
) -> list[Rerun]:
    if not found:
        kind = DECISIONS[DECIDING.get(place[0], DECIDING[ACTIONS]).schema]
        return [Rerun(kind.word, named, missing=(f"{kind.singular} {named}",))]
    reruns = [_check(rerunner, one, inputs.get(place), inputs) for one in found]
    first = f"{found[0].topic} at offset {found[0].offset}"
    again = [describe_second_decision("id", named, first)]
    changed = [replace(one, differences=(*again, *one.differences)) for one in reruns[1:]]
    return [reruns[0], *(replace(one, whatever_version=True) for one in changed)]


async def _fetch_approved(reader: RecordFetcher, found: Sequence[WrittenRecord]) -> dict[Place, InputRecord]:
    """The other inputs that these decisions rest on."""
    entries = (entry for one in found if (entry := read_entry(one)) is not None)
    return await reader.fetch_inputs(list_places(entries))


def _check(
    rerunner: Rerunner, written: WrittenRecord, input_record: InputRecord | None, inputs: Inputs
) -> Rerun:
    """Executed again, and held against what lies outside the hash."""
    rerun, entry = execute_again(rerunner, written, input_record, inputs), read_entry(written)
    differing = () if entry is None else check_outside(written, entry.fields)
    if not differing:
        return rerun
    return replace(rerun, differences=(*rerun.differences, *differing), whatever_version=True)


async def _rerun_batch(
    rerunner: Rerunner, reader: RecordFetcher, found: Sequence[WrittenRecord]
) -> list[Rerun]:
    entries = [read_entry(one) for one in found]
    places = [None if one is None else one.place for one in entries]
    inputs = await _fetch_approved(reader, found)
    return [
        _check(rerunner, one, None if place is None else inputs.get(place), inputs)
        for one, place in zip(found, places, strict=True)
    ]
