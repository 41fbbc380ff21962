"""Several workers of one machine under one supervisor: `sluice worker --processes N`.

Each is a process of its own and a static member of the group, so that one that ends and comes back within
the session time-out gets its partitions back without a rebalance of the others. The supervisor starts one
again that has ended, after a pause that doubles, and ends one whose loop stands still; it ends, with all of
them, where a start would end the same way. It decides nothing and holds no connection.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sluice.broker.process_identity import read_resident
from sluice.cli.output import IMPOSSIBLE
from sluice.observability.health import STALLED_S
from sluice.observability.merged_workers import LOOPBACK, observe_workers
from sluice.observability.supervised_files import SupervisedFiles
from sluice.stream.process import EXIT_POLICY, EXIT_STOPPED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sluice.observability.http_listener import HttpListener
    from sluice.settings.reader import Settings

log = logging.getLogger(__name__)

HOPELESS = frozenset({IMPOSSIBLE, EXIT_POLICY})
"""Statuses that a start would end with again: a wrong setting or topic, missing policy."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
STEADY_S = 60.0
"""A worker that ran for so long has not failed to start: the next pause is the first again."""
LOOK_S = 0.2
LONGEST_LOOK_S = 5.0
"""A supervisor that has not looked for so long stood still itself, and so may its workers have."""
LEAVE_S = 10.0
MIB = 1 << 20
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
"""Loaded here: between fork and exec nothing may wait for a lock that another thread had."""


@dataclass(frozen=True, slots=True)
class SupervisorSettings:
    """`command` starts one worker. Times in seconds, memory in bytes: None is without a bound. `patience_s`:
    from the request to stop to SIGKILL. `ready_file`: exists while every worker is ready. `has_metrics`: each
    worker serves its own on a free port of loopback. `stalled_s`: a worker whose loop has not turned for so
    long is ended."""

    command: Sequence[str]
    processes: int
    instance: str
    patience_s: float
    max_memory: int | None = None
    ready_file: Path | None = None
    has_metrics: bool = False
    first_pause_s: float = FIRST_PAUSE_S
    stalled_s: float = STALLED_S


class _Slot:
    """The place of one worker: its process, and when the next start is due."""

    def __init__(self, settings: SupervisorSettings, number: int, folder: Path) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.due = 0.0
        self._stem = folder / str(number)
        self._files = SupervisedFiles(self._stem)
        self._settings = settings
        self._pause = settings.first_pause_s
        self._began = 0.0
        self._kill_at: float | None = None
        self._beat: int | None = None
        self._beat_at = 0.0
        self._looked_at = 0.0
        self._is_stalled = False

    def start(self) -> None:
        """Start its worker."""
        own = {
            "SLUICE_WORKER__GROUP_INSTANCE_ID": f"{self._settings.instance}-{self.number}",
            "SLUICE_WORKER__READY_FILE": str(self._files.ready),
            "SLUICE_WORKER__METRICS_ADDRESS": f"{LOOPBACK}:0" if self._settings.has_metrics else "",
        }
        self._began, self._kill_at = time.monotonic(), None
        self._beat, self._is_stalled = None, False
        self.process = subprocess.Popen(  # noqa: S603 - our own command line
            [*self._settings.command, "--supervised", str(self._stem)],
            env={**os.environ, **own},
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C at the terminal reaches it through the supervisor, once
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - it takes no lock
        )

    def take_end(self) -> int | None:
        """The status of a worker that has ended since the last call; `due` says when it starts again."""
        status = None if self.process is None else self.process.poll()
        if status is None:
            return None
        now = time.monotonic()
        if self._kill_at is not None or now - self._began >= STEADY_S:
            self._pause = self._settings.first_pause_s
        self.due, self._pause = now + self._pause, min(LONGEST_PAUSE_S, 2 * self._pause)
        self.process = None
        self._files.remove()
        return status

    def end_unfit(self) -> None:
        """Have a worker that holds too much memory, or whose loop stands still, stop, and kill it if it does
        not."""
        if self.process is None:
            return
        self._note_beat()
        if self._kill_at is not None:
            if time.monotonic() > self._kill_at:
                self.send(signal.SIGKILL)
            return
        most, resident = self._settings.max_memory, read_resident(self.process.pid)
        if self._is_stalled:
            why, patience_s = f"has done nothing for {self._settings.stalled_s:g} s", LEAVE_S
        elif most is not None and resident > most:
            why = f"holds {resident // MIB} MiB of memory, more than {most // MIB}"
            patience_s = self._settings.patience_s
        else:
            return
        log.warning("worker %d %s: it is stopped and started again", self.number, why)
        self._kill_at = time.monotonic() + min(patience_s, self._settings.patience_s)
        self.send(signal.SIGTERM)

    def _note_beat(self) -> None:
        """By this process's clock: a step of the machine's makes no worker stall."""
        now, beat = time.monotonic(), self._files.read_beat()
        if beat != self._beat or now - self._looked_at > LONGEST_LOOK_S:
            self._beat, self._beat_at = beat, now
        self._looked_at = now
        self._is_stalled = beat is not None and now - self._beat_at > self._settings.stalled_s

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.process is not None:
            self.process.send_signal(number)

    def is_ready(self) -> bool:
        """Whether its worker decides."""
        return self.process is not None and not self._is_stalled and self._files.ready.exists()

    def read_port(self) -> int | None:
        """Where its worker serves its metrics on loopback; None: nowhere."""
        return self._files.read_port()


class Supervisor:
    """Runs workers until it is asked to stop, or one ends as it would again. Call it in the main thread."""

    def __init__(self, settings: SupervisorSettings) -> None:
        self._settings = settings
        self._asked = False
        self._ready = False
        self._slots: list[_Slot] = []

    def list_waits(self) -> list[str]:
        """The workers that do not decide; called in another thread."""
        waiting = [slot.number for slot in self._slots if not slot.is_ready()]
        return [f"worker {number}" for number in waiting] if self._slots else ["the first start"]

    def list_ports(self) -> dict[int, int]:
        """The ports on loopback of the workers that serve metrics, by number; called in another thread."""
        ports = {slot.number: slot.read_port() for slot in self._slots}
        return {number: port for number, port in ports.items() if port is not None}

    def run(self) -> int:
        """The status to end with: 0 after a stop in good order, else that of a worker."""
        with tempfile.TemporaryDirectory(prefix="sluice-workers-") as folder, self._handle_signals():
            numbers = range(self._settings.processes)
            self._slots = slots = [_Slot(self._settings, number, Path(folder)) for number in numbers]
            try:
                hopeless = self._watch(slots)
                self._tell_ready(ready=False)
                statuses = self._stop(slots)
            finally:
                for slot in slots:
                    slot.send(signal.SIGKILL)
        return hopeless if hopeless is not None else _choose(statuses)

    def _watch(self, slots: Sequence[_Slot]) -> int | None:
        """Return when it was asked to stop (None), or the status of a worker that no start would help."""
        while not self._asked:
            for slot in slots:
                status = slot.take_end()
                if status in HOPELESS:
                    log.error("worker %d ended with status %d, and so would the next", slot.number, status)
                    return status
                if status is not None:
                    _tell_end(slot, status)
                if slot.process is None and time.monotonic() >= slot.due:
                    slot.start()
                slot.end_unfit()
            self._tell_ready(ready=all(slot.is_ready() for slot in slots))
            time.sleep(LOOK_S)
        return None

    def _stop(self, slots: Sequence[_Slot]) -> list[int]:
        """The statuses of all, which were asked to stop, and killed after a time."""
        for slot in slots:
            slot.send(signal.SIGTERM)
        give_up_at = time.monotonic() + self._settings.patience_s
        statuses = []
        for slot in slots:
            if slot.process is None:
                continue
            try:
                statuses.append(slot.process.wait(max(0.0, give_up_at - time.monotonic())))
            except subprocess.TimeoutExpired:
                log.error("worker %d did not stop when it was asked to: it is killed", slot.number)  # noqa: TRY400
                slot.send(signal.SIGKILL)
                statuses.append(slot.process.wait())
        return statuses

    def _tell_ready(self, *, ready: bool) -> None:
        if ready == self._ready:
            return
        self._ready = ready
        if ready:
            log.info("ready: all %d workers decide", self._settings.processes)
        file = self._settings.ready_file
        if file is not None and ready:
            file.write_text("ready\n", encoding="ascii")
        elif file is not None:
            file.unlink(missing_ok=True)

    @contextmanager
    def _handle_signals(self) -> Iterator[None]:
        def ask(number: int, frame: object) -> None:
            del number, frame
            self._asked = True

        before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class SupervisedWorkers(NamedTuple):
    """A supervisor, and the listener that serves what its workers count, not started; None: the settings
    switch it off."""

    supervisor: Supervisor
    listener: HttpListener | None


def build_supervisor(settings: Settings, processes: int) -> SupervisedWorkers:
    """Of that many workers with these settings."""
    worker = settings.worker
    if worker.ready_file is not None:
        worker.ready_file.unlink(missing_ok=True)
    most = worker.max_memory_mib
    supervisor = Supervisor(
        SupervisorSettings(
            command=[sys.executable, "-m", "sluice", "worker"],
            processes=processes,
            instance=worker.group_instance_id or socket.gethostname(),
            patience_s=worker.close_timeout_s + worker.session_timeout_s + LEAVE_S,
            max_memory=None if most is None else most * MIB,
            ready_file=worker.ready_file,
            has_metrics=bool(worker.metrics_address),
        )
    )
    if not worker.metrics_address:
        return SupervisedWorkers(supervisor, None)
    listener = observe_workers(worker.metrics_address, supervisor.list_ports, supervisor.list_waits)
    return SupervisedWorkers(supervisor, listener)


@contextmanager
def hold_names(settings: Settings) -> Iterator[bool]:
    """Whether no other supervisor of this user and machine runs workers under the same names on the same
    brokers, for as long as the block lasts. Two would take each other's partitions over, again and again."""
    worker = settings.worker
    names = (
        settings.kafka.bootstrap_servers,
        worker.app_id,
        worker.group_instance_id or socket.gethostname(),
    )
    digest = hashlib.sha256("\0".join(names).encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"sluice-workers-{os.getuid()}-{digest}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)


def _tell_end(slot: _Slot, status: int) -> None:
    how = f"signal {-status}" if status < 0 else f"status {status}"
    pause = max(0.0, slot.due - time.monotonic())
    log.warning("worker %d ended with %s; it is started again in %.0f s", slot.number, how, pause)


def _choose(statuses: Sequence[int]) -> int:
    """0 if all ended well, those too that SIGTERM met before they listened to it; of the others the first, a
    signal as a shell shows it."""
    wrong = next(
        (status for status in statuses if status not in {EXIT_STOPPED, -signal.SIGTERM}), EXIT_STOPPED
    )
    return wrong if wrong >= 0 else 128 - wrong


def _end_with_parent() -> None:
    """In the new process: SIGTERM when the supervisor is gone, however it ended. Linux alone knows this."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
