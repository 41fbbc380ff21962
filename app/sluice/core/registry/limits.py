"""Limits above the session: how much an agent or a tenant may do within a window, over all its sessions.

A limit is an entry that every partition reads. Its `most` is shared out over the partitions, as the uses of
a standing grant for an agent are: each counts its own share, so all together never allow more without a
person.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from sluice.core.registry.agent_grants import LONGEST_CONDITION
from sluice.core.registry.argument_roles import ParameterPath  # noqa: TC001 - pydantic reads the annotations
from sluice.core.registry.registry_entries import Entry, Name, OfTenant
from sluice_topics.records.inputs import ActionType  # noqa: TC001 - the same

if TYPE_CHECKING:
    from collections.abc import Collection

    from sluice.core.registry.registry_entries import Agent

MOST_SUM = 10**12
MOST_VALUES = 1024
"""Distinct values that a limit may allow, and that a partition keeps of one agent or tenant."""
LONGEST_WINDOW_MS = 31 * 24 * 3600 * 1000
SHORTEST_WINDOW_MS = 1000
MOST_NAMES = 1024
THOUSANDTHS = 1000
"""Sums of a parameter are kept in thousandths, so that they are exact."""
NameList = Annotated[list[Name], Field(min_length=1, max_length=MOST_NAMES)]


class LimitSpec(OfTenant):
    """At most `most` within `window_ms` for each agent (`per`: "agent") or for all agents of the tenant that
    it is about together, over all their sessions. It is about the actions of `agent_ids`, of agents with one
    of `roles`, with `tools`, of `action_types` (null: all of them) for which the CEL condition `when` is not
    false (null: every action).

    Exactly one of three says what is counted: `count` the actions; `sum` the numbers at a JSON path of the
    parameters (`$.amount`, `$.lines[*].amount`), at the paths of the tool's role "amount", or the "rows" that
    the action counts for in its session; `distinct` the different values at a path, or those of the tool's
    role "destination" or "object".

    `most` is shared out over the partitions of the input topics, and all of a session lies in one. Where the
    share is spent, or the amount is not known, `outcome` says what happens: "ask" a person, or "deny".
    """

    per: Literal["agent", "tenant"]
    agent_ids: NameList | None = None
    roles: NameList | None = None
    tools: NameList | None = None
    action_types: Annotated[list[ActionType], Field(min_length=1)] | None = None
    when: Annotated[str | None, Field(max_length=LONGEST_CONDITION)] = None
    count: bool = False
    sum: ParameterPath | Literal["rows", "amount"] | None = None
    distinct: ParameterPath | Literal["destination", "object"] | None = None
    most: Annotated[int, Field(ge=0, le=MOST_SUM)]
    window_ms: Annotated[int, Field(ge=SHORTEST_WINDOW_MS, le=LONGEST_WINDOW_MS)]
    outcome: Literal["ask", "deny"] = "ask"
    active: bool = True

    @model_validator(mode="after")
    def _check_measure(self) -> Self:
        if [self.count, self.sum is not None, self.distinct is not None].count(True) != 1:
            raise ValueError("exactly one of count, sum and distinct says what is counted")
        if self.distinct is not None and self.most > MOST_VALUES:
            raise ValueError(f"at most {MOST_VALUES} distinct values can be counted")
        return self


@dataclass(frozen=True, slots=True)
class Limit(Entry):
    """An active limit."""

    tenant: str
    spec: LimitSpec

    @property
    def measure(self) -> str:
        """What is counted. A revision that counts something else begins anew."""
        if self.spec.sum is not None:
            return f"sum {self.spec.sum}"
        return "count" if self.spec.distinct is None else f"distinct {self.spec.distinct}"

    @property
    def scale(self) -> int:
        """By how much what is kept is more than what the entry says: sums of a parameter are kept in
        thousandths."""
        return 1 if self.spec.sum in (None, "rows") else THOUSANDTHS

    def share(self, partition: int, partitions: int) -> int:
        """How much of `most` a partition may allow, as it is kept: over all partitions it is `most`. Which
        ones take the rest of the division follows from the id."""
        if partition >= partitions:
            return 0
        first = int.from_bytes(sha256(self.id.encode()).digest()[:4]) % partitions
        rank = (partition - first) % partitions
        return (self.spec.most // partitions + (rank < self.spec.most % partitions)) * self.scale

    def show(self, amount: int) -> float:
        """A number in the entry's unit; a whole one as an integer."""
        return amount // self.scale if amount % self.scale == 0 else amount / self.scale

    def find_subject(self, agent_id: str) -> str:
        """Whose usage an action of this agent is: the agent's id, or "" for the tenant."""
        return agent_id if self.spec.per == "agent" else ""

    def is_about(self, agent: Agent, tool: str, types: Collection[str]) -> bool:
        """Whether it may be about actions of this agent with this tool, which may be of these types."""
        spec = self.spec
        return (
            (spec.agent_ids is None or agent.id in spec.agent_ids)
            and (spec.roles is None or not agent.roles.isdisjoint(spec.roles))
            and (spec.tools is None or tool in spec.tools)
            and (spec.action_types is None or not set(types).isdisjoint(spec.action_types))
        )
