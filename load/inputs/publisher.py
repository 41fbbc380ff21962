"""Publishes traffic at a steady rate until told that it is enough, and knows where each input lies."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaProducer

from load.sites.events import KIND_HEADER
from topics.catalog import MAX_INPUT_MESSAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from load.inputs.traffic import Traffic
    from load.sites.events import Event
    from load.sites.site import Site

MAX_UNPLACED = 5000
CLOSE_S = 10.0
REQUEST_TIMEOUT_MS = 120_000  # longer than any outage, so that no input is given up and none published twice


@dataclass(frozen=True, slots=True)
class Pace:
    """`rate` in events a second, sent every `tick_s` seconds."""

    rate: float
    tick_s: float = 0.05

    @property
    def burst(self) -> int:
        """Events a tick."""
        return max(1, round(self.rate * self.tick_s))


class Publisher:
    """Idempotent, so the broker holds each input once and a session's inputs in order."""

    def __init__(self, site: Site, traffic: Traffic, pace: Pace) -> None:
        self._site = site
        self._traffic = traffic
        self._pace = pace
        self._producer = AIOKafkaProducer(
            bootstrap_servers=site.bootstrap_servers,
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

    async def insert(self, event: Event) -> None:
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
                await self._send(islice(self._traffic, self._pace.burst))
            await asyncio.sleep(self._pace.tick_s)

    async def _send(self, events: Iterable[Event]) -> None:
        for event in events:
            placed = await self._producer.send(
                self._site.real(event.topic),
                event.value,
                event.key,
                headers=[(KIND_HEADER, event.kind.encode())],
            )
            self._unplaced.add(placed)
            placed.add_done_callback(partial(self._placed, event))
            self.sent += 1

    def _placed(self, event: Event, future: asyncio.Future[Any]) -> None:
        if future.cancelled() or future.exception() is not None:
            return  # it stays among the unplaced, where `finish` meets the exception
        self._unplaced.discard(future)
        where = future.result()
        place = (where.topic, where.partition)
        self.ends[place] = max(self.ends.get(place, 0), where.offset + 1)
        self._traffic.placed(event, where.partition, where.offset, where.timestamp)
