"""What registry and bundle say about an agent's use of a tool, without the session.

The registry takes precedence over the bundle. The caller's claims only make the result stricter: they are
judged in addition to the known facts, and the stricter tier, risk, reversibility and rows count.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from app.core.registry.registry_entries import hashes_of

if TYPE_CHECKING:
    from app.core.policy.bundles import Bundle
    from app.core.policy.policy import Policy, Principal
    from app.core.registry.registry_entries import Tool

REMEMBERED = 8192
"""How many standings are kept; the number is bounded because tool names come from outside."""


_DOUBT = {True: 0, None: 1, False: 2}
"""The order from reversible to irreversible."""


@dataclass(frozen=True, slots=True)
class Standing:
    """`bundle_asked_for`: the id that the action names, else the agent's registered one, else the default;
    `granted`: the principal's bundle is that one; `accepted`: it is also in force, and the agent known.
    `action_type` is the registered type, else the classified one; `types` are this and the claimed one.
    `reversible` None is unknown; it, `tier`, `risk` (per mille) and `rows_upper_bound` are the strictest of
    known and claimed values; `reversibilities` are both values, and `tightened` says that a claim made it
    stricter. `entries` maps "kind/id@revision" to the hash of each entry used."""

    principal: Principal
    bundle_asked_for: str
    granted: bool
    accepted: bool
    tool: Tool | None
    action_type: str
    types: tuple[str, ...]
    reversible: bool | None
    tier: str
    risk: int
    reversibilities: tuple[bool | None, ...]
    rows_upper_bound: int
    tightened: bool
    entries: dict[str, str]


class Standings(Protocol):
    """The joint result of policy and caller, by agent, tool and the caller's claims."""

    def __call__(
        self,
        agent_id: str,
        tool_name: str,
        claimed_type: str | None,
        claimed: bool | None,
        bundle_id: str | None,
    ) -> Standing:
        """The standing of an agent with a tool under a bundle; None for a claim that the caller does not
        make."""


def standings(policy: Policy) -> Standings:
    """Of one policy. Pure, so it may remember."""
    registry = policy.registry

    @lru_cache(maxsize=REMEMBERED)
    def standing(
        agent_id: str, tool_name: str, claimed_type: str | None, claimed: bool | None, bundle_id: str | None
    ) -> Standing:
        principal, tool = policy.principal(agent_id), registry.tools.get(tool_name)
        bundle, own = principal.bundle, principal.bundle_asked_for
        granted = bundle_id in (None, own)
        action_type = (tool and tool.action_type) or bundle.classified(tool_name)
        readings = _readings(bundle, tool, action_type, claimed_type, claimed)
        types = tuple(dict.fromkeys(name for name, _ in readings))
        policies = [bundle.action_types[name] for name in types]
        undone = [reversible for _, reversible in readings]
        return Standing(
            principal,
            bundle_id or own,
            granted,
            granted and principal.agent is not None and (bundle_id or own) == bundle.id,
            tool,
            action_type,
            types,
            max(undone, key=_DOUBT.__getitem__),
            _tier(bundle, tool, readings),
            max(one.risk for one in policies),
            tuple(dict.fromkeys(undone)),
            max(one.rows_upper_bound for one in policies),
            len(readings) > 1,
            hashes_of(principal.agent, tool, principal.org),
        )

    return standing


def rows_counted(tool: Tool | None, claimed: int | None, upper_bound: int) -> int:
    """The rows of an action: at least the bound of its type, unless the tool's entry trusts the estimate."""
    if claimed is not None and tool is not None and tool.trusts_row_claims:
        return claimed
    return max(upper_bound, claimed or 0)


def _readings(
    bundle: Bundle, tool: Tool | None, known_type: str, claimed_type: str | None, claimed: bool | None
) -> list[tuple[str, bool | None]]:
    """The readings of the action as type and reversibility: first as known, then as the caller claims. A
    claim that the action can be undone does not count."""
    found: dict[tuple[str, bool | None], None] = {}
    for name in (known_type, claimed_type or known_type):
        registered = None if tool is None else tool.reversible
        found[(name, bundle.action_types[name].reversible if registered is None else registered)] = None
        if claimed is False:
            found[(name, False)] = None
    return list(found)


def _tier(bundle: Bundle, tool: Tool | None, readings: list[tuple[str, bool | None]]) -> str:
    if tool is not None and tool.tier is not None:
        return tool.tier
    return max(bundle.action_types[name].tier.of(reversible) for name, reversible in readings)
