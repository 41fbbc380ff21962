"""The demo's traffic: publish the plan, read the ledger, until every input has its answer."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Protocol

from app.adapters.kafka.kafka_publish import publish
from app.adapters.kafka.kafka_read import open_reader
from app.adapters.kafka.kafka_topics import create
from app.demo.answers import TOPICS, Answers
from app.demo.inputs.trust import publish_policy
from app.demo.overrides import answer_escalations, make_outcomes, make_reports, make_reviews
from topics.catalog import BY_NAME

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from app.adapters.kafka.kafka_read import StoredRecord
    from app.demo.inputs.material import Material
    from app.demo.inputs.plan import Planned
    from app.demo.inputs.trust import ThrowawayTrust
    from app.demo.place import Place

PATIENCE_S = 30.0
"""How long no new answer may come before the rest counts as unanswered."""
REPLICAS = 1


class Watcher(Protocol):
    """Told how far it is; `alive` raises when there is no use in waiting any longer."""

    def progress(self, published: int, answered: int, total: int) -> None: ...

    def alive(self) -> None: ...


async def create_topics(place: Place) -> int:
    """Create the run's topics; returns how many. Raises KafkaTopicError and KafkaUnreachable."""
    return len(await create(place.bootstrap_servers, place.layout, REPLICAS))


async def converse(
    place: Place, material: Material, trust: ThrowawayTrust, watcher: Watcher, now: Callable[[], str]
) -> Answers:
    """Publish what is planned, in turn with its answers; then outcomes, reviews, stores' reports and signed
    overrides; wait until what nobody reviews has expired; then what was denied is asked for again.

    `now` gives RFC 3339 for the headers. Returns also when answers stay away: see `Answers.unanswered`.
    """
    recipe = material.recipe
    talk = _Talk(place, recipe.burst, watcher)
    names = [f"{place.prefix}{name}" for name in TOPICS]
    async with open_reader(place.bootstrap_servers, names, "beginning") as reader:
        batches = reader.follow(None)
        await talk.hold(material.opening, batches)
        await talk.hold(material.plan, batches)
        overrides = answer_escalations(talk.answers, material.library.story.override, now())
        await publish_policy(place.bootstrap_servers, place.prefix, trust.overrides(overrides.entries))
        reload = time.monotonic() + recipe.reload_s
        outcomes = make_outcomes(talk.answers, recipe, random.Random(recipe.seed), now())  # noqa: S311 - seeded
        reviews = make_reviews(talk.answers, trust.reviewer, now())
        await talk.hold([*outcomes, *reviews, *make_reports(talk.answers, now())], batches)
        await talk.outlast(recipe.review_s, batches)
        await talk.until(reload, batches)
        await talk.hold(overrides.again, batches)
    return talk.answers


class _Talk:
    def __init__(self, place: Place, burst: int, watcher: Watcher) -> None:
        self.answers = Answers(place.prefix)
        self._place = place
        self._burst = burst
        self._watcher = watcher

    async def hold(self, plan: Sequence[Planned], batches: AsyncIterator[list[StoredRecord]]) -> None:
        """Publish in bursts, reading in between; then read until all is answered or nothing comes."""
        total = self.answers.published + len(plan)
        for start in range(0, len(plan), self._burst):
            await self._publish(plan[start : start + self._burst])
            self.answers.take(await anext(batches))
            self._watcher.progress(self.answers.published, self.answers.answered, total)
        last = time.monotonic()
        while self.answers.unanswered and time.monotonic() < last + PATIENCE_S:
            self._watcher.alive()
            before = self.answers.answered
            self.answers.take(await anext(batches))
            if self.answers.answered > before:
                last = time.monotonic()
            self._watcher.progress(self.answers.published, self.answers.answered, total)

    async def outlast(self, review_s: float, batches: AsyncIterator[list[StoredRecord]]) -> None:
        """Read until nothing is held any more, or its time and our patience are over."""
        end = time.monotonic() + review_s + PATIENCE_S
        while self.answers.held and time.monotonic() < end:
            self._watcher.alive()
            self.answers.take(await anext(batches))

    async def until(self, end: float, batches: AsyncIterator[list[StoredRecord]]) -> None:
        """Read until then, by the monotonic clock."""
        while time.monotonic() < end:
            self._watcher.alive()
            self.answers.take(await anext(batches))

    async def _publish(self, burst: Sequence[Planned]) -> None:
        """Each topic's records in order, the topics side by side."""
        by_topic = {
            name: [one for one in burst if one.topic == name] for name in {one.topic for one in burst}
        }
        await asyncio.gather(*(self._publish_to(name, records) for name, records in by_topic.items()))

    async def _publish_to(self, name: str, planned: Sequence[Planned]) -> None:
        placed = await publish(
            self._place.bootstrap_servers,
            f"{self._place.prefix}{name}",
            [one.outgoing for one in planned],
            max_request_bytes=BY_NAME[name].max_message_bytes,
        )
        self.answers.expect(planned, placed)
