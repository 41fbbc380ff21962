"""How long a batch waits for more: as long as a commit takes, longer when this process is busy.

A transaction costs this process about 1.4 ms of CPU and the broker more. At a fixed small linger a loaded
broker gets ever more and smaller transactions, each slower than the one before; waiting as long as the last
commits took halves their number when they slow down. Measured in docs/performance.md.
"""

from __future__ import annotations

BUSY_FROM = 0.6
BUSY_SPAN = 0.35
SMOOTHING = 0.3
COMMIT_SMOOTHING = 0.1


class Linger:
    """The linger in seconds, shared by the partitions of a process. Clocks are passed in, in seconds."""

    def __init__(self, low_s: float, high_s: float) -> None:
        self._low = low_s
        self._high = high_s
        self._usage = 0.0
        self._commit = 0.0
        self._cpu: float | None = None
        self._wall = 0.0

    @property
    def seconds(self) -> float:
        """Between the two bounds."""
        busy = min(1.0, max(0.0, (self._usage - BUSY_FROM) / BUSY_SPAN))
        return min(self._high, max(self._low + (self._high - self._low) * busy, self._commit))

    def observe(self, cpu_s: float, wall_s: float) -> None:
        """Take a reading of the process's CPU time and of the monotonic clock."""
        if self._cpu is not None and wall_s > self._wall:
            share = (cpu_s - self._cpu) / (wall_s - self._wall)
            self._usage += SMOOTHING * (share - self._usage)
        self._cpu, self._wall = cpu_s, wall_s

    def committed(self, duration_s: float) -> None:
        """A transaction took this long."""
        self._commit += COMMIT_SMOOTHING * (duration_s - self._commit)
