"""The state of one partition number in its worker: positions, sessions, ledger chain, staged records."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from sluice.core.foundation.chain import Chain
from sluice.core.foundation.errors import run_guarded
from sluice.core.foundation.refusals import make_dead_letter
from sluice.core.state.book import Book
from sluice.core.state.decision import Shared
from sluice.stream.engine.crash_guard import RESERVED_KEY, CrashGuard, PartitionRecord
from sluice.stream.engine.evaluation import Lanes, begin_input, log_fault, receive, unread
from sluice.stream.engine.intake import Backlog, Intake
from sluice.stream.engine.observer import Unobserved
from sluice.stream.engine.outbox import Outbox
from sluice.stream.engine.policy_recorder import RecordedPolicy
from sluice.stream.engine.sessions import Sessions
from sluice.stream.feeds.provenance_work import ReferenceRequests
from sluice_topics.catalog import DESTINATION_USES, REVIEWS, SOURCE_FEEDBACK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.state.decision import Decision
    from sluice.core.state.session import SessionState
    from sluice.core.trust.policy_contents import PolicyContents
    from sluice.core.trust.refused import Refused
    from sluice.stream.engine.evaluation import InputInProgress, ReadInput, WorkerContext
    from sluice.stream.engine.outbox import Output


CONTROL_PARTITION = 0
"""The owner of this partition enters errors on control topics and the installation's alarms into the
ledger."""
RECORDS_OF_A_DECISION = 8
TRANSACTIONAL = frozenset({SOURCE_FEEDBACK, DESTINATION_USES})
"""Topics that the workers' transactions write. Their markers take offsets too, so the end is never a
record's."""


class Partition:
    """The single writer of one partition number. All methods are synchronous except those that wait."""

    def __init__(
        self,
        number: int,
        context: WorkerContext,
        table: dict[bytes, bytes],
        ends: Mapping[str, int],
        fail: Callable[[BaseException], None],
    ) -> None:
        """`table`: the recovered state of this partition. `ends`: end offset per input topic at takeover."""
        record = PartitionRecord.decode(table.get(RESERVED_KEY))
        settings = context.settings
        self.number = number
        self._context = context
        self._table = table
        self.chain = Chain(number, record.sequence, record.head, settings.decider_version)
        self._controls = dict(record.controls)
        self._unnoted: deque[Refused] = deque()
        self.intakes = {
            topic: Intake(
                topic,
                *record.positions.get(topic, (0, ())),
                halt_on_gap=settings.halt_on_offset_gap and topic not in TRANSACTIONAL,
            )
            for topic in settings.input_topics
        }
        awaited = {topic: end for topic, end in ends.items() if topic not in TRANSACTIONAL}
        self.guard = CrashGuard(
            record.marker, self.positions(), awaited, window=settings.crash_window, group=settings.crash_group
        )
        self.sessions = Sessions(table, settings.max_hot_sessions)
        self.book = Book(table)
        self.policy = RecordedPolicy(number, table)
        self._shared = Shared(self.book, context.histories, context.provenance, context.uses)
        self._reviews = Backlog()
        begin = partial(begin_input, context, self.sessions, self._shared, number)
        self.lanes = Lanes(context.ports, begin, self._finish, fail, context.wait_for_policy)
        observer = settings.observer
        watch = None if isinstance(observer, Unobserved) else (observer, context.wall_ms)
        self._outbox = Outbox(self.chain, settings.source, settings.partitions, settings.signer, watch)
        self._wanted = ReferenceRequests()
        self.staged = 0
        self.work = asyncio.Event()
        self.full = asyncio.Event()
        self._undecided = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    def positions(self) -> dict[str, int]:
        """First undecided offset per input topic."""
        return {topic: intake.resume_at for topic, intake in self.intakes.items()}

    @property
    def in_flight(self) -> int:
        """Inputs delivered to this owner and not decided. What the owner before left undecided counts once it
        is delivered again: a partition full of it could otherwise fetch nothing, for ever."""
        return sum(intake.in_flight for intake in self.intakes.values())

    def start(self, input_records: Iterable[InputRecord]) -> None:
        """Decide admitted input records in their order, each at once unless its gates send a request."""
        self._enter([receive(input_record) for input_record in input_records])

    def refuse(self, input_record: InputRecord) -> None:
        """Answer an input record without reading it."""
        self._enter([unread(input_record)])

    async def quiet(self) -> None:
        """Return when every input that was started is decided."""
        await self._quiet.wait()

    async def wait_for_policy(self) -> None:
        """Return when a decision may begin."""
        await self._context.wait_for_policy()

    def tick(self, now_ms: int) -> None:
        """Act on sessions whose time has come, and raise alarms. A session with an input in flight is left to
        its lane."""
        settings = self._context.settings
        for key in self.sessions.due(now_ms, self.lanes.waiting, settings.timer_batch):
            expire = partial(self._expire, key, now_ms)
            expired = run_guarded(expire, lambda _: None, log_fault)
            if expired is None:
                self.sessions.retry(key, now_ms + int(settings.timer_retry_s * 1000))
            else:
                self._stage(key, self.sessions.load(key), expired, None, queued_at=None)
        if self.number == CONTROL_PARTITION:
            self._raise_alarms(now_ms)

    def expire_held(self, as_of_ms: int, reviews_end: int, reviews_read: int | None) -> None:
        """Act on quarantined memories and open escalations whose time has come, but only after every review
        that had arrived at `as_of_ms` is decided: it may have come in time, however late it is read.

        `reviews_end`: what the broker gave as the end of the reviews when it was asked at `as_of_ms` or
        later; `reviews_read`: how far the consumer has read and delivered them, None if unknown.
        """
        passed = self.intakes[REVIEWS].find_passed(reviews_read)
        until = self._reviews.find_decided_until(passed, reviews_end, as_of_ms)
        if until is None:
            return
        expired = self._context.point.expire_held(self.book, until, self._context.settings.timer_batch)
        if expired is not None:
            self.book.apply(expired.book)
            self._outbox.add(expired.records, None)
            self._count_staged()

    def _raise_alarms(self, now_ms: int) -> None:
        """Raise the installation's alarms, which belong to no session."""
        raised = self._context.point.alarms(self.book, now_ms)
        if raised is not None:
            self.book.apply(raised.book)
            self._outbox.add(raised.records, None)
            self._count_staged(len(raised.records))

    def note(self, refused: Iterable[Refused]) -> None:
        """Enter the refusals of control records into the ledger, each once (partition 0's business).

        Refusals of a topic come in the order of the offsets at which the reduction made them, so it is enough
        to remember the first offset that is not entered yet. A record that waits for the rest of its change
        is not refused yet. A flood of refusals is entered over several batches, like a flood of inputs.
        """
        self._unnoted = deque(
            refusal
            for refusal in refused
            if refusal.final and refusal.at_offset >= self._controls.get(refusal.input_record.topic, 0)
        )
        self._note_some()

    def record_policy(self, contents: PolicyContents, *, starts: bool) -> None:
        """Enter into the ledger what is in force: always when a worker `starts` here, else if it changed."""
        record = self.policy.record(contents, self._context.wall_ms(), starts=starts)
        if record is not None:
            self._outbox.add([record], None)
            self._count_staged()

    def take(self, *, open_: bool) -> tuple[list[tuple[bytes, bytes | None]], list[Output]]:
        """The staged batch: changelog entries (the partition's own record last) and outputs."""
        outputs = self._outbox.take()
        record = PartitionRecord(
            self.chain.sequence,
            self.chain.head,
            {t: (i.next, tuple(i.pending)) for t, i in self.intakes.items()},
            self.guard.marker(open_=open_),
            self._controls,
        ).encode()
        others = [*self.book.flush().items(), *self.policy.flush(), (RESERVED_KEY, record)]
        entries = self.sessions.flush(others)
        self.staged = 0
        self.work.clear()
        self.full.clear()
        if open_:
            self._note_some()
        return entries, outputs

    @property
    def taken(self) -> object:
        """What the observer made of the batch that was taken last."""
        return self._outbox.taken

    def now_ms(self) -> int:
        """The time by the worker's clock, ms since 1970."""
        return self._context.wall_ms()

    @property
    def entries(self) -> int:
        """Entries of the partition's state."""
        return len(self._table)

    def list_staged_topics(self) -> set[str]:
        """The topics (base names) that the staged batch writes to in this partition."""
        return self._outbox.topics()

    def _note_some(self) -> None:
        """Enter some refusals; those of one offset, the members of a broken change, go into one batch."""
        last: tuple[str, int] | None = None
        while self._unnoted:
            refusal = self._unnoted[0]
            input_record, at = refusal.input_record, (refusal.input_record.topic, refusal.at_offset)
            if self.staged >= self._context.settings.max_batch and at != last:
                return
            last = at
            self._unnoted.popleft()
            self._controls[input_record.topic] = refusal.at_offset + 1
            dead_letter = make_dead_letter(input_record, refusal.code, refusal.path, refusal.message)
            self._outbox.add([dead_letter], input_record.traceparent)
            self._count_staged()

    def _enter(self, chunk: list[ReadInput]) -> None:
        self._undecided += len(chunk)
        self._quiet.clear()
        self.lanes.enter(chunk)

    def _finish(self, evaluation: InputInProgress, decision: Decision) -> None:
        input_record, state = evaluation.input_record, evaluation.state
        queued_at = state.due_ms if state.accounts or state.early else None
        self._stage(state.key, state, decision, input_record, queued_at=queued_at)
        self.intakes[input_record.topic].done(input_record.offset)
        self._undecided -= 1
        if not self._undecided:
            self._quiet.set()

    def _expire(self, key: bytes, now_ms: int) -> Decision | None:
        return self._context.point.expire(key, self.sessions.load(key), now_ms)

    def _stage(
        self,
        key: bytes,
        state: SessionState,
        decision: Decision,
        answered: InputRecord | None,
        *,
        queued_at: int | None,
    ) -> None:
        """Stage a decision. `answered`: the input that led to it, None: time did. `queued_at`: the session's
        time in the timers' queue, None if it is not there."""
        state.apply(decision.session)
        if decision.book:
            self.book.apply(decision.book)
        if state.accounts or state.early or self.sessions.is_known(key):
            self.sessions.touch(key, state, queued_at)
        traceparent = None if answered is None else answered.traceparent
        self._outbox.add(self._wanted.sift(decision.records), traceparent, answered)
        self._count_staged(len(decision.records))

    def _count_staged(self, records: int = 1) -> None:
        """Count a staged decision; one with very many records counts as several, so that a batch has a
        bounded size."""
        self.staged += 1 + records // RECORDS_OF_A_DECISION
        self.work.set()
        if self.staged >= self._context.settings.max_batch:
            self.full.set()
