"""How long and how much Sluice remembers of a session; the settings give the values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Times are in ms of broker time, bounds in entries. `max_quarantine` (seed 003's maxQuarantineSize),
    `max_escalations` and `max_source_histories` (for each tenant) limit a partition; the others limit one
    agent in a session (`max_early_outcomes`: one reporter). `max_state_bytes` limits an agent that is alone
    in a session; each of several agents may fill its share. Waiting outcomes may fill as much again.

    `partitions`: how many every input topic has; what is granted in all of them is shared out over them.

    `idle_timeout_ms` must not be below `action_window_ms`, or a repeat could count twice.
    """

    action_window_ms: int
    idle_timeout_ms: int
    max_recent_actions: int
    max_early_outcomes: int
    max_recent_writes: int = 1024
    max_known_sources: int = 64
    max_recent_retrievals: int = 64
    max_recent_items: int = 2048
    max_quarantine: int = 1000
    max_escalations: int = 10_000
    max_source_histories: int = 100_000
    max_state_bytes: int = 524_288
    partitions: int = 1


ROOM_FOR_ONE = SessionLimits(
    action_window_ms=1, idle_timeout_ms=1, max_recent_actions=1, max_early_outcomes=0
)
"""The limits of a session that has only one input."""
