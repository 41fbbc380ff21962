"""The stages that ship, by the names that bundles use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.actions.consequence import ConsequenceScore
from app.core.actions.controls import Controls
from app.core.actions.fast_reject import FastReject
from app.core.actions.rules import Rules
from app.core.actions.tier_auth import TierAuth
from app.core.actions.topology import TopologyCheck

if TYPE_CHECKING:
    from app.core.actions.stage import Stage

_SHIPPED: tuple[type[Stage], ...] = (Controls, FastReject, Rules, ConsequenceScore, TopologyCheck, TierAuth)


def shipped_stages() -> tuple[Stage, ...]:
    """Every stage that ships, in the order of the pipeline."""
    return tuple(stage() for stage in _SHIPPED)
