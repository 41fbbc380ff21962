"""The scene with Stage 1 alone: a bundle's rules and facts, and no patterns that take time to load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.actions.plan import sort_stages
from sluice.core.actions.stages import list_shipped_stages
from tests.unit.core.scene import Session, bundle, point

if TYPE_CHECKING:
    from sluice.core.policy.bundles import Bundle


def rules_only(rules: list[dict[str, Any]]) -> Bundle:
    """The shipped bundle with these rules and no patterns."""
    return bundle(rules=rules, patterns={})


def make_ruled(rules: list[dict[str, Any]], *facts: dict[str, Any]) -> Session:
    """A session whose actions only meet these rules, and then Gate 4."""
    return Session(
        point(
            *facts,
            policy=rules_only(rules),
            stages=sort_stages(("rules", "tier_auth"), list_shipped_stages()),
        )
    )
