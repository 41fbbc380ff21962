"""One snapshot of what is in force: every decision is made under one of these, whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.policy.bundles import Bundle
    from app.core.quality_bundle.quality_bundle import QualityBundle
    from app.core.registry.registry import Registry
    from app.core.registry.registry_entries import Agent, Org

DEFAULT_QUALITY = "sluice.quality"
"""The id of the quality bundle that ships."""


@dataclass(frozen=True, slots=True)
class Policy:
    """`bundles`: the newest revision by id. `default_bundle`: the id of the one for agents that name none and
    are registered with none; it must be among them.

    `quality` and `default_quality`: the same of quality bundles, but without the default one retrievals are
    denied."""

    bundles: Mapping[str, Bundle]
    registry: Registry
    default_bundle: str
    quality: Mapping[str, QualityBundle] = field(default_factory=dict)
    default_quality: str = DEFAULT_QUALITY

    def bundle_for(self, agent: Agent | None) -> tuple[str, Bundle]:
        """The id of the bundle that judges an agent (its registered one, else the default), and the bundle,
        or the default's where nobody knows it."""
        own = (agent and agent.policy_bundle_id) or self.default_bundle
        return own, self.bundles.get(own, self.default)

    def quality_for(self, org: Org) -> tuple[str, QualityBundle | None]:
        """The id of the quality bundle that judges a tenant's items (its own, else the default), and the
        bundle; None where nobody knows it: another's would not say what this tenant asks for."""
        asked_for = org.quality_bundle_id or self.default_quality
        return asked_for, self.quality.get(asked_for)

    @property
    def default(self) -> Bundle:
        """The default bundle itself."""
        return self.bundles[self.default_bundle]
