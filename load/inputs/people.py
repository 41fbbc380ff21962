"""People who answer escalations while workers and the broker are hurt, and agents whose actions they answer.

Several approvers answer at once, twice, with other keys, without the role, as the agent itself, with
signatures of other answers, and too late; others answer nothing. An agent that signs acts too, and others act
in its name. What must come of it is worked out a second time from the inputs as they lie on the broker,
without the core (load/recomputation/approval_recount.py). Every fault run has such people and agents beside
its other traffic; the run `approvals` has them alone.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from load.installations.approvers import (
    ASKING_AGENT,
    COUNTED,
    EXPIRED,
    FORGED,
    HASTY_AGENT,
    HASTY_MS,
    KEYS,
    LATER,
    LOOK,
    NEXT_MS,
    OPENED,
    PREFIX,
    REFUND,
    REFUSED,
    RESOLVED,
    ROWS,
    SIGNING_AGENT,
    UNREADABLE,
    WIRE,
    WhatWasSaid,
    forge_headers,
    is_of_people,
    signature_of,
)
from load.installations.fleet import RunFailed
from load.installations.installation import records_of
from sluice.adapters.kafka.kafka_read import KafkaUnreachable, open_reader
from sluice.client.kafka_connection import build_client_arguments
from sluice.core.trust.signing import sign_review
from sluice_topics.catalog import ACTIONS, ESCALATIONS, REVIEWS, SESSION_EVENTS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from load.installations.installation import TestInstallation

WAYS, HURRIED_FROM = 12, 8
ROUND = 4 * WAYS
"""After so many actions every way has come with every tool."""
SESSIONS = 17
PER_S = 6
REQUEST_TIMEOUT_MS = 120_000
LOOK_S = 0.3


class People:
    """Those who act and those who answer: each escalation in the way that its action's name says. `ends`:
    after their last record, by real topic and partition."""

    def __init__(
        self, installation: TestInstallation, producer: AIOKafkaProducer, statements: WhatWasSaid
    ) -> None:
        self.installation = installation
        self.ends: dict[tuple[str, int], int] = {}
        self._producer = producer
        self._statements = statements
        self._names = count()
        self._earlier: dict[str, Any] | None = None
        self._opened: dict[str, dict[str, Any]] = {}
        self._again: set[str] = set()
        self._late: list[asyncio.Task[None]] = []
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, *, proposing: bool) -> None:
        """Answer whatever opens from now on; `proposing`: and act at a steady rate."""
        self._tasks.append(asyncio.create_task(self._answer_all()))
        if proposing:
            self._tasks.append(asyncio.create_task(self._act()))

    async def propose(self, share: int) -> None:
        """Publish the next actions."""
        for number in (next(self._names) for _ in range(share)):
            await self._propose(number)

    async def finish(self, check: Callable[[], None], stall_s: float) -> None:
        """Act until every way has come, then wait until everything that opened has ended and every answer is
        decided. Raises RunFailed when that does not come."""
        for task in self._tasks[1:]:
            task.cancel()
        await self.propose(max(0, ROUND - next(self._names)))
        end = time.monotonic() + stall_s + HASTY_MS / 1000
        while not await self._all_ended():
            check()
            if self._tasks[0].done():
                self._tasks[0].result()
            if time.monotonic() > end:
                raise RunFailed(f"{len(self._opened)} escalations answered, and not all of them end")
            await asyncio.sleep(LOOK_S)
        await self.close()

    async def close(self) -> None:
        """End what is under way."""
        for task in (*self._tasks, *self._late):
            task.cancel()
            with suppress(asyncio.CancelledError, KafkaError):
                await task

    async def _act(self) -> None:
        while True:
            await self.propose(1)
            await asyncio.sleep(1 / PER_S)

    async def _propose(self, number: int) -> None:
        way, session = number % WAYS, f"{PREFIX}{number % SESSIONS}"
        tool = (REFUND, WIRE, LOOK, LOOK)[number // WAYS % 4]
        signs = tool == LOOK and way < 2 * len(FORGED)
        hurries = tool == REFUND and way >= HURRIED_FROM
        action = {
            "action_id": f"a-{number}",
            "agent_id": SIGNING_AGENT if signs else HASTY_AGENT if hurries else ASKING_AGENT,
            "session_id": session,
            "toolName": tool,
            "parameters": {},
            "mode": "high_stakes",
            "rows_affected": ROWS,
        }
        value = orjson.dumps(action)
        if not signs:
            await self._send(ACTIONS, session, value)
        elif way % 2:
            self._statements.signed.add(
                await self._send(
                    ACTIONS, session, value, [signature_of(self.installation.audience, value, session)]
                )
            )
        else:
            forged = forge_headers(self.installation.audience, FORGED[way // 2], value, session)
            self._statements.unsigned.add(await self._send(ACTIONS, session, value, forged))

    async def _answer_all(self) -> None:
        """Answer whatever opens, until cancelled, also where the broker goes away meanwhile."""
        names = [self.installation.real(topic) for topic in (ESCALATIONS, SESSION_EVENTS)]
        while True:
            with suppress(KafkaError, KafkaUnreachable, OSError, TimeoutError):
                async with open_reader(self.installation.cluster, names, "beginning") as reader:
                    async for batch in reader.follow(None):
                        for record in batch:
                            if is_of_people(record.key):
                                await self._answer_to(json.loads(record.value or b"{}"))
            await asyncio.sleep(LOOK_S)

    async def _answer_to(self, body: dict[str, Any]) -> None:
        """Answer what has opened. An approval that found no broker to read the action from is given again."""
        if body["schema"] == OPENED and body["escalation_id"] not in self._opened:
            await self._answer(body, int(body["action_id"].split("-")[1]) % WAYS)
            self._opened[body["escalation_id"]] = body
        if body.get("reason") == UNREADABLE and body["refusal_id"] not in self._again:
            opened = self._opened[body["subject"]]
            await self._say(opened, "victor" if opened["tier"] == "T4" else "ann")
            self._again.add(body["refusal_id"])

    async def _answer(self, opened: dict[str, Any], way: int) -> None:
        if opened["agent_id"] == HASTY_AGENT:
            if way % 2:
                self._late.append(asyncio.create_task(self._answer_after(opened, HASTY_MS + 500, "ann")))
            elif way % 4:
                self._late.append(asyncio.create_task(self._answer_after(opened, NEXT_MS + 500, LATER)))
            return
        if opened["tier"] == "T4":
            for by in ("ann", "vera", "vera", "victor"):
                await self._say(opened, by, good=by != "ann")
            return
        ways: list[Callable[[], Any]] = [
            lambda: self._too_early(opened),
            lambda: self._say(opened, "ben", "deny"),
            lambda: self._answer_at_once(opened),
            lambda: self._twice(opened),
            lambda: self._say(opened, "vera", key="audit", good=False),
            lambda: self._say(opened, "audit", good=False),
            lambda: self._say(opened, ASKING_AGENT, good=False),
            lambda: self._swap_signatures(opened),
        ]
        if way < len(ways):
            await ways[way]()
        if way > 3:
            await self._say(opened, "ann", "approve" if way % 2 else "deny")
        self._earlier = self._sign(opened, "ann")

    async def _too_early(self, opened: dict[str, Any]) -> None:
        """The later group answers before it has the escalation, if it is quick, and then the first one."""
        await self._say(opened, LATER, "deny")
        await self._say(opened, "ann")

    async def _answer_at_once(self, opened: dict[str, Any]) -> None:
        await asyncio.gather(self._say(opened, "ann"), self._say(opened, "ben", "deny"))

    async def _twice(self, opened: dict[str, Any]) -> None:
        await self._say(opened, "ann")
        await self._say(opened, "ann")

    async def _swap_signatures(self, opened: dict[str, Any]) -> None:
        """An answer to an earlier escalation as it is, and its signature on an answer to this one."""
        if self._earlier is not None:
            await self._publish(self._earlier, ("", "", ""), good=False)
            forged = {**self._sign(opened, "ann"), "signature": self._earlier["signature"]}
            await self._publish(forged, ("", "", ""), good=False)

    async def _answer_after(self, opened: dict[str, Any], after_ms: int, by: str) -> None:
        await asyncio.sleep(after_ms / 1000)
        await self._say(opened, by)

    async def _say(
        self, opened: dict[str, Any], by: str, decision: str = "approve", key: str = "", *, good: bool = True
    ) -> None:
        statement = (opened["escalation_id"], by, decision)
        await self._publish(self._sign(opened, by, decision, key), statement, good=good)

    def _sign(
        self, opened: dict[str, Any], by: str, decision: str = "approve", key: str = ""
    ) -> dict[str, Any]:
        fields = {
            "subject_id": opened["escalation_id"],
            "session_id": opened["session_id"],
            "decision": decision,
            "approver_id": by,
            "digest": opened["action_digest"],
            "justification": "a fault run",
        }
        return sign_review(fields, KEYS[key or by], self.installation.audience).model_dump(exclude_unset=True)

    async def _publish(self, review: dict[str, Any], statement: tuple[str, str, str], *, good: bool) -> None:
        coordinates = await self._send(REVIEWS, review["session_id"], orjson.dumps(review))
        self._statements.sent += 1
        if good:
            self._statements.good[coordinates] = statement

    async def _send(
        self, topic: str, session: str, value: bytes, headers: list[tuple[str, bytes]] | None = None
    ) -> tuple[int, int]:
        sending = self._producer.send_and_wait(
            self.installation.real(topic), value, key=session.encode(), headers=headers or []
        )
        placed = await asyncio.shield(sending)
        part = placed.topic, placed.partition
        self.ends[part] = max(self.ends.get(part, 0), placed.offset + 1)
        return placed.partition, placed.offset

    async def _all_ended(self) -> bool:
        """Nobody is still to answer, and all is answered."""
        return all(task.done() for task in self._late) and await have_all_ended(
            self.installation, len(self._opened)
        )


async def have_all_ended(installation: TestInstallation, escalations_seen: int) -> bool:
    """Each action has a verdict, each answer its own, each escalation was seen and has ended.

    Verdicts are read before escalations, and name them: else one that opens between the two readings would be
    missed."""
    counts, named = Counter[str](), set[str]()
    for topic in (ACTIONS, REVIEWS, VERDICTS, ESCALATIONS, SESSION_EVENTS):
        for record in await records_of(installation, topic):
            if is_of_people(record.key):
                body = json.loads(record.value or b"{}")
                counts[body.get("schema", topic)] += 1
                named |= {body["escalationId"]} if body.get("escalationId") else set()
    answered = counts[RESOLVED] + counts[COUNTED] + counts[REFUSED]
    return (
        counts["sluice/verdict/v1"] >= counts[ACTIONS]
        and answered >= counts[REVIEWS]
        and len(named) == counts[OPENED] == escalations_seen == counts[RESOLVED] + counts[EXPIRED]
    )


@asynccontextmanager
async def people_of(installation: TestInstallation, *, proposing: bool = True) -> AsyncIterator[People]:
    """The people of an installation, at work while this is open. Raises ValueError where it has none."""
    if installation.statements is None:
        raise ValueError("an installation without people")
    producer = AIOKafkaProducer(
        **build_client_arguments(installation.cluster),
        enable_idempotence=True,
        acks="all",
        request_timeout_ms=REQUEST_TIMEOUT_MS,
    )
    async with producer:
        people = People(installation, producer, installation.statements)
        people.begin(proposing=proposing)
        try:
            yield people
        finally:
            await people.close()
