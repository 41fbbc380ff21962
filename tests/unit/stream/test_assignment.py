"""How a worker takes up partitions: nobody else may commit any more before the policy is read."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING, cast

from sluice.core.trust.in_force import InForce
from sluice.stream.engine.engine import Engine, Feeds
from sluice.stream.engine.evaluation import Ports
from sluice.stream.feeds.policy_feed import PolicyFeed
from sluice.stream.feeds.shared_feeds import Kept, ProvenanceFeed, SourceFeed, UseFeed
from sluice.stream.process import SystemClock
from sluice_topics.catalog import ACTIONS
from tests.unit.stream.engine_settings import engine_settings, fail

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.foundation.input_record import InputRecord
    from sluice.stream.engine.transaction import Transactor

NUMBERS = {2, 5}
ASSIGNED = ["fence", "fence", "read the policy", "read the histories", "read the references", "read the uses"]


class Broker:
    """Writes down what is asked of it, in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = asyncio.Event()
        self.answers.set()

    async def to_end(self) -> list[InputRecord]:
        self.asked.append("read the policy")
        return []

    async def close(self) -> None:
        pass


class Topic:
    """A compacted topic."""

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker = broker
        self._name = name

    async def to_end(self) -> AsyncIterator[list[bytes]]:
        self._broker.asked.append(f"read the {self._name}")
        yield []

    async def close(self) -> None:
        pass


class Fence:
    """The producer of one partition number."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def start(self) -> None:
        self._broker.asked.append("fence")

    async def stop(self) -> None:
        await self._broker.answers.wait()


class Model:
    """A port that takes its time to get ready."""

    def __init__(self, broker: Broker, *, hangs: bool = False) -> None:
        self._broker = broker
        self._hangs = hangs

    async def ask(self, payload: object) -> object:
        return payload

    async def start(self) -> None:
        self._broker.asked.append("start the model")
        if self._hangs:
            await asyncio.Event().wait()

    async def close(self) -> None:
        pass


async def test_ports_are_started_once_and_before_any_former_owner_is_fenced() -> None:
    """Meanwhile it may commit; a port that is asked a lot by the next assignment holds nothing up."""
    broker = Broker()
    engine = _engine(broker, Model(broker))
    await engine.assign(NUMBERS)
    await engine.assign(NUMBERS)
    assert broker.asked == ["start the model", *ASSIGNED, *ASSIGNED]


async def test_a_port_that_never_gets_ready_is_named_and_waited_for_no_longer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = Broker()
    async with asyncio.timeout(10):
        await _engine(broker, Model(broker, hangs=True)).assign(NUMBERS)
    assert broker.asked == ["start the model", *ASSIGNED]
    assert "the port model is not ready after 0.01 s" in caplog.text


async def test_the_policy_is_read_once_every_former_owner_is_fenced() -> None:
    """One who is not may decide under a policy that is newer than what was read before."""
    broker = Broker()
    await _engine(broker).assign(NUMBERS)
    assert broker.asked == ASSIGNED


async def test_what_a_rebalance_left_behind_is_collected_before_the_next_begins() -> None:
    class Connection:
        other: Connection

    ends = Connection(), Connection()
    ends[0].other, ends[1].other = ends[1], ends[0]
    left = weakref.ref(ends[0])
    gc.collect()
    gc.disable()
    try:
        del ends
        assert left() is not None
        await _engine(Broker()).assign(NUMBERS)
        assert left() is None
    finally:
        gc.enable()


async def test_a_stop_during_a_revocation_waits_for_what_that_closes() -> None:
    broker = Broker()
    engine = _engine(broker)
    await engine.assign(NUMBERS)
    broker.answers.clear()
    revoked, stopped = asyncio.create_task(engine.drain()), asyncio.create_task(engine.drain())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not stopped.done()
    broker.answers.set()
    await asyncio.gather(revoked, stopped)


def _engine(broker: Broker, model: Model | None = None) -> Engine:
    policy = PolicyFeed(cast("DecisionPoint", None), broker, lambda _: InForce(None, ()), 0.0, 60.0)
    return Engine(
        Feeds(
            policy,
            SourceFeed(Topic(broker, "histories"), 0.0),
            ProvenanceFeed(Topic(broker, "references"), 0.0, Kept(1, 1), lambda: 0),
            UseFeed(Topic(broker, "uses"), 0.0),
        ),
        Ports({} if model is None else {"model": model}),
        engine_settings(ACTIONS, max_batch=1, max_in_flight=1, halt_on_offset_gap=True, port_patience_s=0.01),
        lambda _: cast("Transactor", Fence(broker)),
        SystemClock(),
        fail,
    )
