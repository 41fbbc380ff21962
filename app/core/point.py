"""What a decision point decides with, handed to the modules that decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.actions.stage import Stage
    from app.core.actions.standing import Standing
    from app.core.bundles import Bundle
    from app.core.limits import SessionLimits
    from app.core.registry import Registry


@dataclass(frozen=True, slots=True)
class PointParts:
    """One snapshot of policy and registry, the stages in order, the bounds, and the stopwatch (ns).

    `standing`: what the two say of an agent's use of a tool.
    """

    bundle: Bundle
    registry: Registry
    stages: tuple[Stage, ...]
    limits: SessionLimits
    stopwatch: Callable[[], int]
    environment: str
    standing: Callable[[str, str, str | None, bool | None], Standing]
