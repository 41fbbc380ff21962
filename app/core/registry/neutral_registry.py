"""Registry entries that say who and what exists, and nothing else: the bundle alone decides.

No tool has a tier or a type of its own, every agent may do every tier, the organisation forbids nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.registry.registry_entries import EntryFile

if TYPE_CHECKING:
    from collections.abc import Iterable

HIGHEST_TIER = "T4"


def neutral_entries(tenant: str, agents: Iterable[str], tools: Iterable[str]) -> list[EntryFile]:
    """The organisation, its agents and the tools, each in the order of the names."""
    return [
        EntryFile(
            kind="org", id=tenant, revision=1, spec={"enforcement": "enforce", "forbidden_targets": []}
        ),
        *(neutral_agent(tenant, agent) for agent in sorted(set(agents))),
        *(neutral_tool(tool) for tool in sorted(set(tools))),
    ]


def neutral_agent(tenant: str, agent: str, **more: str) -> EntryFile:
    """An agent that may do everything, and what `more` its entry says."""
    spec = {"tenant_id": tenant, "tier": HIGHEST_TIER, **more}
    return EntryFile(kind="agent", id=agent, revision=1, spec=spec)


def neutral_tool(tool: str, *, trusts_row_claims: bool = False) -> EntryFile:
    """A tool of which nothing more is known than, perhaps, that its row estimates are true."""
    return EntryFile(kind="tool", id=tool, revision=1, spec={"trusts_row_claims": trusts_row_claims})
