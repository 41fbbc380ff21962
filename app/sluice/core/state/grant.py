"""A standing grant as the state keeps it: what an approver lets an agent do without asking again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY_PREFIX = b"g:"
OF_AGENT = "*:"


class StandingGrant(NamedTuple):
    """One agent may use one tool in one session, `uses` times more, before `until_ms` (broker time), for
    actions of which `when` holds (CEL; None: all). `entry` and `entry_hash`: the approver's registry entry
    when the grant was given; `digest` covers what was granted.

    `of_agent`: it is a registry entry, and for all sessions; `session_id` is that of the action that uses it,
    and `uses` is what is left of the partition's share."""

    grant_id: str
    tenant: str
    agent_id: str
    session_id: str
    tool: str
    when: str | None
    uses: int
    until_ms: int
    approver_id: str
    entry: str
    entry_hash: str
    digest: str
    of_agent: bool = False

    @property
    def key(self) -> bytes:
        """In the table."""
        return KEY_PREFIX + self.grant_id.encode()

    @property
    def scope(self) -> tuple[str, str, str, str]:
        """For whom and what it is; a newer grant of the same scope takes its place."""
        session = f"{OF_AGENT}{self.grant_id}" if self.of_agent else self.session_id
        return self.tenant, self.agent_id, session, self.tool

    def use(self) -> StandingGrant:
        """The grant after one more use."""
        return self._replace(uses=self.uses - 1)

    def is_left_in(self, grant: StandingGrant | None) -> bool:
        """Whether what is found now is this grant with a use left, however many were used meanwhile."""
        return grant is not None and grant.uses > 0 and grant._replace(uses=self.uses) == self

    def encode(self) -> bytes:
        """The form in the table."""
        return orjson.dumps([*self])


def read_grants(table: Mapping[bytes, bytes]) -> list[StandingGrant]:
    """Every grant of a partition's table."""
    return [StandingGrant(*orjson.loads(value)) for key, value in table.items() if key.startswith(KEY_PREFIX)]
