"""Inputs on their way through the core: each is read, evaluated, may wait for an answer, and is then decided.

Reading needs no state, so a whole chunk is read before any of it is decided: code and data of each phase stay
in the processor's cache, which measures 15 % of the whole. For a request the shell awaits the named port
within the request's budget.

Lanes keep the order within each session while many sessions run: a session that waits delays only its own
inputs. An input whose evaluation sends no request, or only requests whose answers are at hand, is decided in
the same synchronous step in which it is delivered; a lane (and a task) exists only while a session waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from sluice.core.decide.kinds import goes_by_stages, read_input_message
from sluice.core.foundation.errors import CanonicalError, run_guarded
from sluice.core.foundation.requests import LAST_PAUSE, MANDATE_WAIT, PAUSE, READY, Answer, Request
from sluice.core.foundation.sealed_input import SUBJECT_KEYS
from sluice.core.registry.keys import digest_mandate
from sluice.core.state.session import KEY_PREFIX
from sluice.ports import AnalysisOff, Cached, Crowding, Persistent, Port, PortBusy, PortUnavailable, Queued
from sluice.stream.engine.observer import Unobserved
from sluice.stream.engine.outbox import home_of
from sluice.stream.process import start_task
from sluice_topics.record_reading import Unreadable
from sluice_topics.records import TaskMandate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence

    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.decide.kinds import Message
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.metadata.provenance import Resolution
    from sluice.core.state.decision import Decision, Shared
    from sluice.core.state.history import History, SourceName
    from sluice.core.state.session import SessionState
    from sluice.core.state.usual import UseCount, UsualName
    from sluice.stream.engine.engine_settings import EngineSettings
    from sluice.stream.engine.observer import EngineObserver
    from sluice.stream.engine.sessions import Sessions


log = logging.getLogger(__name__)


def log_fault(fault: Exception) -> None:
    """Log what the core raised at an input."""
    log.error("the core raised; the input is answered internal_error", exc_info=fault)


@dataclass(frozen=True, slots=True)
class ReadInput:
    """`message` is the record, why it is none, or None for an input that is not to be looked into.
    `session_key`: the table's key of its session. `has_deadline`: whether it matters how long it waited."""

    input_record: InputRecord
    message: Message | Unreadable | None
    session_key: bytes
    has_deadline: bool = False

    def measure_wait(self, now_ms: int) -> ReadInput:
        """With the time since the broker took it; a clock behind the broker's makes it none."""
        waited_ms = max(0, now_ms - self.input_record.timestamp_ms)
        return replace(self, input_record=replace(self.input_record, waited_ms=waited_ms))


def receive(input_record: InputRecord) -> ReadInput:
    """Read an input record. If the reader raises, the input is answered without being read."""
    message = run_guarded(partial(read_input_message, input_record), _answer_nothing, log_fault)
    has_deadline = getattr(message, "deadline_ms", None) is not None
    return ReadInput(input_record, message, KEY_PREFIX + (input_record.key or b""), has_deadline)


def unread(input_record: InputRecord) -> ReadInput:
    """An input record whose bytes are left alone."""
    return ReadInput(input_record, None, KEY_PREFIX + (input_record.key or b""))


def _answer_nothing(reason: str) -> Message | Unreadable | None:
    del reason
    return None


class Ports:
    """This worker's ports, by the name that stages use."""

    def __init__(self, ports: Mapping[str, Port], observer: EngineObserver | None = None) -> None:
        self._ports = ports
        self._observer = observer or Unobserved()
        self._counted = {name for name, port in ports.items() if not isinstance(port, AnalysisOff)}
        self._queued = {name: port for name, port in ports.items() if isinstance(port, Queued)}
        self._recalling = {name: port for name, port in ports.items() if isinstance(port, Cached)}
        self._begun = False

    async def start(self, patience_s: float) -> None:
        """Make every port ready within this time; a port that is not ready answers as unavailable.

        Only the first call has an effect; later ones return at once, even if the ports are busy.
        """
        if self._begun:
            return
        self._begun = True
        await asyncio.gather(*(_start(name, port, patience_s) for name, port in self._ports.items()))

    async def close(self) -> None:
        """Close the ports."""
        for port in self._ports.values():
            if isinstance(port, Persistent):
                await port.close()

    def recall(self, request: Request) -> Answer | None:
        """The answer if the port has it at hand, else None."""
        port = self._recalling.get(request.port)
        stored = None if port is None else port.recall(request.payload)
        if stored is None:
            return None
        if request.port in self._counted:
            self._observer.note_at_hand(request.port)
        return Answer("answered", stored)

    async def answer(self, request: Request) -> Answer:
        """The answer with which the core is resumed. Any exception except PortUnavailable and PortBusy is
        an I/O fault and is raised."""
        began_s = asyncio.get_running_loop().time()
        answer = await self._answer(request)
        if request.port in self._counted:
            took_s = asyncio.get_running_loop().time() - began_s
            self._observer.note_question(request.port, answer.status, took_s)
        return answer

    async def _answer(self, request: Request) -> Answer:
        port = self._ports.get(request.port)
        if port is None:
            return Answer("unavailable", detail=f"no port named {request.port}")
        left_ms = request.deadline_ms
        if left_ms == 0 or request.budget_ms == 0:
            return Answer("deadline" if left_ms == 0 else "overrun", detail="the time was over before")
        try:
            async with asyncio.timeout(None if left_ms is None else left_ms / 1000):
                return await self._take_turn(port, request)
        except TimeoutError:
            return Answer("deadline", detail=f"the caller waited no longer than {left_ms} ms more")
        except PortBusy as full:
            return Answer("busy", detail=str(full))
        except PortUnavailable as reason:
            return Answer("unavailable", detail=str(reason))

    async def _take_turn(self, port: Port, request: Request) -> Answer:
        """The answer of a port that may have to be waited for; its budget begins with the turn."""
        queue, budget_s = self._queued.get(request.port), request.budget_ms / 1000
        if queue is None:
            return await _answer(port, request, budget_s)
        clock = asyncio.get_running_loop().time
        began_s = clock()
        async with AsyncExitStack() as turn:
            try:
                async with asyncio.timeout(None if queue.waits_in_queue else budget_s):
                    waited_s = await turn.enter_async_context(queue.turn(request.payload, request.asker))
            except TimeoutError:
                return Answer("busy", detail=f"no turn within {request.budget_ms} ms")
            spent_s = 0.0 if queue.waits_in_queue else clock() - began_s - waited_s
            answer = await _answer(port, request, budget_s - spent_s)
            return replace(answer, queued_ms=int(waited_s * 1000))


async def _answer(port: Port, request: Request, left_s: float) -> Answer:
    try:
        async with asyncio.timeout(left_s):
            return Answer("answered", await port.ask(request.payload))
    except TimeoutError:
        late = f"over {request.budget_ms} ms"
    if isinstance(port, Crowding) and port.is_crowded():
        return Answer("busy", detail=f"{late}, among other questions")
    return Answer("overrun", detail=late)


async def _start(name: str, port: Port, patience_s: float) -> None:
    if not isinstance(port, Persistent):
        return
    try:
        async with asyncio.timeout(patience_s):
            await port.start()
    except TimeoutError:
        log.error("the port %s is not ready after %g s: on without it", name, patience_s)  # noqa: TRY400
    except PortUnavailable as reason:
        log.error("the port %s is not ready: %s", name, reason)  # noqa: TRY400 - what it says is enough


async def _is_always_current() -> float:
    """Of a context whose policy never changes."""
    return 0.0


@dataclass(slots=True)
class WorkerContext:
    """The parts that all partitions of a worker share. `point` is the decision point in force, replaced when
    the policy changes: a decision takes it once and keeps it to its end. `histories` are those of all memory
    sources, `provenance` the resolutions of references and `uses` how often destinations were used, all
    updated from outside. `wall_ms`: this
    machine's clock, ms since 1970; only the waiting time of an action with a deadline uses it.
    `wait_for_policy` returns when `point` is current, and the seconds that this took."""

    point: DecisionPoint
    ports: Ports
    settings: EngineSettings
    histories: Mapping[SourceName, History]
    provenance: Mapping[tuple[str, str], Resolution] = field(default_factory=dict)
    uses: Mapping[UsualName, UseCount] = field(default_factory=dict)
    wall_ms: Callable[[], int] = lambda: 0
    wait_for_policy: Callable[[], Awaitable[float]] = _is_always_current


WRONG_PARTITION = Unreadable(
    "wrong_partition",
    "$.session_id",
    "a session must stay in one partition: use the murmur2 partitioner, the default of the Java client "
    "(librdkafka: partitioner=murmur2_random)",
)


class InputInProgress:
    """The evaluation of one input. `advance` returns the core's next request, or the decision; `step` also
    returns at a pause, of which there are some where `pauses` is set before the first."""

    __slots__ = (
        "_at_home",
        "_generator",
        "_message",
        "_point",
        "_shared",
        "input_record",
        "pauses",
        "read",
        "state",
    )

    def __init__(
        self, point: DecisionPoint, read: ReadInput, state: SessionState, shared: Shared, *, at_home: bool
    ) -> None:
        """`at_home`: the record is in the partition of its key."""
        self._point = point
        self._shared = shared
        self._message = read.message
        self._at_home = at_home
        self._generator: Generator[Request, Answer, Decision] | None = None
        self.input_record: InputRecord = read.input_record
        self.pauses = False
        self.read = read
        self.state = state

    @property
    def mandate_digest(self) -> str | None:
        """Of the mandate that the input names."""
        return getattr(self._message, "mandate_digest", None)

    def advance(self, answer: Answer | None = None) -> Request | Decision:
        """Start, or resume with the answer, whatever pauses there are. The caller must stage a decision
        before it awaits anything else, or takes a step of another input."""
        step = self.step(answer)
        while step is PAUSE or step is LAST_PAUSE:
            step = self.step(READY)
        return step

    def step(self, answer: Answer | None = None) -> Request | Decision:
        """Start, or resume with the answer, up to the next pause, request or decision."""
        try:
            generator = self._generator
            return self._start() if generator is None else generator.send(answer)  # type: ignore[arg-type]
        except StopIteration as decided:
            decision: Decision = decided.value
            return decision
        except Exception as fault:  # noqa: BLE001 - whatever an input makes the core raise is answered
            return run_guarded(partial(_raise, fault), self._fault, log_fault)

    def _start(self) -> Request | Decision:
        message = self._message
        if message is None:
            return self._point.unread(self.input_record)
        if isinstance(message, Unreadable):
            return self._point.unreadable(self.input_record, message)
        if not self._at_home:
            return self._point.unreadable(self.input_record, WRONG_PARTITION)
        self._generator = self._point.evaluate(
            self.input_record, message, self.state, self._shared, pauses=self.pauses
        )
        return next(self._generator)

    def _fault(self, reason: str) -> Request | Decision:
        message = self._message
        if message is None or isinstance(message, Unreadable):
            raise RuntimeError(f"no answer to an unreadable input: {reason}")
        return self._point.fault(self.input_record, message, self.state, reason)


def begin_input(
    context: WorkerContext, sessions: Sessions, shared: Shared, number: int, read: ReadInput
) -> InputInProgress:
    """Begin an input of this partition number on its session's state, by the decision point in force."""
    if read.has_deadline:
        read = read.measure_wait(context.wall_ms())
    state = sessions.load(read.session_key)
    lives = bool(state.accounts or state.early)
    at_home = lives or home_of(read.input_record.key or b"", context.settings.partitions) == number
    return InputInProgress(context.point, read, state, shared, at_home=at_home)


def _raise(fault: Exception) -> Request | Decision:
    raise fault


class AwaitedMandate:
    """A mandate for which an action waits. `come` is set once it has been decided."""

    def __init__(self, digest: str | None) -> None:
        self._digest = digest
        self.come = asyncio.Event()

    def note(self, mandate: TaskMandate) -> None:
        """A mandate of the session has been decided."""
        with suppress(CanonicalError):
            if digest_mandate(mandate) == self._digest:
                self.come.set()


class QueuedInput(NamedTuple):
    """An input in the lane of a session that waits. `since_s`: when it came, by the loop's clock."""

    read: ReadInput
    since_s: float


Begun = tuple[InputInProgress, "Request | Decision"]
"""An evaluation, and how far it has come."""


class Lanes:
    """The waiting sessions of one partition.

    `begin` makes an InputInProgress on the session's state at that moment; `finish` stages its result. There
    is no await between the core's decision and `finish`.
    """

    def __init__(
        self,
        ports: Ports,
        begin: Callable[[ReadInput], InputInProgress],
        finish: Callable[[InputInProgress, Decision], None],
        fail: Callable[[BaseException], None],
        wait_for_policy: Callable[[], Awaitable[float]] = _is_always_current,
    ) -> None:
        self._ports = ports
        self._begin = begin
        self._finish = finish
        self._fail = fail
        self._wait_for_policy = wait_for_policy
        self.waiting: dict[bytes, deque[QueuedInput]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._awaited: dict[bytes, AwaitedMandate] = {}

    def enter(self, chunk: Sequence[ReadInput]) -> None:
        """Decide inputs in their order, each at once or when its session no longer waits.

        What needs nothing that sessions share is done for all of them before (`_go_to_last_pause`). A mandate
        goes before an action of its session that waits for one.
        """
        begun = self._go_to_last_pause(chunk)
        for read in chunk:
            key = read.session_key
            lane = self.waiting.get(key)
            if lane is not None:
                lane.append(QueuedInput(read, asyncio.get_running_loop().time()))
                if key in self._awaited:
                    self._let_mandates_pass(key)
                continue
            evaluation, step = begun.pop(key) if key in begun else self._start(read)
            request = self._settle(evaluation, step)
            if request is not None:
                self.waiting[key] = deque()
                if request is MANDATE_WAIT:
                    self._awaited[key] = AwaitedMandate(evaluation.mandate_digest)
                task = start_task(self._wait(key, evaluation, request), self._fail)
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def cancel(self) -> None:
        """Drop waiting inputs. They changed nothing, and their offsets stay undecided for the next owner.

        Nothing enters afterwards. The partition and its lanes refer to each other, and its whole state would
        wait for the collector, which runs rarely: so the lanes let go.
        """
        tasks = [task for task in self._tasks if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self.waiting.clear()
        del self._begin, self._finish

    def _go_to_last_pause(self, chunk: Sequence[ReadInput]) -> dict[bytes, Begun]:
        """Begin the first input of each session that does not wait, and take all of them from pause to pause
        together, so that code and data of a gate stay in the processor's cache. By session key, each as far
        as it comes without what sessions share: at its last pause, at a question to a port, or decided."""
        if len(chunk) == 1:
            return {}
        first: dict[bytes, ReadInput] = {}
        for read in chunk:
            first.setdefault(read.session_key, read)
        members = [
            (key, self._begin(read))
            for key, read in first.items()
            if key not in self.waiting and goes_by_stages(read.message)
        ]
        for _, evaluation in members:
            evaluation.pauses = True
        begun: dict[bytes, Begun] = {}
        answer: Answer | None = None
        while members:
            going = []
            for member in members:
                step = member[1].step(answer)
                if isinstance(step, Request) and step.port == SUBJECT_KEYS:
                    keys = self._ports.recall(step)
                    step = step if keys is None else member[1].step(keys)
                if step is PAUSE:
                    going.append(member)
                else:
                    begun[member[0]] = member[1], step
            members, answer = going, READY
        return begun

    def _start(self, read: ReadInput) -> Begun:
        evaluation = self._begin(read)
        return evaluation, evaluation.advance()

    def _settle(self, evaluation: InputInProgress, step: Request | Decision) -> Request | None:
        """Go on until there is a decision, which is staged, or a question whose answer is not at hand."""
        while isinstance(step, Request):
            paused = step is PAUSE or step is LAST_PAUSE
            answer = READY if paused else self._ports.recall(step)
            if answer is None:
                return step
            step = evaluation.advance(answer)
        self._finish(evaluation, step)
        return None

    async def _wait(self, key: bytes, evaluation: InputInProgress, request: Request) -> None:
        lane, since_s = self.waiting[key], asyncio.get_running_loop().time()
        asked: Request | None = request
        while True:
            while asked is not None:
                if asked is MANDATE_WAIT:
                    await self._await_mandate(key, evaluation.mandate_digest, since_s)
                    evaluation, step = self._start(evaluation.read)
                    if step is MANDATE_WAIT:
                        step = evaluation.advance(READY)
                else:
                    step = evaluation.advance(await self._ports.answer(asked))
                asked = self._settle(evaluation, step)
            if not lane:
                break
            waited_s = await self._wait_for_policy()
            read, since_s = lane.popleft()
            since_s += waited_s  # its mandate may have waited as well, before it came here
            evaluation, step = self._start(read)
            asked = self._settle(evaluation, step)
        del self.waiting[key]

    async def _await_mandate(self, key: bytes, digest: str | None, since_s: float) -> None:
        """Return when the mandate of this digest has been decided, or the time for it is over. It begins when
        the action came, so that many which name nothing that is there hold the partition up no longer than
        one."""
        awaited = self._awaited.setdefault(key, AwaitedMandate(digest))
        self._let_mandates_pass(key)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(since_s + MANDATE_WAIT.budget_ms / 1000):
                    await awaited.come.wait()
            await self._wait_for_policy()  # mandates that come meanwhile still pass
        finally:
            del self._awaited[key]

    def _let_mandates_pass(self, key: bytes) -> None:
        """Decide the mandates that lie in the lane of a session whose first input waits for one. That input
        is begun once more after its wait, so they may go before it; nothing else does."""
        lane, awaited = self.waiting[key], self._awaited[key]
        for queued in [
            queued_input for queued_input in lane if isinstance(queued_input.read.message, TaskMandate)
        ]:
            lane.remove(queued)
            self._settle(*self._start(queued.read))
            if isinstance(queued.read.message, TaskMandate):
                awaited.note(queued.read.message)
