"""The parts of a decision point that it gives to the modules that decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from app.core.foundation.limits import SessionLimits
    from app.core.policy.policy import Policy
    from app.core.policy.standing import Standings


@dataclass(frozen=True, slots=True)
class PointParts:
    """One snapshot of policy and registry, the bounds, and the stopwatch (ns).

    `standing`: what bundle and registry say about an agent's use of a tool. `stages`: by a bundle's hash its
    StageOrder (app/core/actions/stage.py).
    """

    policy: Policy
    limits: SessionLimits
    stopwatch: Callable[[], int]
    environment: str
    standing: Standings
    stages: Mapping[str, Any]
