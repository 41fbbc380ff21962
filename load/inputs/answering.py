"""People who answer escalations by all channels at once, and agents whose actions they answer.

Each action's number says how its escalation is answered: by one person, by two who disagree, by one person
twice, without the role, by the quorum, too late, or not at all. A person who learns nothing answers again.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from load.inputs.answer_channels import PersonAnswer
from load.inputs.people import have_all_ended
from load.installations.approvers import (
    ASKING_AGENT,
    EXPIRED,
    HASTY_AGENT,
    HASTY_MS,
    OPENED,
    PREFIX,
    REFUND,
    RESOLVED,
    ROWS,
    WIRE,
    is_of_people,
)
from load.installations.fleet import RunFailed
from sluice.adapters.kafka.kafka_read import open_reader
from sluice_topics.catalog import ACTIONS, ESCALATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aiokafka import AIOKafkaProducer

    from load.inputs.answer_channels import AnswerChannel, Told
    from load.installations.installation import TestInstallation

WAYS, WIRED_FROM, HURRIED_FROM = 12, 6, 9
SESSIONS = 17
AT_ONCE = 24
PATIENCE_S, AGAIN_S, LOOK_S = 300.0, 0.3, 0.3


@dataclass(slots=True)
class SubmittedAnswer:
    """An answer that a channel gave. `may_count`: its person may answer this escalation. `result`: what
    the person learnt, at `told_ms` since 1970."""

    answer: PersonAnswer
    channel: str
    may_count: bool
    result: Told = "again"
    tries: int = 0
    told_ms: int = 0


@dataclass(slots=True)
class Participants:
    """Who acts and who answers. `submitted`: all answers, by their justification."""

    installation: TestInstallation
    producer: AIOKafkaProducer
    channels: Sequence[AnswerChannel]
    submitted: dict[str, SubmittedAnswer] = field(default_factory=dict)
    _names: itertools.count[int] = field(default_factory=itertools.count)
    _opened: set[str] = field(default_factory=set)
    _ended: set[str] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _following: asyncio.Task[None] | None = None
    _busy: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    def begin(self) -> None:
        """Answer whatever opens from now on."""
        self._following = asyncio.create_task(self._follow())

    async def propose(self, share: int) -> None:
        """Publish the next actions."""
        for number in itertools.islice(self._names, share):
            way, session = number % WAYS, f"{PREFIX}{number % SESSIONS}"
            action = {
                "action_id": f"a-{number}",
                "agent_id": HASTY_AGENT if way >= HURRIED_FROM else ASKING_AGENT,
                "session_id": session,
                "toolName": WIRE if WIRED_FROM <= way < HURRIED_FROM else REFUND,
                "parameters": {"number": number},
                "mode": "high_stakes",
                "rows_affected": ROWS,
            }
            await self.producer.send_and_wait(
                self.installation.real(ACTIONS), orjson.dumps(action), key=session.encode()
            )

    async def finish(self, check: Callable[[], None], stall_s: float) -> None:
        """Wait until everything that opened has ended and every answer is decided. Raises RunFailed where no
        answer ends for `stall_s` seconds."""
        clock = asyncio.get_running_loop().time
        left, since = len(self._tasks), clock()
        while self._tasks or not await have_all_ended(self.installation, len(self._opened)):
            self.check()
            check()
            if len(self._tasks) != left:
                left, since = len(self._tasks), clock()
            if clock() > since + stall_s + HASTY_MS / 1000:
                raise RunFailed(f"{len(self._opened)} escalations answered, {left} answers under way")
            await asyncio.sleep(LOOK_S)
        await self.close()

    def check(self) -> None:
        """Raise what ended the reader of escalations or an answer."""
        for task in (self._following, *self._tasks):
            if task is not None and task.done():
                task.result()

    async def close(self) -> None:
        """End what is under way."""
        tasks = [task for task in (self._following, *self._tasks) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def counts(self) -> Counter[str]:
        """Answers by their channel."""
        return Counter(answer.channel for answer in self.submitted.values())

    async def _follow(self) -> None:
        async with open_reader(
            self.installation.cluster, [self.installation.real(ESCALATIONS)], "beginning"
        ) as reader:
            async for batch in reader.follow(None):
                for record in batch:
                    body = json.loads(record.value or b"{}")
                    if is_of_people(record.key) and body["schema"] in (RESOLVED, EXPIRED):
                        self._ended.add(body["escalation_id"])
                    if is_of_people(record.key) and body["schema"] == OPENED:
                        self._opened.add(body["escalation_id"])
                        self._answer(body, int(body["action_id"].split("-")[1]))

    def _answer(self, opened: dict[str, Any], number: int) -> None:
        """In the way of the action's number; which channels take part moves on with each round."""
        way, turn = number % WAYS, number // WAYS + number
        late_s = HASTY_MS / 1000 + 0.5
        plans: dict[int, list[tuple[str, str, float]]] = {
            0: [("ann", "approve", 0.0)],
            1: [("ben", "deny", 0.0)],
            2: [("ann", "approve", 0.0), ("ben", "deny", 0.0)],
            3: [("ann", "approve", 0.0), ("ann", "approve", 0.0)],
            4: [
                ("ann", "approve", 0.0),
                ("ben", "approve", 0.0),
                ("vera", "deny", 0.0),
                ("victor", "approve", 0.0),
            ],
            5: [("audit", "approve", 0.0), ("ben", "approve", 0.5)],
            6: [("vera", "approve", 0.0), ("victor", "approve", 0.0)],
            7: [
                ("ann", "approve", 0.0),
                ("vera", "approve", 0.0),
                ("vera", "approve", 0.0),
                ("victor", "approve", 0.5),
            ],
            8: [("vera", "approve", 0.0), ("victor", "deny", 0.0)],
            9: [],
            10: [("ann", "approve", late_s)],
            11: [("ann", "approve", 0.0), ("ben", "deny", 0.0)],
        }
        for index, (person, decision, after_s) in enumerate(plans[way]):
            channel = self.channels[(turn + index) % len(self.channels)]
            why = f"answer {len(self.submitted)} to action {number} by {channel.name}"
            may_count = person in (
                ("vera", "victor") if opened["tier"] == "T4" else ("ann", "ben", "vera", "victor")
            )
            answer = SubmittedAnswer(PersonAnswer(opened, person, decision, why), channel.name, may_count)
            self.submitted[why] = answer
            task = asyncio.create_task(self._give(channel, answer, after_s))
            self._tasks.add(task)
            task.add_done_callback(self._note_done)

    def _note_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._tasks.discard(task)

    async def _give(self, channel: AnswerChannel, answer: SubmittedAnswer, after_s: float) -> None:
        await asyncio.sleep(after_s)
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while asyncio.get_running_loop().time() < end:
            answer.tries += 1
            async with self._busy:
                answer.result = await channel.give(answer.answer)
            if answer.result == "moved":
                is_over = answer.answer.opened["escalation_id"] in self._ended
                answer.result = "closed" if is_over else "again"
            if answer.result != "again":
                answer.told_ms = time.time_ns() // 1_000_000
                return
            await asyncio.sleep(AGAIN_S)
        raise RunFailed(f"{answer.channel} answered nothing for {PATIENCE_S:.0f} s: {answer.answer.why}")
