"""Reruns over a ledger on a broker or in an archive: which decisions, and what each rests on, fetched and
executed."""

from __future__ import annotations

import heapq
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from sluice.adapters.subject_key_port import FetchedKeyring
from sluice.core.actions.plan import sort_stages
from sluice.core.decide.kinds import DECIDING, DECISIONS, name_decision
from sluice.core.foundation.input_record import read_coordinates
from sluice.core.foundation.sealed_input import read_sealed
from sluice.core.rerun.evidence import PolicyEvidence
from sluice.core.rerun.policy_then import PolicyThen
from sluice.core.rerun.recomputation import Recomputation
from sluice.core.rerun.rerun_result import Rerun
from sluice.core.rerun.rerunner import Rerunner
from sluice.core.rerun.walk import (
    DECIDED,
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
    from sluice_topics.sealing import Keyring

_OF_ITEMS = "quality:"
CLOCKS_APART_MS = 60_000
"""A decision is written after its input; brokers' clocks differ by less than this."""


async def rerun_ids(source: LedgerSource, of: DecisionSettings, ids: Sequence[str]) -> list[Rerun]:
    """The decisions of these ids, in this order; of one id the second and later ones too, as differences.
    Raises ValueError for a text that is not an id."""
    placed_ids = [_read_place(an_id) for an_id in ids]
    places = [coordinates for coordinates, _ in placed_ids]
    async with source.open_fetcher() as reader:
        inputs = await reader.fetch_inputs(places)
        records = [
            await _fetch_decisions(reader, *placed_id, inputs.get(placed_id[0])) for placed_id in placed_ids
        ]
        inputs |= await _fetch_approved(reader, [record for these in records for record in these])
        await fetch_keys(of.keyring, inputs)
        rerunner = _make_rerunner(await source.read_policy(), of)
    pairs = zip(placed_ids, records, strict=True)
    return [rerun for sought, these in pairs for rerun in _execute(rerunner, *sought, these, inputs)]


async def rerun_all(source: LedgerSource, of: DecisionSettings) -> AsyncIterator[Rerun]:
    """Every decision that is in the ledger now, and every other record that something is wrong with. The
    sessions are recounted along the way, and inputs that were decided and are not answered are told."""
    partitions = source.open_partitions(of.group)
    walks = _Walks(source, of)
    async with source.open_fetcher() as reader:
        for number in await partitions.list_numbers():
            walk: PartitionWalk | None = None
            async for groups in group_entries(partitions.read_entries(number)):
                walk = walk or await walks.begin()
                for rerun in await _walk(walk, reader, groups):
                    yield rerun
            async for rerun in _find_unanswered(walk, partitions, number):
                yield rerun


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
    await fetch_keys(walk.rerunner.keyring, inputs)
    input_records = [
        None if group[0].coordinates is None else inputs.get(group[0].coordinates) for group in groups
    ]
    return [rerun for pair in zip(groups, input_records, strict=True) for rerun in walk.take(*pair, inputs)]


async def _find_unanswered(
    walk: PartitionWalk | None, partitions: LedgerPartitions, number: int
) -> AsyncIterator[Rerun]:
    if walk is None:
        return
    for topic in DECIDED:
        async for batch in partitions.read_decided_inputs(topic, number):
            for rerun in walk.list_unanswered(batch):
                yield rerun


async def group_entries(batches: AsyncIterator[list[LedgerEntry]]) -> AsyncIterator[list[list[LedgerEntry]]]:
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
    drawn: list[tuple[bytes, WrittenRecord]] = []
    async for batch in source.read_decisions():
        drawn = heapq.nsmallest(
            size, [*drawn, *((_draw_lot(seed, record.value), record) for record in batch)]
        )
    async with source.open_fetcher() as reader:
        return await _rerun_batch(
            _make_rerunner(await source.read_policy(), of), reader, [record for _, record in drawn]
        )


async def fetch_keys(keyring: Keyring, inputs: Inputs) -> None:
    """Have a keyring that is fetched on demand hold the keys of these inputs."""
    if isinstance(keyring, FetchedKeyring):
        sealed = [each for record in inputs.values() if (each := read_sealed(record.value)) is not None]
        key_ids = dict.fromkeys(key_id for document in sealed for key_id in document.key_ids)
        if key_ids:
            await keyring.fetch(key_ids)


def _make_rerunner(records: Sequence[InputRecord], of: DecisionSettings) -> Rerunner:
    return _replay_policy(records, of)[0]


def _replay_policy(
    records: Sequence[InputRecord], of: DecisionSettings
) -> tuple[Rerunner, PolicyThen | None]:
    evidence = PolicyEvidence()
    for record in records:
        evidence.add(record.topic, record.value)
    then = None if of.roots is None else PolicyThen(records, of.roots, of)
    return Rerunner(evidence, partial(_find_stage, of), of.version, then, of.audience, of.keyring), then


def _find_stage(of: DecisionSettings, name: str) -> Stage:
    return sort_stages([name], of.stages)[0]


def _draw_lot(seed: int, raw: bytes) -> bytes:
    return sha256(b"%d:%b" % (seed, raw)).digest()


def _read_place(an_id: str) -> tuple[Place, str]:
    """Read the input's place and the decision's own id from an id."""
    coordinates = read_coordinates(an_id)
    return coordinates, an_id if an_id.startswith(_OF_ITEMS) else name_decision(coordinates)


async def _fetch_decisions(
    reader: RecordFetcher, coordinates: Place, sought: str, input_record: InputRecord | None
) -> list[WrittenRecord]:
    since_ms = 0 if input_record is None else max(0, input_record.timestamp_ms - CLOCKS_APART_MS)
    return await reader.fetch_decisions(coordinates, sought, since_ms)


def _execute(
    rerunner: Rerunner, coordinates: Place, named: str, records: list[WrittenRecord], inputs: Inputs
) -> list[Rerun]:
    if not records:
        kind = DECISIONS[DECIDING.get(coordinates[0], DECIDING[ACTIONS]).schema]
        return [Rerun(kind.word, named, missing=(f"{kind.singular} {named}",))]
    reruns = [_check(rerunner, record, inputs.get(coordinates), inputs) for record in records]
    first = f"{records[0].topic} at offset {records[0].offset}"
    again = [describe_second_decision("id", named, first)]
    changed = [replace(rerun, differences=(*again, *rerun.differences)) for rerun in reruns[1:]]
    return [reruns[0], *(replace(rerun, whatever_version=True) for rerun in changed)]


async def _fetch_approved(
    reader: RecordFetcher, records: Sequence[WrittenRecord]
) -> dict[Place, InputRecord]:
    """The other inputs that these decisions rest on."""
    entries = (entry for record in records if (entry := read_entry(record)) is not None)
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
    rerunner: Rerunner, reader: RecordFetcher, records: Sequence[WrittenRecord]
) -> list[Rerun]:
    entries = [read_entry(record) for record in records]
    places = [None if entry is None else entry.coordinates for entry in entries]
    inputs = await _fetch_approved(reader, records)
    await fetch_keys(rerunner.keyring, inputs)
    return [
        _check(rerunner, record, None if location is None else inputs.get(location), inputs)
        for record, location in zip(records, places, strict=True)
    ]
