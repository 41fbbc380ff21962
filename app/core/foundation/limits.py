"""How long and how much a session is remembered; the settings give the values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Times in ms of broker time, bounds in entries; `max_quarantine` (seed 003's maxQuarantineSize) and
    `max_source_histories` (of each tenant) are of a partition, the others of one agent in a session
    (`max_early_outcomes`: of one reporter). `max_state_bytes` is what one agent may fill of a session's state
    when it is alone there; of several each may fill its share. Outcomes that wait may fill as much again.

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
    max_source_histories: int = 100_000
    max_state_bytes: int = 524_288


ROOM_FOR_ONE = SessionLimits(
    action_window_ms=1, idle_timeout_ms=1, max_recent_actions=1, max_early_outcomes=0
)
"""Of a session that one input opens and nothing follows."""
