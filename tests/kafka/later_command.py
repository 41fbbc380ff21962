"""`sluice` on a machine whose clock is two hours later; the broker's is as it is."""

from __future__ import annotations

import time

LATER_S = 2 * 3600


def main() -> None:
    """The command, loaded now: what has loaded before has the other clock. A test that names this module
    keeps its own."""
    now, now_ns = time.time, time.time_ns
    time.time, time.time_ns = lambda: now() + LATER_S, lambda: now_ns() + LATER_S * 10**9
    from sluice.cli.main import main as run  # noqa: PLC0415 - as the docstring says

    run()
