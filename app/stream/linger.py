"""How long a batch waits for more: short when the process is idle, long when it is busy.

A transaction costs about 1.4 ms of CPU and an event a tenth of that, so at a fixed small linger a busy worker
drowns in tiny transactions; measured in docs/performance.md.
"""

from __future__ import annotations

BUSY_FROM = 0.35
BUSY_SPAN = 0.5
SMOOTHING = 0.3


class Linger:
    """The linger in seconds, from this process's share of one CPU. Clocks are passed in, in seconds."""

    def __init__(self, low_s: float, high_s: float) -> None:
        self._low = low_s
        self._high = high_s
        self._usage = 0.0
        self._cpu: float | None = None
        self._wall = 0.0
        self.seconds = low_s

    def observe(self, cpu_s: float, wall_s: float) -> None:
        """Take a reading of the process's CPU time and of the monotonic clock."""
        if self._cpu is not None and wall_s > self._wall:
            share = (cpu_s - self._cpu) / (wall_s - self._wall)
            self._usage += SMOOTHING * (share - self._usage)
        self._cpu, self._wall = cpu_s, wall_s
        busy = min(1.0, max(0.0, (self._usage - BUSY_FROM) / BUSY_SPAN))
        self.seconds = self._low + (self._high - self._low) * busy
