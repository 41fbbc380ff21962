"""Standing grants for an agent in all its sessions: registry entries, signed by the approver who gives them.

A grant for one session is kept with the session's partition. Sessions of one agent lie in several partitions
of several workers, so such a grant is an entry that all of them read, and its uses are shared out over the
partitions: each counts its own share, so all together never count more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, field_validator

from sluice.core.foundation.strict import Instant  # noqa: TC001 - pydantic reads the annotations
from sluice.core.registry.registry_entries import SHORTEST_REASON, Entry, Name, OfTenant

MOST_USES = 10_000
LONGEST_CONDITION = 4096
LONGEST_GRANT_MS = 30 * 24 * 3600 * 1000


class AgentGrantSpec(OfTenant):
    """An approver lets an agent use a tool without asking again, in every session (seed 001, Gate 4). It
    counts if `approver_id` signed it, until `expires_at`, for actions of which the CEL condition `when` is
    true (null: every action). Any approver for the tenant and the tool may sign a revision with `active`
    false.

    The `uses` are shared out evenly over the partitions; a partition that has used its share asks a person
    again. There is none for T4.
    """

    agent_id: Name
    tool: Name
    when: Annotated[str | None, Field(max_length=LONGEST_CONDITION)] = None
    uses: Annotated[int, Field(ge=1, le=MOST_USES)]
    approver_id: Name
    expires_at: Instant
    justification: Annotated[str, Field(min_length=SHORTEST_REASON, max_length=1024)]
    active: bool = True

    @field_validator("justification")
    @classmethod
    def _check_justification(cls, value: str) -> str:
        if len(value.strip()) < SHORTEST_REASON:
            raise ValueError(f"a justification has at least {SHORTEST_REASON} characters")
        return value


@dataclass(frozen=True, slots=True)
class AgentGrant(Entry):
    """An active grant. `until_ms` in ms since 1970."""

    tenant: str
    agent_id: str
    tool: str
    when: str | None
    uses: int
    until_ms: int
    approver_id: str

    def share(self, partition: int, partitions: int) -> int:
        """How many of the uses a partition may count: over all partitions they are `uses`."""
        if partition >= partitions:
            return 0
        return self.uses // partitions + (partition < self.uses % partitions)
