"""The gate as the test of a framework sees it: a process of the checkout's .venv that it tells what to do.

The framework's own environment has Sluice's client and nothing else of Sluice's needs.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.client import ClientOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

ROOT = Path(__file__).resolve().parents[2]
END_S = 60.0
TWO_HOURS_S = 7200


class RemoteGate:
    """`do` any of the commands of tests/frameworks/gate_process.py; any thread may."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lock = threading.Lock()
        told = self.do("describe")
        self.servers: str = told["servers"]
        self.prefix: str = told["prefix"]
        self.agent: str = told["agent"]
        self.proved: dict[str, Any] = told["proved"]
        """The quality fields of an item that is served."""
        self.rejected: str = told["rejected"]
        """Words with which a memory is rejected and an item withheld."""
        self.held: str = told["held"]
        """Words with which a memory is held for a reviewer."""

    def do(self, name: str, **arguments: Any) -> Any:
        """Have it done, and return what it answers."""
        assert self._process.stdin
        assert self._process.stdout
        with self._lock:
            self._process.stdin.write(json.dumps({"do": name, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        assert line, f"{name}: the gate's process has ended; its log says why"
        return json.loads(line)

    def make_options(self, journal: Path | None = None, deadline_s: float = 60.0) -> ClientOptions:
        """Of a client at this gate."""
        return ClientOptions(topic_prefix=self.prefix, deadline_s=deadline_s, journal=journal)


@contextmanager
def open_gate(folder: Path) -> Iterator[RemoteGate]:
    """A gate that decides until the block ends; its log is gate.log in the folder."""
    words = [str(ROOT / ".venv/bin/python"), "-m", "tests.frameworks.gate_process", str(folder)]
    with (folder / "gate.log").open("ab") as log:
        process = subprocess.Popen(
            words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        yield RemoteGate(process)
    finally:
        assert process.stdin
        process.stdin.close()
        process.wait(END_S)


def pass_two_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Move this process's clock, until the test ends."""
    now, now_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: now() + TWO_HOURS_S)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + TWO_HOURS_S * 10**9)
