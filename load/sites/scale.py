"""How much of each run: the full ones of `make faults`, and the short ones that the tests repeat."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """`events` at least, `rate` in events a second, then how many faults of each kind a run has.

    `outage_s`: seconds that the broker is away. `malformed_every`: one malformed input in so many, published
    at a rate of its own.
    """

    events: int
    rate: float
    sessions: int
    kills: int
    mid_commit_kills: int
    stops: int
    mid_commit_stops: int
    outages: int
    outage_s: float
    changes: int
    malformed_every: int
    malformed_rate: float
    deadline_s: float


FULL = Scale(
    events=20_000,
    rate=250,
    sessions=200,
    kills=6,
    mid_commit_kills=3,
    stops=5,
    mid_commit_stops=2,
    outages=2,
    outage_s=10,
    changes=4,
    malformed_every=100,
    malformed_rate=500,
    deadline_s=600,
)
SHORT = Scale(
    events=600,
    rate=150,
    sessions=40,
    kills=1,
    mid_commit_kills=1,
    stops=1,
    mid_commit_stops=1,
    outages=1,
    outage_s=1,
    changes=1,
    malformed_every=5,
    malformed_rate=300,
    deadline_s=240,
)
