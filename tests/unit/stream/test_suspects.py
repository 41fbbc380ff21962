"""Mend 8: inputs in flight at a crash stay suspects until they are read, however long that takes."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

from sluice.core.foundation.input_record import InputRecord
from sluice.stream.engine.crash_guard import RESERVED_KEY, CrashGuard, Marker, PartitionRecord, Trial
from sluice.stream.engine.evaluation import Ports, WorkerContext
from sluice.stream.engine.intake import Intake
from sluice.stream.engine.outbox import home_of
from sluice.stream.engine.owned import Owned
from sluice.stream.engine.partition import Partition
from sluice.stream.engine.writer import Linger
from sluice_topics.catalog import ACTIONS
from tests.unit.core.scene import START, action, point
from tests.unit.stream.engine_settings import engine_settings, fail

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.stream.engine.transaction import Batch, Transactor

PARTITIONS = 8
NUMBER = home_of(b"s-1", PARTITIONS)
FIRST, END = 3, 6
"""Undecided at the crash: the offsets 3 to 5."""
TURNS = 50


class Commits:
    """The markers of all transactions, in order."""

    def __init__(self) -> None:
        self.markers: list[Marker] = []

    async def begin(self, topics: list[str]) -> None:
        pass

    async def write(self, batch: Batch) -> int:
        record = PartitionRecord.decode(dict(batch.changelog)[RESERVED_KEY])
        self.markers.append(record.marker)
        return len(self.markers)

    async def stop(self) -> None:
        pass


def start_after_crash(
    commits: Commits, next_offset: int = FIRST, pending: tuple[int, ...] = (), **more: Any
) -> tuple[Owned, Partition]:
    """`more`: of the worker's context."""
    left = PartitionRecord(positions={ACTIONS: (next_offset, pending)}, marker=Marker(open=True))
    table = {RESERVED_KEY: left.encode()}
    settings = engine_settings(ACTIONS, partitions=PARTITIONS)
    context = WorkerContext(point(), Ports({}), settings, {}, **more)
    partition = Partition(NUMBER, context, table, {ACTIONS: END}, fail)
    transactor = cast("Transactor", commits)
    return Owned(partition, transactor, settings, Linger(0.0, 0.0), fail, asyncio.Lock()), partition


def input_record(offset: int) -> InputRecord:
    raw = json.dumps(action(action_id=f"a-{offset}")).encode()
    return InputRecord(ACTIONS, NUMBER, offset, START + offset, b"s-1", raw)


def read_to(offset: int | None) -> Callable[[str, int], int | None]:
    return lambda *_: offset


async def turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def test_a_fetch_that_is_slow_to_come_leaves_the_suspects_suspect() -> None:
    commits = Commits()
    owned, partition = start_after_crash(commits)
    await owned.open()
    for position in (None, 0, FIRST, FIRST):
        owned.note_read(read_to(position))
        await turns()
    assert partition.guard.group_until == {ACTIONS: END}
    owned.offer([input_record(offset) for offset in range(FIRST, END)])
    await turns()
    assert Trial(ACTIONS, FIRST, END, crashes=1) in [marker.trial for marker in commits.markers]
    assert partition.guard.group_until == {}
    assert partition.positions() == {ACTIONS: END}
    await owned.close()


async def test_suspects_begin_only_under_a_current_policy() -> None:
    """Their commit before may take longer than a policy counts."""
    commits, current = Commits(), asyncio.Event()

    async def wait_for_policy() -> float:
        await current.wait()
        return 0.0

    owned, partition = start_after_crash(commits, wait_for_policy=wait_for_policy)
    await owned.open()
    owned.offer([input_record(offset) for offset in range(FIRST, END)])
    await turns()
    assert Trial(ACTIONS, FIRST, END, crashes=1) in [marker.trial for marker in commits.markers]
    assert partition.positions() == {ACTIONS: FIRST}
    current.set()
    await turns()
    assert partition.positions() == {ACTIONS: END}
    await owned.close()


async def test_suspects_that_are_never_delivered_are_forgotten_once_they_have_been_read_past() -> None:
    """They were markers of a producer's transaction, or it was rolled back: nothing waits for them."""
    commits = Commits()
    owned, partition = start_after_crash(commits)
    await owned.open()
    owned.note_read(read_to(END - 1))
    await turns()
    assert partition.guard.group_until == {ACTIONS: END}
    owned.note_read(read_to(END))
    await turns()
    assert partition.guard.group_until == {}
    assert commits.markers[-1] == Marker(open=True)
    await owned.close()


async def test_an_owner_has_room_however_much_the_one_before_left_undecided() -> None:
    """Mend 22: the one before had been delivered all that it takes at once, and gave the partition away while
    it tried suspects. The next owner counted that as delivered and fetched nothing, for ever."""
    commits, most = Commits(), engine_settings().max_in_flight
    owned, partition = start_after_crash(commits, FIRST + 2 * most, tuple(range(FIRST, FIRST + 2 * most)))
    await owned.open()
    assert owned.has_room()
    owned.offer([input_record(offset) for offset in range(FIRST, FIRST + most)])
    assert not owned.has_room()
    for _ in range(most):
        await turns()
    assert (partition.in_flight, partition.positions(), owned.has_room()) == (
        0,
        {ACTIONS: FIRST + most},
        True,
    )
    await owned.close()


def test_no_time_makes_the_guard_calm_only_what_was_decided_and_read() -> None:
    guard = CrashGuard(Marker(open=True), {ACTIONS: FIRST}, {ACTIONS: END}, window=32, group=4)
    intake = Intake(ACTIONS, FIRST)
    assert [guard.calm({ACTIONS: intake.find_passed(read)}) for read in (None, 0, FIRST, END - 1, END)] == [
        False,
        False,
        False,
        False,
        True,
    ]


def test_what_was_delivered_and_is_not_decided_is_not_passed_however_far_was_read() -> None:
    intake = Intake(ACTIONS, 10, pending=(7, 9))
    intake.admit(7)
    assert intake.find_passed(12) == 7
    intake.done(7)
    assert intake.find_passed(12) == 12  # 9 was not handed over: it is gone


def test_no_suspect_lies_behind_the_end_of_a_topic_that_was_made_anew() -> None:
    left = Marker(True, None, {ACTIONS: 90}, {ACTIONS: 90})
    guard = CrashGuard(left, {ACTIONS: 0}, {ACTIONS: 5}, window=32, group=4)
    assert guard.calm({ACTIONS: 5})
