"""What is published in a run of the demo, and what is read in between."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Protocol

from sluice.adapters.kafka.kafka_publish import publish
from sluice.adapters.kafka.kafka_read import open_reader
from sluice_demo.answers import TOPICS, DemoAnswers
from sluice_demo.follow_ups import (
    make_approvals,
    make_outcomes,
    make_reports,
    make_reviews,
    override_items,
)
from sluice_demo.invoice import InvoicePayment, pay_invoice
from sluice_demo.judged_actions import DemoJudgement, judge_actions
from sluice_demo.material import TENANT
from sluice_demo.refunds import ESCALATED, SESSION, Refund, make_refunds
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import BY_NAME, REPORTED, REVIEWS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from sluice.adapters.kafka.kafka_read import StoredRecord
    from sluice_demo.material import Material, Planned, RunOptions
    from sluice_demo.run_location import RunLocation, Worker
    from sluice_topics.access import Role

PATIENCE_S = 30.0
"""How long no new answer may come before the rest counts as unanswered."""


_WRITERS: dict[str, Role] = {REVIEWS: "approver", REPORTED: "store"}
"""Who publishes inputs of a topic; all others an agent."""


class Step(Protocol):
    """A step under way."""

    def say(self, detail: str) -> None:
        """Say the result of the step."""

    def show_progress(self, published: int, answered: int, total: int) -> None:
        """Show how far the publishing and the answering are."""


class Talk:
    """A run's traffic: it publishes inputs and reads the ledger in between."""

    def __init__(
        self, location: RunLocation, material: Material, options: RunOptions, step: Step, worker: Worker
    ) -> None:
        self._location, self._material, self._options = location, material, options
        self._step, self._worker = step, worker
        self.refunds: list[Refund] = []
        """What became of what the agent behind the client wanted."""
        self.judged: list[DemoJudgement] = []
        """What the gates made of the actions that are meant for one of them."""
        self.payments: list[InvoicePayment] = []
        """What became of the payments of an invoice."""
        self._answers = DemoAnswers(location.prefix, material.config.recipe.story.session)

    async def run(self) -> DemoAnswers:
        """Publish what is planned, and let the agent behind the client begin; then publish outcomes, reviews,
        approvals, stores' reports and signed overrides; wait until what nobody answered has expired; then
        ask again for what was denied.

        Returns also when answers stay away: see `DemoAnswers.unanswered`.
        """
        config, now, trust, answers = (
            self._material.config,
            self._options.now,
            self._options.trust,
            self._answers,
        )
        recipe, location = config.recipe, self._location
        names = [f"{location.prefix}{name}" for name in TOPICS]
        async with open_reader(location.connect("auditor"), names, "beginning") as reader:
            batches = reader.follow(None)
            judged = asyncio.create_task(judge_actions(location, self._material.judged))
            await self._exchange(self._material.opening, batches)
            await self._exchange(self._material.plan, batches)
            patience_s = recipe.review_s + PATIENCE_S
            refunds = asyncio.create_task(make_refunds(location, trust, patience_s))
            payments = asyncio.create_task(pay_invoice(location, trust, TENANT, self._material.invoice))
            await self._read(batches, lambda: not (refunds.done() or self._is_refund_waiting()))
            await self._read(batches, lambda: not payments.done())
            self.payments = await payments
            overrides = override_items(answers, config.readings.story.override, now())
            await publish_policy(
                location.connect("policy-owner"), location.prefix, trust.sign_overrides(overrides.entries)
            )
            in_force = time.monotonic() + recipe.reload_s
            rng = random.Random(recipe.seed)  # noqa: S311 - seeded
            follow_ups = [
                *make_outcomes(answers, recipe, rng, now()),
                *make_reviews(answers, config.memories, trust, location.prefix, now()),
                *make_approvals(answers, recipe.approvals, trust, location.prefix, now()),
                *make_reports(answers, config.readings.story, now()),
            ]
            await self._exchange(follow_ups, batches)
            expired = time.monotonic() + patience_s
            await self._read(batches, lambda: answers.quarantined > 0 and time.monotonic() < expired)
            self.refunds = await refunds
            await self._read(batches, lambda: not judged.done())
            self.judged = await judged
            await self._read(batches, lambda: time.monotonic() < in_force)
            await self._exchange(overrides.again, batches)
        return answers

    def list_shown(self) -> tuple[list[Refund], list[DemoJudgement], list[InvoicePayment]]:
        """What became of what agents wanted that are shown apart."""
        return self.refunds, self.judged, self.payments

    def _is_refund_waiting(self) -> bool:
        opened = [
            escalation for escalation in self._answers.escalations if escalation["session_id"] == SESSION
        ]
        return len(opened) == ESCALATED

    async def _exchange(self, plan: Sequence[Planned], batches: AsyncIterator[list[StoredRecord]]) -> None:
        """Publish in bursts, reading in between; then read until all is answered or nothing comes."""
        answers, burst = self._answers, self._material.config.recipe.burst
        total = answers.published + len(plan)
        for start in range(0, len(plan), burst):
            await self._publish(plan[start : start + burst])
            answers.take(await anext(batches))
            self._step.show_progress(answers.published, answers.answered, total)
        answered, last = answers.answered, time.monotonic()

        def is_waiting() -> bool:
            nonlocal answered, last
            if answers.answered > answered:
                answered, last = answers.answered, time.monotonic()
            self._step.show_progress(answers.published, answered, total)
            return bool(answers.unanswered) and time.monotonic() < last + PATIENCE_S

        await self._read(batches, is_waiting)

    async def _read(self, batches: AsyncIterator[list[StoredRecord]], waiting: Callable[[], bool]) -> None:
        """Read as long as this is worth waiting for. Raises WorkerError when the worker has ended."""
        while waiting():
            self._worker.check()
            self._answers.take(await anext(batches))

    async def _publish(self, burst: Sequence[Planned]) -> None:
        """Each topic's records in order, the topics side by side."""

        async def publish_to(name: str) -> None:
            planned = [planned_input for planned_input in burst if planned_input.topic == name]
            topic, most = f"{self._location.prefix}{name}", BY_NAME[name].max_message_bytes
            records = [message.outgoing for message in planned]
            cluster = self._location.connect(_WRITERS.get(name, "agent"))
            placed = await publish(cluster, topic, records, max_request_bytes=most)
            self._answers.expect(planned, placed)

        await asyncio.gather(*map(publish_to, {planned.topic for planned in burst}))
