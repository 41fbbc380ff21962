"""The bounds within which a worker that was asked to stop ends."""

from __future__ import annotations

import queue

from sluice.stream.process import StopBound

SOON_S = 0.05
LATE_S = 60.0
PATIENCE_S = 10.0


def _bound(close_s: float, leave_s: float) -> tuple[StopBound, queue.Queue[object]]:
    ends: queue.Queue[object] = queue.Queue()
    return StopBound(close_s, leave_s, ends.put, ends.put), ends


def test_partitions_that_do_not_close_in_time_are_a_fault() -> None:
    bound, ends = _bound(SOON_S, LATE_S)
    bound.asked()
    assert isinstance(ends.get(timeout=PATIENCE_S), TimeoutError)


def test_connections_that_do_not_close_once_all_is_committed_are_left() -> None:
    bound, ends = _bound(LATE_S, SOON_S)
    bound.asked()
    bound.closed()
    assert "all decisions were committed" in str(ends.get(timeout=PATIENCE_S))


def test_partitions_that_closed_in_time_are_no_fault_later() -> None:
    bound, ends = _bound(2 * SOON_S, 4 * SOON_S)
    bound.asked()
    bound.closed()
    assert not isinstance(ends.get(timeout=PATIENCE_S), TimeoutError)
    assert ends.empty()
