"""What a partition that is given away leaves in memory: nothing, without the collector, which runs rarely."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import pytest

from sluice.core.decide.kinds import BY_TOPIC
from sluice.core.foundation.input_record import InputRecord
from sluice.stream.engine.crash_guard import RESERVED_KEY, Marker, PartitionRecord
from sluice.stream.engine.evaluation import Ports, WorkerContext
from sluice.stream.engine.owned import Owned
from sluice.stream.engine.partition import Partition
from sluice.stream.engine.writer import Linger
from sluice_topics.catalog import ACTIONS, MEMORY_WRITES, REVIEWS
from tests.unit.core.memory.write_scene import REVIEWERS, STRANGER, memory_bundle, review, write
from tests.unit.core.scene import START, action, point
from tests.unit.stream.engine_settings import engine_settings, fail
from tests.unit.stream.test_partition_memory import NUMBER, PARTITIONS, Inputs, make_held
from tests.unit.stream.test_suspects import Commits, turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.stream.engine.transaction import Transactor


@contextmanager
def collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("crashed", [False, True])
async def test_a_partition_that_is_given_away_is_freed_at_once(*, crashed: bool) -> None:
    """Also while an input waits for its port, and while inputs in flight at a crash are tried."""
    table: dict[bytes, bytes] = {}
    entered = make_held(table)
    port = Inputs(b"")
    settings = engine_settings(*BY_TOPIC, partitions=PARTITIONS)
    point_in_force = point(*REVIEWERS, policy=memory_bundle())
    context = WorkerContext(point_in_force, Ports({"held_input": port}), settings, {})
    if crashed:
        table[RESERVED_KEY] = PartitionRecord(marker=Marker(open=True)).encode()
    partition = Partition(NUMBER, context, table, {ACTIONS: 9} if crashed else {}, fail)
    transactor = cast("Transactor", Commits())
    owned = Owned(partition, transactor, settings, Linger(0.0, 0.0), fail, asyncio.Lock())
    await owned.open()
    for topic, record in (
        (ACTIONS, action()),
        (MEMORY_WRITES, write(derived_from=[STRANGER])),
        (REVIEWS, review(entered, "approve")),
    ):
        raw = json.dumps(record).encode()
        offset = partition.intakes[topic].next
        owned.offer([InputRecord(topic, NUMBER, offset, START, b"s-1", raw)])
    if not crashed:
        await asyncio.wait_for(port.asked.wait(), 5)
    owned.tick(START)
    await turns()
    with collector_off():
        await owned.close()
        state = weakref.ref(partition)
        del partition, owned
        await turns()
        assert state() is None
