"""Single records looked up on a real broker: parents of memories, content of held ones, their decisions."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from sluice.adapters.kafka.kafka_consumers import KafkaCompacted
from sluice.adapters.kafka.kafka_inputs import KafkaHeldInput
from sluice.adapters.kafka.kafka_lineage import KafkaLineage, LineageBounds
from sluice.adapters.kafka.kafka_quarantine import KafkaQuarantine
from sluice.core.foundation.requests import HELD_INPUT, ask_for_input
from sluice.ports import PortUnavailable
from sluice.stream.engine.evaluation import Ports
from sluice_topics.catalog import MEMORY_DECISIONS, MEMORY_WRITES, SOURCE_HISTORIES
from tests.kafka.laid_memories import (
    PARTITIONS,
    TRUST,
    Memories,
    decision,
    find_result,
    memories,
    memory,
    question,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


pytestmark = pytest.mark.kafka

NARROW = LineageBounds(connections=2, of_one_tenant=1, scanned=100, further=10)


@pytest_asyncio.fixture
async def laid(kafka: str, prefix: str) -> Memories:
    return await memories(kafka, prefix)


@pytest_asyncio.fixture
async def lineage(laid: Memories) -> AsyncIterator[KafkaLineage]:
    port = KafkaLineage(laid.servers, laid.names, PARTITIONS, NARROW)
    yield port
    await port.close()


async def anew(laid: Memories, asked: object) -> object:
    """The answer of a worker that has just started."""
    port = KafkaLineage(laid.servers, laid.names, PARTITIONS)
    try:
        return await port.ask(asked)
    finally:
        await port.close()


async def test_parents_are_found_by_their_ids_for_their_own_tenant(
    laid: Memories, lineage: KafkaLineage
) -> None:
    await laid.inputs(3)
    await laid.lay(MEMORY_DECISIONS, [decision(0), decision(1, trustScore=None)])
    ids = [memory(offset) for offset in (0, 1, 2, 0, 99)]
    assert await lineage.ask(question(*ids)) == find_result(o0=TRUST, o1=None, o2=None, o99=None)
    assert await lineage.ask(question(memory(0), tenant="other")) == find_result(o0=None)
    await laid.lay(MEMORY_DECISIONS, [decision(2)])
    assert await lineage.ask(question(memory(2))) == find_result(o2=TRUST)


async def test_a_decision_that_does_not_know_the_write_lends_a_parent_no_trust(
    laid: Memories, lineage: KafkaLineage
) -> None:
    """Mend 22.3: a stranger's record under a memory's id, written before its write came."""
    place = {"topic": MEMORY_WRITES, "partition": 0, "offset": 0}
    forged = [
        decision(0, input=place, trustScore={"total": 1.0}),
        decision(0, input={**place, "digest": "sha256:" + "00" * 32}, trustScore={"total": 1.0}),
        decision(0, input=None, trustScore={"total": 1.0}),
    ]
    await laid.lay(MEMORY_DECISIONS, forged)
    await laid.inputs(1)
    assert await lineage.ask(question(memory(0))) == find_result(o0=None)
    await laid.lay(MEMORY_DECISIONS, [decision(0)])
    assert await lineage.ask(question(memory(0))) == find_result(o0=TRUST)


@pytest.mark.parametrize("others", [range(1, 31), [1] * 120])
async def test_a_decision_that_can_no_longer_come_is_not_looked_for_again(
    laid: Memories, lineage: KafkaLineage, others: list[int]
) -> None:
    await laid.inputs(1)
    await laid.lay(MEMORY_DECISIONS, [decision(offset) for offset in others])
    assert await lineage.ask(question(memory(0))) == find_result(o0=None)
    await laid.lay(MEMORY_DECISIONS, [decision(0)])
    assert await lineage.ask(question(memory(0))) == find_result(o0=None)
    assert await anew(laid, question(memory(0))) == find_result(o0=TRUST)


async def test_a_tenant_whose_parents_take_long_leaves_room_for_others(
    laid: Memories, lineage: KafkaLineage
) -> None:
    await laid.inputs(8, partition=0)
    await laid.inputs(1, partition=1)
    await laid.lay(MEMORY_DECISIONS, [decision(0, partition=1)], partition=1)
    async with laid.transaction(MEMORY_DECISIONS):  # which every lookup in partition 0 waits for
        slow = [asyncio.create_task(lineage.ask(question(memory(n), tenant="slow"))) for n in range(8)]
        await asyncio.wait(slow, timeout=0)
        async with asyncio.timeout(60):
            answer = await lineage.ask(question(memory(0, partition=1)))
        assert not any(task.done() for task in slow)
    assert answer == {"parents": {memory(0, partition=1): TRUST}}
    assert await asyncio.gather(*slow) == [{"parents": {memory(n): None}} for n in range(8)]


async def test_what_was_committed_beside_an_open_transaction_is_found(laid: Memories) -> None:
    await laid.inputs(1)
    quarantine = KafkaQuarantine(laid.servers, laid.names)
    async with laid.transaction(MEMORY_DECISIONS):
        await laid.lay(MEMORY_DECISIONS, [decision(0)])
        asked = asyncio.create_task(anew(laid, question(memory(0))))
        read = asyncio.create_task(quarantine.fetch_decision(memory(0), 0, 0))
        await asyncio.wait([asked, read], timeout=2)
    assert await asked == find_result(o0=TRUST)
    assert await read == decision(0)


async def test_a_held_input_beside_an_open_transaction_is_still_there(laid: Memories) -> None:
    held = KafkaHeldInput(laid.servers, laid.names)
    async with laid.transaction(MEMORY_WRITES):
        await laid.inputs(1)
        assert await held.ask(place(1)) == b"input 0"
    await held.close()


async def test_a_thousand_approvals_at_once_get_their_contents(laid: Memories) -> None:
    """Within the budget of each."""
    for partition in range(PARTITIONS):
        await laid.inputs(5000, partition)
    held = KafkaHeldInput(laid.servers, laid.names)
    ports, places = Ports({HELD_INPUT: held}), [place(n * 9, n % PARTITIONS) for n in range(500)]
    answers = await asyncio.gather(*(ports.answer(ask_for_input(**one)) for one in places * 2))
    assert Counter(answer.status for answer in answers) == {"answered": 1000}
    assert [answer.payload for answer in answers[:500]] == [f"input {n * 9}".encode() for n in range(500)]
    await held.close()


async def test_whoever_asks_again_for_what_came_before_gets_it_while_another_is_looked_for(
    laid: Memories,
) -> None:
    """The round that answered it once must not end with its absence."""
    await laid.inputs(400)
    held = KafkaHeldInput(laid.servers, laid.names)

    async def ask_twice() -> list[object]:
        return [await held.ask(place(0)), await held.ask(place(0))]

    twice, _, once = await asyncio.gather(ask_twice(), held.ask(place(200)), held.ask(place(399)))
    assert twice[0] == twice[1]
    assert once is not None
    await held.close()


async def test_an_input_that_is_not_there_is_named_and_holds_up_nobody(laid: Memories) -> None:
    await laid.inputs(2)
    held = KafkaHeldInput(laid.servers, laid.names)
    one, gone, another = await asyncio.gather(
        *(held.ask(place(offset)) for offset in (0, 7, 1)), return_exceptions=True
    )
    assert (one, another) == (b"input 0", b"input 1")
    assert isinstance(gone, PortUnavailable)
    assert str(gone).endswith(":0:7 is no longer there")
    await held.close()


async def test_a_decision_that_only_names_the_memory_as_a_parent_is_not_its_own(laid: Memories) -> None:
    child = decision(0, seen={"parents": [{"memory_id": memory(1)}]})
    await laid.lay(MEMORY_DECISIONS, [child, decision(1)])
    quarantine = KafkaQuarantine(laid.servers, laid.names)
    assert await quarantine.fetch_decision(memory(1), 0, 0) == decision(1)
    assert await quarantine.fetch_decision(memory(1), 10_000, 0) is None, "there is no such partition"


def place(offset: int, partition: int = 0) -> dict[str, Any]:
    """What the core asks for when a memory is approved."""
    return {"topic": MEMORY_WRITES, "partition": partition, "offset": offset}


def make_asking(laid: Memories) -> list[Callable[[], Any]]:
    """New readers, each with the coroutine function that connects it."""
    lineage = KafkaLineage(laid.servers, laid.names, PARTITIONS)
    held = KafkaHeldInput(laid.servers, laid.names)
    histories = KafkaCompacted(laid.servers, laid.names[SOURCE_HISTORIES], PARTITIONS)
    return [
        lambda: (lineage, lineage.ask(question(memory(0)))),
        lambda: (held, held.ask(place(0))),
        lambda: (histories, anext(histories.to_end())),
    ]


@pytest.mark.parametrize("reader", range(3), ids=["lineage", "held input", "histories"])
async def test_whoever_stops_waiting_for_a_connection_leaves_none_open(laid: Memories, reader: int) -> None:
    await laid.inputs(1)
    left: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, said: left.append(said["message"]))
    for turns in range(0, 60, 3):
        port, asked = make_asking(laid)[reader]()
        await cancel(asked, turns)
        await port.close()
        del port, asked
        gc.collect()
    assert left == []


async def test_a_connection_that_one_question_stopped_waiting_for_serves_the_next(laid: Memories) -> None:
    await laid.inputs(1)
    held = KafkaHeldInput(laid.servers, laid.names)
    for turns in range(20):
        await cancel(held.ask(place(0)), turns)
    assert await held.ask(place(0)) == b"input 0"
    await held.close()


async def cancel(asked: Any, turns: int) -> None:
    """Give the question so many turns of the loop, then stop waiting."""
    task = asyncio.ensure_future(asked)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
