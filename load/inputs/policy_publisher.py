"""Publishes changes of the policy, record by record, until told that it is enough; knows where each lies."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiokafka import AIOKafkaProducer

from load.inputs.policy_traffic import PolicyTraffic

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator

    from load.inputs.policy_traffic import ControlEvent
    from load.sites.site import Site

Spot = tuple[str, int]
"""Base topic and offset: a control topic has one partition."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A control record with its broker's time."""

    event: ControlEvent
    spot: Spot
    timestamp_ms: int


class PolicyPublisher:
    """Made by `changing`. Not transactional, so that workers see each half of a change by itself."""

    def __init__(
        self,
        site: Site,
        producer: AIOKafkaProducer,
        rng: random.Random,
        traffic: PolicyTraffic,
        pause_s: float,
    ) -> None:
        self._site = site
        self._producer = producer
        self._rng = rng
        self._traffic = traffic
        self._pause_s = pause_s
        self._enough = False
        self._task = asyncio.create_task(self._run())
        self.placed: list[Placed] = []

    @property
    def due(self) -> int:
        """How many of the records so far the ledger must say to be refused."""
        return sum(one.event.due is not None for one in self.placed)

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
        topic = self._site.real(event.topic)
        where = await self._producer.send_and_wait(topic, event.value, event.key)
        self.placed.append(Placed(event, (event.topic, where.offset), where.timestamp))


@asynccontextmanager
async def changing(site: Site, rng: random.Random, pause_s: float) -> AsyncIterator[PolicyPublisher]:
    """The policy changes for as long as this is open; `pause_s` lies between two records on average."""
    producer = AIOKafkaProducer(bootstrap_servers=site.bootstrap_servers, enable_idempotence=True)
    async with producer:
        publisher = PolicyPublisher(site, producer, rng, PolicyTraffic(rng, site.trust), pause_s)
        try:
            yield publisher
        finally:
            await publisher.abandon()
