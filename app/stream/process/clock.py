"""The shell's clocks: the only place of the stream part that asks the operating system for the time."""

from __future__ import annotations

import time


class SystemClock:
    """This machine's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def cpu_s(self) -> float:
        return time.process_time()
