"""The stages that ship, by the names that the settings use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.actions.consequence import ConsequenceScore
from app.core.actions.controls import Controls
from app.core.actions.fast_reject import FastReject
from app.core.actions.rules import Rules
from app.core.actions.tier_auth import TierAuth
from app.core.actions.topology import TopologyCheck
from app.core.errors import UnknownStageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.core.actions.stage import Stage

_SHIPPED: dict[str, type[Stage]] = {
    Controls.name: Controls,
    FastReject.name: FastReject,
    Rules.name: Rules,
    ConsequenceScore.name: ConsequenceScore,
    TopologyCheck.name: TopologyCheck,
    TierAuth.name: TierAuth,
}


def default_stages(names: Iterable[str]) -> list[Stage]:
    """The stages of these names, in this order. Raises UnknownStageError naming the first unknown one."""
    return [shipped_stage(name) for name in names]


def shipped_stage(name: str) -> Stage:
    """The stage of this name. Raises UnknownStageError."""
    if name not in _SHIPPED:
        raise UnknownStageError(f"no stage is called {name!r}; there are {', '.join(_SHIPPED)}")
    return _SHIPPED[name]()


def shipped_stages() -> tuple[Stage, ...]:
    """Every stage that ships, in the order of the pipeline."""
    return tuple(stage() for stage in _SHIPPED.values())
