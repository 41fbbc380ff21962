"""The stages that ship, by the names that the settings use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.actions.consequence import ConsequenceScore
from app.core.actions.controls import Controls
from app.core.actions.fast_reject import FastReject
from app.core.actions.tier_auth import TierAuth
from app.core.errors import UnknownStageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.core.actions.stage import Stage

_SHIPPED: dict[str, type[Stage]] = {
    Controls.name: Controls,
    FastReject.name: FastReject,
    ConsequenceScore.name: ConsequenceScore,
    TierAuth.name: TierAuth,
}


def default_stages(names: Iterable[str]) -> list[Stage]:
    """The stages of these names, in this order. Raises UnknownStageError naming the first unknown one."""
    return [_stage(name) for name in names]


def _stage(name: str) -> Stage:
    if name not in _SHIPPED:
        raise UnknownStageError(f"no stage is called {name!r}; there are {', '.join(_SHIPPED)}")
    return _SHIPPED[name]()
