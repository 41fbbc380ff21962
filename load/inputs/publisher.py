"""Publishers of traffic at a steady rate, and of changes of the policy record by record, until told to stop.

Each knows where its records lie.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaProducer

from load.inputs.policy_traffic import PolicyTraffic
from load.installations.installation import KIND_HEADER
from sluice.client.kafka_connection import build_client_arguments
from sluice_topics.catalog import MAX_INPUT_MESSAGE_BYTES, REGISTRY

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Iterable

    from load.inputs.policy_traffic import ControlEvent
    from load.inputs.traffic import Traffic
    from load.installations.installation import TestInstallation, TrafficRecord

MAX_UNPLACED = 5000
CLOSE_S = 10.0
REQUEST_TIMEOUT_MS = 120_000  # longer than any outage, so that no input is given up and none published twice


@dataclass(frozen=True, slots=True)
class Pace:
    """`rate` in events a second, sent every `tick_s` seconds; behind `plenty` of them a quarter of it."""

    rate: float
    tick_s: float = 0.05
    plenty: int | None = None

    @property
    def burst(self) -> int:
        """Events a tick."""
        return max(1, round(self.rate * self.tick_s))

    def count_next(self, sent: int) -> int:
        """Events in the tick that follows so many."""
        return self.burst if self.plenty is None or sent < self.plenty else max(1, self.burst // 4)


class Publisher:
    """Idempotent, so the broker holds each input once and a session's inputs in order."""

    def __init__(self, installation: TestInstallation, traffic: Traffic, pace: Pace) -> None:
        self._installation = installation
        self._traffic = traffic
        self._pace = pace
        self._producer = AIOKafkaProducer(
            **build_client_arguments(installation.cluster),
            enable_idempotence=True,
            linger_ms=10,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            max_request_size=2 * MAX_INPUT_MESSAGE_BYTES,
        )
        self._unplaced: set[asyncio.Future[Any]] = set()
        self._task: asyncio.Task[None] | None = None
        self._at_least: int | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.sent = 0
        self.ends: dict[tuple[str, int], int] = {}

    async def start(self) -> None:
        """Begin to publish."""
        await self._producer.start()
        self._task = asyncio.create_task(self._run())

    async def pause(self) -> None:
        """Publish nothing until `resume`; return when all that was published is placed. Raises KafkaError."""
        self._flowing.clear()
        await asyncio.gather(*self._unplaced)

    def resume(self) -> None:
        """Go on publishing."""
        self._flowing.set()

    async def insert(self, event: TrafficRecord) -> None:
        """Publish one more event now."""
        await self._send([event])

    async def finish(self, at_least: int) -> None:
        """Go on until `at_least` events are sent; return when all are placed. Raises KafkaError."""
        self._at_least = at_least
        self.resume()
        if self._task is not None:
            await self._task
        await self._send(self._traffic.rest())
        await asyncio.gather(*self._unplaced)

    def check(self) -> None:
        """Raise what ended the publishing before its time."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def close(self) -> None:
        """Stop at once; what a broker that is away has not taken is given up."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._producer.stop()

    async def _run(self) -> None:
        while self._at_least is None or self.sent < self._at_least:
            await self._flowing.wait()
            if len(self._unplaced) < MAX_UNPLACED:
                await self._send(islice(self._traffic, self._pace.count_next(self.sent)))
            await asyncio.sleep(self._pace.tick_s)

    async def _send(self, events: Iterable[TrafficRecord]) -> None:
        for event in events:
            placed = await self._producer.send(
                self._installation.real(event.topic),
                event.value,
                event.key,
                headers=[(KIND_HEADER, event.kind.encode())],
            )
            self._unplaced.add(placed)
            placed.add_done_callback(partial(self._note_placed, event))
            self.sent += 1

    def _note_placed(self, event: TrafficRecord, future: asyncio.Future[Any]) -> None:
        if future.cancelled() or future.exception() is not None:
            return  # it stays among the unplaced, where `finish` meets the exception
        self._unplaced.discard(future)
        where = future.result()
        if event.topic == REGISTRY:
            return  # every worker reads it, and none commits where it is
        part = (where.topic, where.partition)
        self.ends[part] = max(self.ends.get(part, 0), where.offset + 1)
        self._traffic.note_placed(event, where.partition, where.offset, where.timestamp)


Spot = tuple[str, int]
"""Base topic and offset: a control topic has one partition."""


@dataclass(frozen=True, slots=True)
class PublishedChange:
    """A control record with its broker's time."""

    event: ControlEvent
    spot: Spot
    timestamp_ms: int


class PolicyPublisher:
    """Made by `changing`. Not transactional, so that workers see each half of a change by itself."""

    def __init__(
        self,
        installation: TestInstallation,
        producer: AIOKafkaProducer,
        rng: random.Random,
        traffic: PolicyTraffic,
        pause_s: float,
    ) -> None:
        self._installation = installation
        self._producer = producer
        self._rng = rng
        self._traffic = traffic
        self._pause_s = pause_s
        self._enough = False
        self._task = asyncio.create_task(self._run())
        self.placed: list[PublishedChange] = []

    @property
    def due(self) -> int:
        """How many of the records so far the ledger must say to be refused."""
        return sum(change.event.due is not None for change in self.placed)

    async def finish(self) -> None:
        """End after the step that it is at. Raises KafkaError that ended it before."""
        self._enough = True
        await self._task

    async def abandon(self) -> None:
        """End at once."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        while not self._enough:
            for event in next(self._traffic):
                await self._place(event)
                await asyncio.sleep(self._rng.uniform(0, 2 * self._pause_s))

    async def _place(self, event: ControlEvent) -> None:
        topic = self._installation.real(event.topic)
        where = await self._producer.send_and_wait(topic, event.value, event.key)
        self.placed.append(PublishedChange(event, (event.topic, where.offset), where.timestamp))


@asynccontextmanager
async def change_policy(
    installation: TestInstallation, rng: random.Random, pause_s: float
) -> AsyncIterator[PolicyPublisher]:
    """The policy changes for as long as this is open; `pause_s` lies between two records on average."""
    producer = AIOKafkaProducer(**build_client_arguments(installation.cluster), enable_idempotence=True)
    async with producer:
        publisher = PolicyPublisher(
            installation, producer, rng, PolicyTraffic(rng, installation.trust), pause_s
        )
        try:
            yield publisher
        finally:
            await publisher.abandon()
