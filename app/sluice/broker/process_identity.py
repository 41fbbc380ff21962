"""A process named by its id and its start time, so that a reused id is never mistaken for it."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal

POLL_S = 0.05
_STATE, _START_TIME = 0, 19  # fields 3 and 22 of proc(5) stat, counted behind the command's name


def read_resident(pid: int) -> int:
    """Bytes of memory that a process holds, on Linux; 0 if it is gone."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class ProcessIdentity:
    """`pid` and what the system says of its start (clock ticks since boot on Linux, else a date)."""

    pid: int
    started: str

    @classmethod
    def find(cls, pid: int) -> ProcessIdentity | None:
        """The identity of a running process; None if there is none (a zombie does not run)."""
        started = _read_start(pid)
        return None if started is None else cls(pid, started)

    def is_alive(self) -> bool:
        """Whether this very process still runs."""
        return _read_start(self.pid) == self.started

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, to this very process or to none."""
        if self.is_alive():
            os.kill(self.pid, number)

    def wait_until_gone(self, deadline_s: float) -> bool:
        """Whether it ended within `deadline_s` seconds."""
        end = time.monotonic() + deadline_s
        while self.is_alive():
            if time.monotonic() >= end:
                return False
            time.sleep(POLL_S)
        return True


def _read_start(pid: int) -> str | None:
    if not Path("/proc/self/stat").exists():
        return _read_start_by_ps(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[_STATE] in {"Z", "X"} else fields[_START_TIME]


def _read_start_by_ps(pid: int) -> str | None:
    listing = ["ps", "-o", "state=,lstart=", "-p", str(pid)]
    listed = subprocess.run(listing, capture_output=True, text=True, check=False, timeout=10)  # noqa: S603 - a number
    state, _, started = listed.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()
