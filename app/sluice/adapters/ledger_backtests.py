"""A back-test over a ledger on a broker, in an archive or in a package: each partition by itself, several
processes at a time."""

from __future__ import annotations

import asyncio
import gc
import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from typing import TYPE_CHECKING, NamedTuple

from sluice.adapters.ledger_reruns import fetch_keys, group_entries
from sluice.core.backtest.backtest_tally import BacktestTally
from sluice.core.backtest.partition_backtest import BacktestPeriod, PartitionBacktest
from sluice.core.rerun.policy_then import PolicyThen
from sluice.core.rerun.walk import list_places

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence

    from sluice.core.rerun.policy_then import Candidate, DecisionSettings
    from sluice.core.rerun.walk import Inputs, LedgerEntry, LedgerSource, RecordFetcher


class Backtest(NamedTuple):
    """What is tested: the ledger, what was in force when, the same with the candidate in its place, and which
    inputs. `group`: the workers' consumer group."""

    source: LedgerSource
    then: PolicyThen
    candidate: PolicyThen
    period: BacktestPeriod
    group: str


async def prepare_backtest(
    source: LedgerSource, settings: DecisionSettings, candidate: Candidate, period: BacktestPeriod
) -> Backtest | None:
    """Read what was in force when; None where no root key is set, so that nobody can tell. Raises
    RegistryError for an entry of the candidate that does not validate. What the candidate marks as personal
    is judged as it came: under it senders would have sealed it."""
    if settings.roots is None:
        return None
    then = PolicyThen(await source.read_policy(), settings.roots, replace(settings, demands_sealed=False))
    return Backtest(source, then, then.replace_by(candidate), period, settings.group)


async def run_backtest(backtest: Backtest, processes: int) -> BacktestTally:
    """Decide on every input of the period again; what comes of it, of all partitions together. `processes`:
    at most so many at a time, 1 for this process alone."""
    numbers = await backtest.source.open_partitions(backtest.group).list_numbers()
    whole = BacktestTally()
    async for tally in _run_partitions(backtest, numbers, min(processes, len(numbers))):
        whole.add(tally)
    return whole


async def _run_partitions(
    backtest: Backtest, numbers: Sequence[int], processes: int
) -> AsyncIterator[BacktestTally]:
    if processes <= 1:
        for number in numbers:
            yield await _run_partition(backtest, number)
        return
    loop = asyncio.get_running_loop()
    with _open_pool(backtest, processes) as pool:
        running = [loop.run_in_executor(pool, _run_inherited, number) for number in numbers]
        for tally in asyncio.as_completed(running):
            yield await tally


@contextmanager
def _open_pool(backtest: Backtest, processes: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that inherit what was read and compiled: neither can be sent to them."""
    gc.freeze()
    try:
        with ProcessPoolExecutor(processes, get_context("fork"), _inherit, (backtest,)) as pool:
            yield pool
    finally:
        gc.unfreeze()


_INHERITED: list[Backtest] = []


def _inherit(backtest: Backtest) -> None:
    _INHERITED.append(backtest)


def _run_inherited(number: int) -> BacktestTally:
    return asyncio.run(_run_partition(_INHERITED[0], number))


async def _run_partition(backtest: Backtest, number: int) -> BacktestTally:
    walk = PartitionBacktest(backtest.then, backtest.candidate, backtest.period)
    partitions = backtest.source.open_partitions(backtest.group)
    async with backtest.source.open_fetcher() as reader:
        entries = group_entries(partitions.read_entries(number, backtest.period.read_ms))
        batches = _fetch_inputs(walk, reader, entries)
        coming = asyncio.create_task(_get_next(batches))
        try:
            while (batch := await coming) is not None:
                coming = asyncio.create_task(_get_next(batches))
                await asyncio.to_thread(_decide, walk, batch)
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
            await batches.aclose()
    return walk.close()


class _Batch(NamedTuple):
    """Records, those of one input together, and the inputs that they rest on."""

    groups: Sequence[Sequence[LedgerEntry]]
    inputs: Inputs


async def _get_next(batches: AsyncIterator[_Batch]) -> _Batch | None:
    """The next batch, read while the one before is decided in a thread; else each process would stand still
    as long as the broker takes for its answers, and the broker while it decides."""
    return await anext(batches, None)


async def _fetch_inputs(
    walk: PartitionBacktest, reader: RecordFetcher, batches: AsyncIterator[list[list[LedgerEntry]]]
) -> AsyncGenerator[_Batch, None]:
    async for groups in batches:
        entries = (entry for group in groups for entry in group)
        wanted = [entry for entry in entries if walk.period.has_input(entry.fields["input"])]
        inputs = await reader.fetch_inputs(list_places(wanted))
        await fetch_keys(walk.then.decision_settings.keyring, inputs)
        yield _Batch(groups, inputs)


def _decide(walk: PartitionBacktest, batch: _Batch) -> None:
    groups, inputs = batch
    for group in groups:
        coordinates = group[0].coordinates
        walk.take(group, None if coordinates is None else inputs.get(coordinates), inputs)


def count_processors() -> int:
    """How many processes may run at a time here."""
    return len(os.sched_getaffinity(0))
