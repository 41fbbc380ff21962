"""The core without a shell: inputs in, decisions out, sessions in memory. No Kafka, no clock, no task.

It takes the way that a worker takes (sluice/stream/engine/evaluation.py, sluice/stream/engine/partition.py):
the same reading, the same decision point, the same answer to a fault of the core.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sluice.core.decide.decision_point import NOTHING_SHARED
from sluice.core.decide.kinds import read_input_message
from sluice.core.foundation.errors import run_guarded
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.requests import Answer, next_request
from sluice.core.state.book import Book, UseCounted
from sluice.core.state.decision import Shared
from sluice.core.state.history import UNSEEN, SourceName
from sluice.core.state.session import KEY_PREFIX, SessionState, session_key
from sluice_topics.catalog import DESTINATION_USES, SOURCE_FEEDBACK
from sluice_topics.record_reading import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.decide.kinds import Message
    from sluice.core.foundation.chain import OutRecord
    from sluice.core.foundation.requests import Request
    from sluice.core.policy.kind import AnyKind
    from sluice.core.state.decision import Decision
    from sluice.core.state.history import History
    from sluice.core.state.usual import UseCount, UsualName

T = TypeVar("T")


def nobody(request: Request) -> Answer:
    """No port is there."""
    return Answer("unavailable", detail=f"no port named {request.port}")


def drive(evaluation: Generator[Request, Answer, T], answer: Callable[[Request], Answer]) -> T:
    """Run an evaluation to its end, each of its requests answered by `answer`."""
    try:
        request = next_request(evaluation)
        while True:
            request = next_request(evaluation, answer(request))
    except StopIteration as decided:
        decision: T = decided.value
        return decision


def decide(
    point: DecisionPoint,
    input_record: InputRecord,
    state: SessionState,
    answer: Callable[[Request], Answer] = nobody,
    shared: Shared = NOTHING_SHARED,
) -> Decision:
    """The decision on an input as a worker makes it. It changes neither `state` nor `shared`; `answer` must
    not raise."""
    unread: Callable[[str], Message | Unreadable | None] = lambda _: None  # noqa: E731 - typed for guarded
    message = run_guarded(partial(read_input_message, input_record), unread)
    if message is None:
        return point.unread(input_record)
    if isinstance(message, Unreadable):
        return point.unreadable(input_record, message)
    return run_guarded(
        lambda: drive(point.evaluate(input_record, message, state, shared), answer),
        partial(point.fault, input_record, message, state),
    )


def decide_alone(
    point: DecisionPoint,
    kind: AnyKind,
    fields: Mapping[str, Any],
    at_ms: int,
    *,
    number: int = 0,
    answer: Callable[[Request], Answer] = nobody,
) -> Decision:
    """The decision on one input in a new session of its own.

    `fields` are the record by wire names, with a session; `number` is the input's offset.
    """
    session_id = str(fields["session_id"])
    value = json.dumps(fields).encode()
    input_record = InputRecord(kind.topic, 0, number, at_ms, session_id.encode(), value)
    return decide(point, input_record, SessionState(session_key(session_id)), answer)


class Replay:
    """Sessions in memory over one decision point, with a quarantine and source histories of their own.

    What is learnt of a source or a use is known to the next input: there is no other worker to wait for.
    `point`: the decision point in force; another one may take its place.
    """

    def __init__(self, point: DecisionPoint, answer: Callable[[Request], Answer] = nobody) -> None:
        self.point = point
        self._answer = answer
        self._sessions: dict[bytes, SessionState] = {}
        self._histories: dict[SourceName, History] = {}
        self._uses: dict[UsualName, UseCount] = {}
        self.book = Book({})

    def take(self, input_record: InputRecord) -> Decision:
        """Decide on the next input; its session changes at once. What expired before it comes first."""
        most = len(self.book) + len(self.book.open)
        gone = self.point.expire_held(self.book, input_record.timestamp_ms, most)
        if gone is not None:
            self.book.apply(gone.book)
        decision = self._decide(input_record)
        if gone is not None:
            decision.records = [*gone.records, *decision.records]
        return decision

    def session(self, key: bytes) -> SessionState:
        """The session of this Kafka key as it is now."""
        return self._sessions.get(KEY_PREFIX + key) or SessionState(KEY_PREFIX + key)

    def _decide(self, input_record: InputRecord) -> Decision:
        key = KEY_PREFIX + (input_record.key or b"")
        state = self._sessions.get(key) or SessionState(key)
        shared = Shared(self.book, self._histories, uses=self._uses)
        decision = decide(self.point, input_record, state, self._answer, shared)
        state.apply(decision.session)
        if state.gone:
            self._sessions.pop(key, None)
        else:
            self._sessions[key] = state
        self.book.apply(decision.book)
        decision.records = [record for record in decision.records if not self._learnt(record)]
        return decision

    def _learnt(self, record: OutRecord) -> bool:
        if record.topic == DESTINATION_USES:
            self._count_use(record)
            return True
        if record.topic != SOURCE_FEEDBACK:
            return False
        body = record.body
        name = SourceName(body["tenant_id"], body["source_id"])
        history = self._histories.get(name, UNSEEN)
        self._histories[name] = history.add(body["type"], body["verdict"])
        return True

    def _count_use(self, record: OutRecord) -> None:
        """What an agent used is counted at once, as if its partition were this one."""
        raw = json.dumps(record.body).encode()
        input_record = InputRecord(record.topic, 0, 0, record.body["used_at"], record.subject.encode(), raw)
        counted = decide(self.point, input_record, SessionState(b""), shared=Shared(self.book))
        self.book.apply(counted.book)
        for change in counted.book:
            if isinstance(change, UseCounted):
                self._uses[change.name] = change.use_count
                if change.use_count.is_forgotten:
                    del self._uses[change.name]
