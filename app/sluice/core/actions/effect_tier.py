"""The tier that follows from what a call does: the bundle's `effect_tiers`, and the agent's workspace."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.core.policy.bundle_frame import EffectTiers
    from sluice.core.registry.registry_entries import Workspace
    from sluice.detection.call_inspection import Effect
    from sluice_topics.records.base import Tier

_OF_REPOSITORY = frozenset(["head", "commondir", "gitdir", "refs", "objects", "hooks"])
_CHANGES = frozenset(["adds", "writes", "deletes", "sends"])


def find_effect_tier(tiers: EffectTiers, workspace: Workspace, effects: Sequence[Effect]) -> Tier | None:
    """`reads` where the call only reads, `own` where it besides changes what is the agent's own; None: the
    tier of its type stays, because something else is changed or it is not known what the call does."""
    if not effects:
        return None
    changes = [effect for effect in effects if effect.kind != "reads"]
    if not changes:
        return tiers.reads
    own = all(_is_own(effect, workspace, working_folder=tiers.working_folder) for effect in changes)
    return max(tiers.reads, tiers.own) if own else None


def _is_own(effect: Effect, workspace: Workspace, *, working_folder: bool) -> bool:
    if effect.kind not in _CHANGES:
        return False
    if effect.where == "host":
        return effect.target in workspace.hosts
    if effect.where == "database":
        return effect.target in workspace.databases
    if _runs_by_itself(effect.target) or (effect.kind != "adds" and effect.target == "."):
        return False
    if any(_is_below(effect.target, posixpath.normpath(root)) for root in workspace.paths):
        return True
    below_working_folder = not effect.target.startswith(("/", "~", ".."))
    return below_working_folder and working_folder and effect.kind in ("adds", "writes")


def _is_below(path: str, root: str) -> bool:
    """Whether the path lies in the folder `root` and is not that folder; "." holds all relative paths."""
    if root == ".":
        return not path.startswith(("/", "~", "..")) and path != "."
    return path.startswith(f"{root}/")


def _runs_by_itself(path: str) -> bool:
    """Whether a part of the path begins with a dot, or is one of those that make a folder a repository: their
    settings and hooks run by themselves."""
    parts = path.split("/")
    hidden = any(part.startswith(".") and part not in (".", "..") for part in parts)
    return hidden or not _OF_REPOSITORY.isdisjoint(map(str.lower, parts))
