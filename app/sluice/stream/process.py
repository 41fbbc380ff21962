"""The worker as a process: its clocks, its log lines, whether it is ready, and how it ends.

In the stream part, only this module asks the operating system for the time. A background task that fails
stops the worker instead of disappearing.

A fault of the broker or of a port ends the process at once, so that it cannot act in an uncertain state. It
cleans nothing up: staged decisions were not committed, and the next owner's producers fence this one. The
supervisor (compose, systemd, Kubernetes) starts the worker again.

A worker that was asked to stop ends within a time limit, whatever its connections do. After an outage of the
broker, leaving the group can take as long as the time-outs of unanswered requests. Committed decisions do not
depend on it, and without the limit a supervisor would kill the worker.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from aiokafka.errors import InvalidTxnState, KafkaError, ProducerFenced
from mode.utils.logging import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path


class SystemClock:
    """This machine's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def cpu_s(self) -> float:
        return time.process_time()


MOST_SIGNS = 400


EXIT_STOPPED = 0
EXIT_FAULT = 3
EXIT_FENCED = 4
EXIT_POLICY = 5


class Explained(Exception):
    """A fault whose message is enough for the reader of the log, so no traceback follows it."""

    status = EXIT_FAULT


def one_line(text: str) -> str:
    """The text without line breaks, control characters and characters that change the direction of text."""
    shown = "".join(sign if sign.isprintable() else "·" for sign in text[:MOST_SIGNS])
    return shown if len(text) <= MOST_SIGNS else f"{shown}…"


def reasons(fault: BaseException) -> str:
    """The fault and its causes, outermost first: a client wraps the broker's answer."""
    reported = []
    cause: BaseException | None = fault
    while cause is not None:
        name, text = type(cause).__name__, str(cause)
        reported.append(text if name in text else f"{name}: {text}" if text else name)
        cause = None if isinstance(cause, Explained) else cause.__cause__
    return one_line(" ← ".join(reported))


service_log = get_logger("faust.service")
"""The log of Faust's services, quiet below WARNING.

mode names a service's logger after the module of its class, so our subclasses would log as all of Faust.
"""


def start_task(
    running: Coroutine[None, None, None], fail: Callable[[BaseException], None]
) -> asyncio.Task[None]:
    """Start a background task; `fail` gets its exception. Cancelling it is not a failure."""

    def describe_end(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (fault := task.exception()) is not None:
            fail(fault)

    task = asyncio.create_task(running)
    task.add_done_callback(describe_end)
    return task


log = logging.getLogger(__name__)


class Readiness:
    """Whether the worker is ready, as a file and in the log. `path` None: only in the log."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.note_partitions([])

    def note_partitions(self, numbers: list[int]) -> None:
        """Note the open partitions; without any the worker is not ready."""
        if numbers:
            log.info("ready: deciding for partitions %s", numbers, extra={"partitions": numbers})
        if self._path is None:
            return
        if numbers:
            self._path.write_text(" ".join(map(str, numbers)) + "\n", encoding="ascii")
        else:
            self._path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a worker ends: its status, one line for the log, and whether a traceback follows."""

    status: int
    line: str
    traced: bool


def choose_ending(fault: BaseException) -> Ending:
    """Status 4 when another worker took over, 5 when policy is missing, 3 for any other fault.

    INVALID_TXN_STATE is of the first kind: a broker answers so to a commit whose transaction the coordinator
    has already aborted for its time-out or for another owner (KAFKA-20785). Nothing of it was written.
    """
    if isinstance(fault, ProducerFenced) or _is_caused_by(fault, InvalidTxnState):
        description = "another worker has taken over a partition of this one"
        return Ending(EXIT_FENCED, f"the worker stops with status {EXIT_FENCED}: {description}", traced=False)
    expected = isinstance(fault, Explained | KafkaError | OSError)  # time-outs are OSErrors
    status = fault.status if isinstance(fault, Explained) else EXIT_FAULT
    return Ending(status, f"the worker stops with status {status}: {reasons(fault)}", not expected)


def _is_caused_by(fault: BaseException | None, kind: type[BaseException]) -> bool:
    while fault is not None and not isinstance(fault, kind):
        fault = fault.__cause__
    return fault is not None


def fail_stop(fault: BaseException) -> None:
    """Log why and end the process."""
    ending = choose_ending(fault)
    log.error(ending.line, exc_info=fault if ending.traced else None, extra={"status": ending.status})
    end_process(ending.status)


def end_stopped(what_is_left: str) -> None:
    """End the process normally although something harmless has not ended, and log what."""
    log.warning("the worker stops with status %d: it was asked to; %s", EXIT_STOPPED, what_is_left)
    end_process(EXIT_STOPPED)


_BEFORE_STOP: list[Callable[[], None]] = []


def call_before_stop(call: Callable[[], None]) -> None:
    """Have it called before the process ends after a good stop. It has to return soon by itself."""
    _BEFORE_STOP.append(call)


def end_process(status: int) -> NoReturn:
    """End the process with this status, and with it the threads that have not ended. An interpreter that
    takes itself down beside them may crash in their native code (SIGSEGV), after a good stop too.

    After a good stop what call_before_stop was given is called first. A fault waits for nothing."""
    if status == EXIT_STOPPED:
        for call in _BEFORE_STOP:
            with suppress(Exception):  # all that was decided is committed
                call()
    logging.shutdown()
    os._exit(status)


class StopBound:
    """Two time limits, one after the other. A thread keeps them, because the loop itself may hang.

    `close_s`: from the request to the close of all partitions; when it is over, `overdue` gets a
    TimeoutError. `leave_s`: from there to the end of the process; when it is over, `end` is called. By then
    the group has removed a silent member.
    """

    def __init__(
        self,
        close_s: float,
        leave_s: float,
        overdue: Callable[[BaseException], None],
        end: Callable[[str], None],
    ) -> None:
        self._close_s = close_s
        self._leave_s = leave_s
        self._overdue = overdue
        self._end = end
        self._timer: threading.Timer | None = None

    def note_stop_asked(self) -> None:
        """Note that the worker was asked to stop; its partitions are open."""
        self._arm(self._close_s, self._call_overdue)

    def note_closed(self) -> None:
        """Note that all decisions are committed; only connections are left."""
        self._arm(self._leave_s, self._call_end)

    def _arm(self, seconds: float, call: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(seconds, call)
        self._timer.daemon = True
        self._timer.start()

    def _call_overdue(self) -> None:
        self._overdue(TimeoutError(f"asked to stop, and partitions are open after {self._close_s:g} s"))

    def _call_end(self) -> None:
        self._end(f"connections are not closed after {self._leave_s:g} s; all decisions were committed")
