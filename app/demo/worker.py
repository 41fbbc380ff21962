"""The worker as a child process: started, ready, stopped."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.broker.process import ProcessIdentity
from app.demo.place import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.demo.place import Place

READY_S = 60.0
STOP_S = 30.0
POLL_S = 0.1
LOG_TAIL_LINES = 25
_TERMINAL_CODE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class WorkerError(Exception):
    """The worker ended, or did not get ready; the message holds the end of its log."""


@dataclass
class Worker:
    """A running `sluice worker`. Made by `start_worker`."""

    place: Place
    identity: ProcessIdentity
    child: subprocess.Popen[bytes]

    def wait_ready(self) -> None:
        """Return when it decides for every partition. Raises WorkerError."""
        end = time.monotonic() + READY_S
        while not self._ready():
            self.check()
            if time.monotonic() > end:
                raise WorkerError(f"The worker was not ready within {READY_S:.0f} s.\n{log_tail(self.place)}")
            time.sleep(POLL_S)

    def check(self) -> None:
        """Raises WorkerError when it has ended."""
        status = self.child.poll()
        if status is not None:
            raise WorkerError(f"The worker ended with status {status}.\n{log_tail(self.place)}")

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if it has not gone in time."""
        stop_process(self.identity)
        self.child.wait(STOP_S)

    def _ready(self) -> bool:
        try:
            return len(self.place.ready_file.read_text(encoding="ascii").split()) == PARTITIONS
        except FileNotFoundError:
            return False


def start_worker(place: Place, environment: Mapping[str, str]) -> Worker:
    """Start it; its output goes to the place's log."""
    command = [sys.executable, "-m", "app", "worker"]
    with place.log.open("ab") as log:
        # A session of its own: a Ctrl-C at the terminal reaches the demo, which then stops it in order.
        child = subprocess.Popen(  # noqa: S603 - our own command line
            command,
            env=place.for_worker(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return Worker(place, ProcessIdentity.of(child.pid) or ProcessIdentity(child.pid, ""), child)


def stop_process(identity: ProcessIdentity) -> None:
    """SIGTERM, and SIGKILL if it has not gone after `STOP_S` seconds. One that has gone is no error."""
    identity.signal(signal.SIGTERM)
    if not identity.wait_gone(STOP_S):
        identity.signal(signal.SIGKILL)
        identity.wait_gone(STOP_S)


def log_tail(place: Place) -> str:
    """The end of the worker's log, under its path."""
    text = _TERMINAL_CODE.sub("", place.log.read_text(encoding="utf-8", errors="replace"))
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join([f"The end of {place.log}:", *(f"  {line}" for line in lines[-LOG_TAIL_LINES:])])
