"""A forked process is what a started one is: its own words, environment and output, signals and exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from load.installations.forked_process import ForkedProcess

if TYPE_CHECKING:
    from pathlib import Path

WAIT_S = 60.0
CODE = 7


def main() -> None:
    """The program of the forks: says what it was given, and ends with a code or when it is told to."""
    sys.stdout.write(f"{sys.argv[1:]} {dict(os.environ)} {os.getpid()} {sys.stdin.read()!r}\n")
    sys.stdout.flush()
    sys.stderr.write("an error\n")
    if sys.argv[1] == "ends":
        sys.exit(CODE)
    if sys.argv[1] == "raises":
        raise KeyError("raised")
    time.sleep(WAIT_S)


def start(output: Path, *words: str) -> ForkedProcess:
    with output.open("ab") as file:
        return ForkedProcess(__name__, words, {"OWN": "given"}, file.fileno())


def read_beginning(output: Path) -> str:
    deadline = time.monotonic() + WAIT_S
    while "an error" not in (text := output.read_text()):
        assert time.monotonic() < deadline, text
        time.sleep(0.01)
    return text


def test_it_has_its_own_words_environment_and_output_and_its_exit_code_is_read(tmp_path: Path) -> None:
    started = [start(tmp_path / str(number), "ends", str(number)) for number in range(3)]
    for number, one in enumerate(started):
        assert one.wait(WAIT_S) == one.wait(0) == one.poll() == CODE
        said = (tmp_path / str(number)).read_text().splitlines()
        assert said == [f"['ends', '{number}'] {{'OWN': 'given'}} {one.pid} ''", "an error"]
    assert len({one.pid for one in started}) == len(started)


def test_an_exception_that_nobody_handles_ends_it_with_its_traceback(tmp_path: Path) -> None:
    assert start(tmp_path / "said", "raises").wait(WAIT_S) == 1
    assert "KeyError: 'raised'" in (tmp_path / "said").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_signal_ends_it_and_it_alone(tmp_path: Path, number: signal.Signals) -> None:
    started, beside = start(tmp_path / "one", "waits"), start(tmp_path / "other", "waits")
    read_beginning(tmp_path / "one")
    read_beginning(tmp_path / "other")
    assert started.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        started.wait(0.01)
    started.send_signal(number)
    assert started.wait(WAIT_S) == -number
    started.send_signal(number)  # there is nobody to get it
    assert beside.poll() is None
    beside.kill()
    assert beside.wait(WAIT_S) == -signal.SIGKILL


def test_its_process_id_is_its_own_until_its_end_was_read(tmp_path: Path) -> None:
    started = start(tmp_path / "said", "ends", "")
    deadline = time.monotonic() + WAIT_S
    while _state(started.pid) != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert started.wait(WAIT_S) == CODE
    while _state(started.pid) == "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _state(pid: int) -> str:
    """As `ps` has it; "" for no process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123 - no path of ours
            return file.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""
