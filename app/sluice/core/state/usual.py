"""Where an agent usually sends what a tool sends: the destinations that it has used, across sessions.

A use teaches only if it was carried out, an enforcement point's signature says so, and its destination was
known otherwise: by the registry, by a mandate, or because a person answered for it. What an agent does again
and again teaches nothing by itself.

Each session's partition sends what was used to the agent's own partition, as it does with memory sources
(sluice/core/state/history.py). The one owner of that partition counts it and sends the new count to all
workers. A decision records the revision that it saw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import DAY_MS, rfc3339
from sluice.core.state.history import write_array_key
from sluice_topics.catalog import DESTINATION_USES, USUAL_DESTINATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCHEMA_USED = "sluice/destination_used/v1"
SCHEMA_USUAL = "sluice/usual_destination/v1"
KEY_PREFIX = b"u:"
"""Of an owned count in the sessions' table."""
MOST_OF_ROLE = 1000
MOST_OF_AGENT = 10_000


class AgentName(NamedTuple):
    """A tenant and an agent's id."""

    tenant: str
    agent: str

    def key(self) -> str:
        """The message key of everything that this agent used."""
        return write_array_key(self)


class UsualName(NamedTuple):
    """Of which agent, tool and role a destination is, and its fingerprint, 32 hex digits."""

    tenant: str
    agent: str
    tool: str
    role: str
    fingerprint: str

    def key(self) -> str:
        """The message key of this count."""
        return write_array_key(self)

    @property
    def owner(self) -> AgentName:
        """Whose it is."""
        return AgentName(self.tenant, self.agent)

    @classmethod
    def read(cls, key: bytes) -> UsualName:
        """From its key in the table."""
        return cls(*orjson.loads(key[len(KEY_PREFIX) :]))


class Lesson(NamedTuple):
    """What an action teaches once its outcome is signed: its tool, and by role the fingerprints of what it
    used, hex."""

    tool: str
    used: Mapping[str, Sequence[str]]


class UseCount(NamedTuple):
    """How often a destination was used: first and last, ms of broker time, how many times, and on how many
    days (UTC). `revision` counts the changes; one with no times was forgotten."""

    first_ms: int
    last_ms: int
    times: int
    days: int
    revision: int

    def after_use(self, at_ms: int) -> UseCount:
        """The count with one use more. Uses may come late."""
        if not self.times:
            return UseCount(at_ms, at_ms, 1, 1, self.revision + 1)
        new_day = at_ms // DAY_MS > self.last_ms // DAY_MS
        first, last = min(self.first_ms, at_ms), max(self.last_ms, at_ms)
        return UseCount(first, last, self.times + 1, self.days + new_day, self.revision + 1)

    def forgotten(self) -> UseCount:
        """What is left where it made room for another."""
        return UseCount(self.first_ms, self.last_ms, 0, 0, self.revision + 1)


NEVER_USED = UseCount(0, 0, 0, 0, 0)


def record_use(owner: AgentName, lesson: Lesson, action_id: str, at_ms: int) -> OutRecord:
    """What an action used, by role, on its way to the owner of the agent's partition."""
    body: dict[str, Any] = {
        "schema": SCHEMA_USED,
        "tenant_id": owner.tenant,
        "agent_id": owner.agent,
        "tool": lesson.tool,
        "used": {role: list(fingerprints) for role, fingerprints in lesson.used.items()},
        "action_id": action_id,
        "used_at": at_ms,
        "decided_at": rfc3339(at_ms),
    }
    return OutRecord(DESTINATION_USES, "DestinationUsed", body, owner.key())


def record_usual(name: UsualName, known: UseCount, now_ms: int) -> OutRecord:
    """The count as all workers read it."""
    body = {
        "schema": SCHEMA_USUAL,
        "tenant_id": name.tenant,
        "agent_id": name.agent,
        "tool": name.tool,
        "role": name.role,
        "fingerprint": name.fingerprint,
        "first_at": known.first_ms,
        "last_at": known.last_ms,
        "times": known.times,
        "days": known.days,
        "revision": known.revision,
        "decided_at": rfc3339(now_ms),
    }
    return OutRecord(USUAL_DESTINATIONS, "UsualDestination", body, name.key())


class UseCounts:
    """All counts that a partition owns, by agent. Built from the table, and changed with it."""

    def __init__(self, table: Mapping[bytes, bytes]) -> None:
        self._by_agent: dict[AgentName, dict[UsualName, UseCount]] = {}
        for key, value in table.items():
            if key.startswith(KEY_PREFIX):
                self.put(UsualName.read(key), UseCount(*orjson.loads(value)))

    def get(self, name: UsualName) -> UseCount:
        """The count of this name."""
        return self._by_agent.get(name.owner, {}).get(name, NEVER_USED)

    def put(self, name: UsualName, known: UseCount) -> None:
        """Keep a count, or with one with no times forget it."""
        of_agent = self._by_agent.setdefault(name.owner, {})
        if known.times:
            of_agent[name] = known
        else:
            of_agent.pop(name, None)

    def crowding(self, name: UsualName) -> UsualName | None:
        """The count that must make room for a new one of this name: the one that was not used for longest, of
        the tool's role where that is full, else of the agent; None: there is room."""
        of_agent = self._by_agent.get(name.owner, {})
        alike = [one for one in of_agent if one[:4] == name[:4]]
        if len(alike) >= MOST_OF_ROLE:
            return min(alike, key=lambda one: of_agent[one].last_ms)
        if len(of_agent) >= MOST_OF_AGENT:
            return min(of_agent, key=lambda one: of_agent[one].last_ms)
        return None
