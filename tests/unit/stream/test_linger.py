"""The linger follows the process's load between its two bounds."""

from __future__ import annotations

import pytest

from app.stream.engine.writer import Linger


def after(share: float, readings: int = 40) -> float:
    linger = Linger(0.005, 0.1)
    for step in range(readings):
        linger.observe(cpu_s=share * step, wall_s=float(step))
    return linger.seconds


def test_an_idle_worker_commits_soon() -> None:
    assert after(0.1) == pytest.approx(0.005)


def test_a_busy_worker_makes_few_large_transactions() -> None:
    assert after(1.0) == pytest.approx(0.1)


def test_it_never_falls_when_the_load_grows() -> None:
    seconds = [after(share / 20) for share in range(21)]
    assert seconds == sorted(seconds)
