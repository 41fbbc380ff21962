"""One snapshot of what is in force: every decision is made under one of these, whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.bundles import Bundle
    from app.core.registry import Registry
    from app.core.registry_entries import Agent


@dataclass(frozen=True, slots=True)
class Policy:
    """`bundles`: the newest revision by id. `default_bundle`: the id of the one for agents that name none and
    are registered with none; it must be among them."""

    bundles: Mapping[str, Bundle]
    registry: Registry
    default_bundle: str

    def bundle_for(self, agent: Agent | None, named: str | None = None) -> tuple[str, Bundle]:
        """The id asked for (the one named, else the agent's registered one, else the default) and its bundle,
        or the default's where nobody knows it."""
        asked_for = named or (agent and agent.policy_bundle_id) or self.default_bundle
        return asked_for, self.bundles.get(asked_for, self.default)

    @property
    def default(self) -> Bundle:
        """The default bundle itself."""
        return self.bundles[self.default_bundle]
