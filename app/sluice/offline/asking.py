"""Ports for commands without a worker: the command asks and waits for the answer, without a deadline."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from sluice.core.foundation.requests import Answer
from sluice.ports import Persistent, PortBusy, PortUnavailable
from sluice_topics.catalog import ACTIONS, MEMORY_WRITES

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.foundation.requests import Request
    from sluice.core.state.book import Book
    from sluice.core.state.decision import Decision
    from sluice.core.state.escalation import Escalation
    from sluice.core.state.quarantined import QuarantinedMemory
    from sluice.ports import Port


class Asking:
    """Asks ports from code that is not asynchronous. A context manager: closes what lasts."""

    def __init__(self, ports: Mapping[str, Port]) -> None:
        """Nothing is started before the first question."""
        self._ports = ports
        self._runner = asyncio.Runner()
        self.unanswered: Counter[str] = Counter()
        """Questions that got no answer, by port."""

    def __enter__(self) -> Self:
        """Ready to ask."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close what was asked."""
        self._runner.run(self._close())
        self._runner.close()

    def answer(self, request: Request) -> Answer:
        """The answer to one request."""
        return self.answer_all([request])[0]

    def answer_all(self, requests: Sequence[Request]) -> list[Answer]:
        """The answers to requests that are asked at once, in their order: a port may batch them."""
        return self._runner.run(self._ask_together(requests))

    async def _ask_together(self, requests: Sequence[Request]) -> list[Answer]:
        answers = await asyncio.gather(*map(self._ask_request, requests))
        for request, answer in zip(requests, answers, strict=True):
            self.unanswered[request.port] += answer.status != "answered"
        return list(answers)

    async def _ask_request(self, request: Request) -> Answer:
        port = self._ports.get(request.port)
        if port is None:
            return Answer("unavailable", detail=f"no port named {request.port}")
        try:
            return Answer("answered", await port.ask(request.payload))
        except PortUnavailable as reason:
            return Answer("unavailable", detail=str(reason))
        except PortBusy as full:
            return Answer("busy", detail=str(full))

    async def _close(self) -> None:
        for port in self._ports.values():
            if isinstance(port, Persistent):
                await port.close()


class NotMeasured(Exception):
    """A port did not answer, so that no figure would mean anything; the message says why."""


if TYPE_CHECKING:
    Ask = Callable[[Sequence[Request]], list[Answer]]
    """Answers requests together, in their order."""
    Judge = Callable[..., Decision]
    """Decides one input, by `answer` for each of its requests."""
TOGETHER = 256
"""Inputs whose questions are asked at once."""


def decide_together(judges: Iterable[Judge], ask: Ask, may_fail: Container[str] = ()) -> Iterator[Decision]:
    """Return the decision of each judge, in their order; their questions are asked together, so that a port
    may batch them.

    Raises NotMeasured where a port does not answer, unless it is one of `may_fail`.
    """
    waiting = iter(judges)
    while going := [_Going(judge, may_fail) for judge in islice(waiting, TOGETHER)]:
        left = [run for run in going if run.decide()]
        while left:
            answers = ask([run.open for run in left if run.open is not None])
            for run, answer in zip(left, answers, strict=True):
                run.take(answer)
            left = [run for run in left if run.decide()]
        yield from (run.decision for run in going)


class _Going:
    """An input on its way: decided again with each answer, until nothing is asked that has none."""

    def __init__(self, judge: Judge, may_fail: Container[str]) -> None:
        self.open: Request | None = None
        self._judge = judge
        self._may_fail = may_fail
        self._answered: list[tuple[Request, Answer]] = []

    def decide(self) -> bool:
        """Whether an answer is missing: `open` asks for it. Else `decision` is the input's."""
        self.open = None
        self.decision = self._judge(answer=self._answer)
        return self.open is not None

    def take(self, answer: Answer) -> None:
        """The answer to what is open. Raises NotMeasured where it is none."""
        if self.open is None or (answer.status != "answered" and self.open.port not in self._may_fail):
            raise NotMeasured(answer.detail or answer.status)
        self._answered.append((self.open, answer))

    def _answer(self, request: Request) -> Answer:
        for asked, answer in self._answered:
            if asked == request:
                return answer
        self.open = self.open or request
        return Answer("unavailable", detail="not asked yet")


class HeldInputs:
    """Keeps the bytes of what is in quarantine or escalated, and forgets them with it."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, int, int], bytes | None] = {}

    def note(self, input_record: InputRecord, book: Book) -> None:
        """Keep an input that was just decided on; forget what `book` holds no more."""
        if input_record.topic in (MEMORY_WRITES, ACTIONS):
            self._values[(input_record.topic, input_record.partition, input_record.offset)] = (
                input_record.value
            )
        if len(self._values) > len(book) + len(book.open):
            waiting: list[QuarantinedMemory | Escalation] = [*book.all_held, *book.open.oldest_first()]
            waiting_for = {(record.topic, record.partition, record.offset) for record in waiting}
            self._values = {
                coordinates: value
                for coordinates, value in self._values.items()
                if coordinates in waiting_for
            }

    async def ask(self, payload: object) -> object:
        """The value's bytes at `payload` {topic, partition, offset}. Raises PortUnavailable."""
        coordinates: Any = payload
        value = self._values.get((coordinates["topic"], coordinates["partition"], coordinates["offset"]))
        if value is None:
            raise PortUnavailable(f"nothing that waits was read at {coordinates}")
        return value


Place = tuple[str | None, float | None, bool | None]
"""Tenant, trust when decided, and whether a person let it through (None: no person was asked)."""


class EarlierDecisions:
    """The memories of every line so far: tenant, trust, and the word of a reviewer."""

    def __init__(self) -> None:
        self._memories: dict[str, Place] = {}

    def note(self, decision: Decision) -> None:
        """Take in what was just decided."""
        for record in decision.records:
            body = record.body
            if record.kind == "MemoryDecision":
                score = body["trustScore"]
                trust = None if score is None else score["total"]
                self._memories[body["memory_id"]] = (body["tenant_id"], trust, None)
            elif record.kind in ("QuarantineApproved", "QuarantineRejected"):
                tenant, trust, _ = self._memories[body["memory_id"]]
                self._memories[body["memory_id"]] = (tenant, trust, record.kind == "QuarantineApproved")

    async def ask(self, payload: object) -> object:
        """`payload` {tenant, memories, approved}: {parents: trust by id}, null for an id of no such
        memory."""
        asked: Any = payload
        return {
            "parents": {
                memory_id: self._find_trust(memory_id, asked["tenant"], asked["approved"])
                for memory_id in asked["memories"]
            }
        }

    def _find_trust(self, memory_id: str, tenant: str, approved: float) -> float | None:
        """Find the trust of a memory: at least `approved` where a person approved it, 0 where a person
        rejected it."""
        owner, trust, let_through = self._memories.get(memory_id, (None, None, None))
        if owner != tenant or trust is None:
            return None
        if let_through is None:
            return trust
        return max(trust, approved) if let_through else 0
