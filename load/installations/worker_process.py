"""One worker process of a fault run, with the files by which it can be seen and trapped.

A gauge file says how many slow calls it waits for, readable after the worker was killed; asked by a signal,
the worker writes to its log what each of its tasks waits for.
"""

from __future__ import annotations

import asyncio
import gc
import mmap
import os
import signal
import struct
import subprocess
import sys
import traceback
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from load import ROOT
from load.installations.forked_process import ForkedProcess, list_paths
from load.installations.installation import prepare
from sluice.broker.process_identity import read_resident

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from load.installations.installation import TestInstallation

_FORMAT = struct.Struct("<q")


class Gauge:
    """Written by the worker, through memory that the kernel keeps when the process dies."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(_FORMAT.pack(0))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _FORMAT.size)
        self._value = 0

    def add(self, step: int) -> None:
        """Count up or down."""
        self._value += step
        _FORMAT.pack_into(self._memory, 0, self._value)


def read_gauge(path: Path) -> int:
    """The value; 0 while there is no file yet."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return 0
    return int(_FORMAT.unpack(raw)[0]) if len(raw) == _FORMAT.size else 0


ASK = signal.SIGQUIT
"""Faust has taken the signals for users."""


def tell_when_asked() -> None:
    """In the main thread, before the loop runs."""
    signal.signal(ASK, _tell)


def _tell(number: int, frame: FrameType | None) -> None:
    del number
    lines = ["asked where it stands:\n", *traceback.format_stack(frame)[-3:]]
    for task in [item for item in gc.get_objects() if isinstance(item, asyncio.Task)]:
        if not task.done():
            lines += [f"{task.get_name()}:\n", *_list_awaited(task.get_coro())]
    sys.stderr.write("".join(lines))
    sys.stderr.flush()


def _list_awaited(running: object) -> Iterator[str]:
    """The places of a coroutine and of those that it awaits, outermost first."""
    while running is not None:
        frame = getattr(running, "cr_frame", None) or getattr(running, "gi_frame", None)
        if frame is not None:
            yield f"  {frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}\n"
        inner = getattr(running, "cr_await", None) or getattr(running, "gi_yieldfrom", None)
        if frame is None and inner is None:
            yield f"  {running!r}\n"
        running = inner


KILL_S = 10.0
WORDS_S = 1.0
LAST_WORDS = 6000


class WorkerProcess:
    """Started at once. Signals go to this process only: until it is waited for, no other has its id."""

    def __init__(self, installation: TestInstallation, name: str, slow_s: float, tree: Path = ROOT) -> None:
        """`name` is unique within the run; `slow_s` is the slow port's time; `tree`: of whose code it is."""
        base = installation.folder / name
        self.name = name
        self._ready = base.with_suffix(".ready")
        self._gauge = base.with_suffix(".gauge")
        self._trap = base.with_suffix(".trap")
        self._hold = base.with_suffix(".hold")
        self._withhold = base.with_suffix(".withhold")
        self.log = base.with_suffix(".log")
        own = {key: value for key, value in os.environ.items() if not key.startswith(("SLUICE_", "KAFKA_"))}
        own |= list_paths(tree)
        settings = {**own, **installation.settings, "SLUICE_WORKER__READY_FILE": str(self._ready)}
        names = {"gauge": self._gauge, "trap": self._trap, "hold": self._hold, "withhold": self._withhold}
        files = [word for name, file in names.items() for word in (f"--{name}", str(file))]
        with self.log.open("ab") as log:
            words = [*files, "--slow-s", str(slow_s)]
            self._child = ForkedProcess(
                "load.installations.faulty_worker", words, settings, log.fileno(), tree
            )

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._child.poll()

    def partitions(self) -> frozenset[int]:
        """What it says it decides for (a stopped worker goes on saying so)."""
        try:
            return frozenset(map(int, self._ready.read_text(encoding="ascii").split()))
        except (FileNotFoundError, ValueError):
            return frozenset()

    def count_waiting(self) -> int:
        """Slow calls in flight, now or when it died."""
        return read_gauge(self._gauge)

    def is_stopped(self) -> bool:
        """Whether it is suspended by SIGSTOP."""
        try:
            stat = Path(f"/proc/{self._child.pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] == "T"

    def read_resident(self) -> int:
        """Bytes of memory that it holds; 0 if it is gone."""
        return read_resident(self._child.pid)

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._child.send_signal(number)

    def ask(self) -> None:
        """Have it tell its log where it stands."""
        self.send(ASK)

    def set_trap(self, number: signal.Signals) -> None:
        """Have it send itself the signal between its next produce and commit."""
        whole = self._trap.with_suffix(".setting")
        whole.write_text(number.name, encoding="ascii")
        whole.rename(self._trap)

    def is_in_trap(self) -> bool:
        """Whether a trap is set and has not sprung."""
        return self._trap.exists()

    def hold(self) -> None:
        """Have its next stop go on, a member of its group with all partitions closed, until `release`."""
        self._hold.touch()

    def release(self) -> None:
        """Let it stop."""
        self._hold.unlink()

    def withhold(self) -> None:
        """Have the slow port answer nothing until `answer`."""
        self._withhold.touch()

    def answer(self) -> None:
        """Let the slow port answer."""
        self._withhold.unlink()

    def end(self, patience_s: float) -> int:
        """SIGTERM, after `patience_s` SIGKILL; the exit code."""
        if self.exit_code is None:
            self.send(signal.SIGTERM)
            self.send(signal.SIGCONT)
        try:
            return self._child.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.ask()
            return self._end_after(WORDS_S)

    def _end_after(self, seconds: float) -> int:
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(seconds)
        return self.end_now()

    def end_now(self) -> int:
        """SIGKILL; the exit code."""
        self._child.kill()
        return self._child.wait(KILL_S)

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-LAST_WORDS:]


END_S = 60.0


@contextmanager
def run_worker(bootstrap_servers: str, name: str) -> Iterator[TestInstallation]:
    """An installation of its own on a broker, and a worker that decides there until the block ends."""
    with TemporaryDirectory(prefix=f"sluice-{name}-") as folder:
        installation = asyncio.run(prepare(bootstrap_servers, Path(folder), f"{name}-{uuid.uuid4().hex[:8]}"))
        worker = WorkerProcess(installation, "worker", slow_s=0.0)
        try:
            yield installation
        finally:
            worker.end(END_S)
