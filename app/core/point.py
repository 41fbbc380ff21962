"""What a decision point decides with, handed to the modules that decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.actions.stage import Stage
    from app.core.actions.standing import Standings
    from app.core.limits import SessionLimits
    from app.core.policy import Policy


@dataclass(frozen=True, slots=True)
class PointParts:
    """One snapshot of policy and registry, the stages in order, the bounds, and the stopwatch (ns).

    `stage_names`: the stages' names, as every verdict lists them. `standing`: what bundle and registry say of
    an agent's use of a tool.
    """

    policy: Policy
    stages: tuple[Stage, ...]
    stage_names: tuple[str, ...]
    limits: SessionLimits
    stopwatch: Callable[[], int]
    environment: str
    standing: Standings
