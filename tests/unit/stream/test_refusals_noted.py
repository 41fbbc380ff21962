"""Refused control records in the ledger: each once, and a flood of them over several batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sluice.core.foundation.input_record import InputRecord
from sluice.core.trust.refused import Reason, Refused
from sluice.stream.engine.evaluation import Ports, WorkerContext
from sluice.stream.engine.partition import Partition
from sluice_topics.catalog import ACTIONS, OUTCOMES, REGISTRY
from tests.unit.stream.engine_settings import engine_settings, fail

if TYPE_CHECKING:
    from sluice.core.decide.decision_point import DecisionPoint

BATCH = 4


def keeper(table: dict[bytes, bytes]) -> Partition:
    nothing_is_decided = cast("DecisionPoint", None)
    settings = engine_settings(ACTIONS, OUTCOMES, partitions=1, max_batch=BATCH, max_in_flight=8)
    return Partition(0, WorkerContext(nothing_is_decided, Ports({}), settings, {}), table, {}, fail)


def garbage(records: int) -> list[Refused]:
    reason = Reason("unsigned", "$", "not a DSSE envelope")
    return [
        Refused(InputRecord(REGISTRY, 0, offset, 1, b"x", b"!"), reason, offset) for offset in range(records)
    ]


def enter(partition: Partition, *, open_: bool = True) -> int:
    _, outputs = partition.take(open_=open_)
    return len(outputs)


def test_a_flood_of_refused_control_records_is_entered_a_batch_at_a_time() -> None:
    partition = keeper({})
    partition.note(garbage(10))
    sizes = []
    while partition.work.is_set():
        sizes.append(enter(partition))
    assert sizes == [BATCH, BATCH, 2]


def test_what_a_closing_owner_has_not_entered_the_next_one_does() -> None:
    table: dict[bytes, bytes] = {}
    former = keeper(table)
    former.note(garbage(6))
    assert enter(former, open_=False) == BATCH
    assert not former.work.is_set()
    following = keeper(table)
    following.note(garbage(6))
    assert enter(following) == 2
    assert not following.work.is_set()


def test_a_longer_list_of_refusals_during_a_flood_repeats_none() -> None:
    partition = keeper({})
    partition.note(garbage(6))
    first = enter(partition)
    partition.note(garbage(7))
    assert first + enter(partition) + enter(partition) == 7
