"""The bounds within which a worker that was asked to stop ends."""

from __future__ import annotations

import queue
import subprocess
import sys

import pytest

from sluice.stream.process import EXIT_FAULT, EXIT_STOPPED, StopBound

SOON_S = 0.05
LATE_S = 60.0
PATIENCE_S = 10.0


def _bind(close_s: float, leave_s: float) -> tuple[StopBound, queue.Queue[object]]:
    ends: queue.Queue[object] = queue.Queue()
    return StopBound(close_s, leave_s, ends.put, ends.put), ends


def test_partitions_that_do_not_close_in_time_are_a_fault() -> None:
    bound, ends = _bind(SOON_S, LATE_S)
    bound.note_stop_asked()
    assert isinstance(ends.get(timeout=PATIENCE_S), TimeoutError)


def test_connections_that_do_not_close_once_all_is_committed_are_left() -> None:
    bound, ends = _bind(LATE_S, SOON_S)
    bound.note_stop_asked()
    bound.note_closed()
    assert "all decisions were committed" in str(ends.get(timeout=PATIENCE_S))


def test_partitions_that_closed_in_time_are_no_fault_later() -> None:
    bound, ends = _bind(2 * SOON_S, 4 * SOON_S)
    bound.note_stop_asked()
    bound.note_closed()
    assert not isinstance(ends.get(timeout=PATIENCE_S), TimeoutError)
    assert ends.empty()


def test_a_thread_that_has_not_ended_takes_nothing_down_with_a_process_that_ends_in_good_order() -> None:
    """The interpreter waits for such a thread, or crashes in it; the process must do neither."""
    program = (
        "import atexit, os, threading, time\n"
        "from sluice.stream.process import EXIT_STOPPED, end_process\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "atexit.register(os.abort)\n"
        "end_process(EXIT_STOPPED)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=False, timeout=PATIENCE_S * 6)
    assert ended.returncode == 0


@pytest.mark.parametrize(("status", "written"), [(EXIT_STOPPED, "last words"), (EXIT_FAULT, "")])
def test_what_is_to_be_done_before_a_good_stop_is_done_then_and_a_fault_waits_for_nothing(
    status: int, written: str
) -> None:
    program = (
        "import os\n"
        "from sluice.stream.process import call_before_stop, end_process\n"
        "call_before_stop(lambda: 1 / 0)\n"
        "call_before_stop(lambda: os.write(1, b'last words'))\n"
        f"end_process({status})\n"
    )
    words = [sys.executable, "-c", program]
    ended = subprocess.run(words, check=False, timeout=PATIENCE_S * 6, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (status, written)
