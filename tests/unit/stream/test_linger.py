"""The linger follows the process's load between its two bounds."""

from __future__ import annotations

import pytest

from sluice.stream.engine.writer import Linger


def compute_after(share: float, readings: int = 40) -> float:
    linger = Linger(0.005, 0.1)
    for step in range(readings):
        linger.observe(cpu_s=share * step, wall_s=float(step))
    return linger.seconds


def test_an_idle_worker_commits_soon() -> None:
    assert compute_after(0.1) == pytest.approx(0.005)


def test_a_busy_worker_makes_few_large_transactions() -> None:
    assert compute_after(1.0) == pytest.approx(0.1)


def test_it_never_falls_when_the_load_grows() -> None:
    seconds = [compute_after(share / 20) for share in range(21)]
    assert seconds == sorted(seconds)


def test_a_worker_with_room_waits_for_a_quarter_of_a_commit_only() -> None:
    linger = Linger(0.005, 0.1)
    for _ in range(100):
        linger.note_commit(0.08)
    assert linger.seconds == pytest.approx(0.02, rel=1e-3)


def test_a_busy_worker_waits_as_long_as_commits_take_even_below_its_upper_bound() -> None:
    linger = Linger(0.005, 0.1)
    for step in range(40):
        linger.observe(cpu_s=0.9 * step, wall_s=float(step))
        linger.note_commit(0.2)
    assert linger.seconds > 0.08
