"""Where an agent usually sends what a tool sends: the destinations that it has used, across sessions.

A use teaches only if it was carried out, an enforcement point's signature says so, and its destination was
known otherwise: by the registry or by a mandate. What an agent does again and again teaches nothing by
itself. A person who approves an action may say for how many days its destinations are known: then its use
makes them known until that end, and counts for nothing else.

Each session's partition sends what was used to the agent's own partition, as it does with memory sources
(sluice/core/state/history.py). The one owner of that partition counts it and sends the new count to all
workers. A decision records the revision that it saw.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import DAY_MS, rfc3339
from sluice.core.state.history import write_array_key
from sluice_topics.catalog import DESTINATION_USES, USUAL_DESTINATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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

    @property
    def bounds(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Among which counts this is one of `MOST_OF_ROLE`, and of `MOST_OF_AGENT`."""
        return self[:4], self[:2]

    @classmethod
    def read(cls, key: bytes) -> UsualName:
        """From its key in the table."""
        return cls(*orjson.loads(key[len(KEY_PREFIX) :]))


_NOTHING_ANSWERED: Mapping[str, Sequence[str]] = {}


class Lesson(NamedTuple):
    """What an action teaches once its outcome is signed: its tool, and by role the fingerprints of what it
    used, hex; and those that a person's answer makes known until a time (ms), and when it did (ms)."""

    tool: str
    used: Mapping[str, Sequence[str]]
    answered: Mapping[str, Sequence[str]] = _NOTHING_ANSWERED
    until_ms: int = 0
    answered_ms: int = 0

    def store(self, at_ms: int) -> tuple[Any, ...]:
        """The entry that a session keeps; the time, which is that of the answer if there is one, is in third
        place."""
        return (self.tool, self.used, at_ms, *((self.answered, self.until_ms) if self.until_ms else ()))

    @classmethod
    def read(cls, stored: Sequence[Any]) -> Lesson:
        """What `store` gave."""
        return cls(stored[0], stored[1], *stored[3:], *([stored[2]] if stored[3:] else []))


class UseCount(NamedTuple):
    """How often a destination was used that was known otherwise: first and last, ms of broker time, how many
    times, and on how many days (UTC). `revision` counts the changes. `until_ms`: until when a person's answer
    makes it known for this agent, and `answered_ms`: when it did; 0: none has. One with neither times nor an
    answer was forgotten."""

    first_ms: int
    last_ms: int
    times: int
    days: int
    revision: int
    answered_ms: int = 0
    until_ms: int = 0

    @property
    def is_forgotten(self) -> bool:
        """Whether nothing is left of it."""
        return not self.times and not self.until_ms

    @property
    def newest_ms(self) -> int:
        """When it changed last."""
        return max(self.last_ms, self.answered_ms)

    def encode(self) -> bytes:
        """The form in the table."""
        return orjson.dumps([*self] if self.until_ms else [*self[:5]])

    def add_use(self, at_ms: int) -> UseCount:
        """The count with one use more. Uses may come late."""
        answer = self.answered_ms, self.until_ms
        if not self.times:
            return UseCount(at_ms, at_ms, 1, 1, self.revision + 1, *answer)
        new_day = at_ms // DAY_MS > self.last_ms // DAY_MS
        first, last = min(self.first_ms, at_ms), max(self.last_ms, at_ms)
        return UseCount(first, last, self.times + 1, self.days + new_day, self.revision + 1, *answer)

    def add_answer(self, at_ms: int, until_ms: int) -> UseCount:
        """The count with a person's answer, the newest of which counts. Answers may come late."""
        if at_ms < self.answered_ms:
            return self._replace(revision=self.revision + 1)
        return self._replace(revision=self.revision + 1, answered_ms=at_ms, until_ms=until_ms)

    def drop_before(self, ms: int) -> UseCount:
        """What is left of it where all before this time is forgotten."""
        left = self if self.last_ms >= ms else self._replace(first_ms=0, last_ms=0, times=0, days=0)
        return left if left.answered_ms >= ms else left.drop_answer()

    def drop_answer(self) -> UseCount:
        """The count for others than the agent of the answer."""
        return self._replace(answered_ms=0, until_ms=0)

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
    if lesson.until_ms:
        body["answered"] = {role: list(fingerprints) for role, fingerprints in lesson.answered.items()}
        body |= {"known_until": lesson.until_ms, "answered_at": lesson.answered_ms}
    return OutRecord(DESTINATION_USES, "DestinationUsed", body, owner.key())


def record_usual(name: UsualName, count: UseCount, now_ms: int) -> OutRecord:
    """The count as all workers read it."""
    body: dict[str, Any] = {
        "schema": SCHEMA_USUAL,
        "tenant_id": name.tenant,
        "agent_id": name.agent,
        "tool": name.tool,
        "role": name.role,
        "fingerprint": name.fingerprint,
        "first_at": count.first_ms,
        "last_at": count.last_ms,
        "times": count.times,
        "days": count.days,
        "revision": count.revision,
        "decided_at": rfc3339(now_ms),
    }
    if count.until_ms:
        body |= {"answered_at": count.answered_ms, "known_until": count.until_ms}
    return OutRecord(USUAL_DESTINATIONS, "UsualDestination", body, name.key())


class _LastUses:
    """Counts in the order of their last change, the longest ago first."""

    def __init__(self) -> None:
        self._sorted: list[tuple[int, UsualName]] = []

    def __len__(self) -> int:
        return len(self._sorted)

    def __iter__(self) -> Iterator[UsualName]:
        return (name for _, name in self._sorted)

    def add(self, name: UsualName, newest_ms: int) -> None:
        insort(self._sorted, (newest_ms, name))

    def remove(self, name: UsualName, newest_ms: int) -> None:
        del self._sorted[bisect_left(self._sorted, (newest_ms, name))]


class UseCounts:
    """All counts that a partition owns. Built from the table, and changed with it."""

    def __init__(self, table: Mapping[bytes, bytes]) -> None:
        self._counts: dict[UsualName, UseCount] = {}
        self._orders: dict[tuple[str, ...], _LastUses] = {}
        for key, value in table.items():
            if key.startswith(KEY_PREFIX):
                self.put(UsualName.read(key), UseCount(*orjson.loads(value)))

    def get(self, name: UsualName) -> UseCount:
        """The count of this name."""
        return self._counts.get(name, NEVER_USED)

    def put(self, name: UsualName, count: UseCount) -> None:
        """Keep a count, or with a forgotten one forget it."""
        before = self._counts.pop(name, None)
        for bound in name.bounds:
            order = self._orders.setdefault(bound, _LastUses())
            if before is not None:
                order.remove(name, before.newest_ms)
            if not count.is_forgotten:
                order.add(name, count.newest_ms)
            elif not len(order):
                del self._orders[bound]
        if not count.is_forgotten:
            self._counts[name] = count

    def list_oldest(self, bound: tuple[str, ...]) -> _LastUses:
        """The names that one bound is about, the one first that was not used for longest."""
        return self._orders.get(bound, _NOTHING_USED)


_NOTHING_USED = _LastUses()


class UseChanges:
    """What one record changes of counts, value after value: each finds what those before it have changed."""

    def __init__(self, counts: UseCounts) -> None:
        self._counts = counts
        self._changed: dict[UsualName, UseCount] = {}

    def change(self, name: UsualName, at_ms: int, until_ms: int | None) -> list[tuple[UsualName, UseCount]]:
        """The count of this name with one use more, or with an answer of `at_ms` that counts `until_ms`;
        before it that of another one, where that makes room for it."""
        before, changes = self._get(name), list[tuple[UsualName, UseCount]]()
        gone = self._find_crowding(name) if before.is_forgotten else None
        if gone is not None:
            changes.append((gone, self._get(gone).forgotten()))
        after = before.add_use(at_ms) if until_ms is None else before.add_answer(at_ms, until_ms)
        changes.append((name, after))
        self._changed.update(changes)
        return changes

    def _get(self, name: UsualName) -> UseCount:
        return self._changed.get(name) or self._counts.get(name)

    def _find_crowding(self, name: UsualName) -> UsualName | None:
        """The count that must make room for a new one of this name: the one that was not used for longest, of
        the tool's role where that is full, else of the agent; None: there is room."""
        for bound, most in zip(name.bounds, (MOST_OF_ROLE, MOST_OF_AGENT), strict=True):
            order = self._counts.list_oldest(bound)
            mine = [usual for usual in self._changed if bound in usual.bounds]
            names = [usual for usual in mine if not self._changed[usual].is_forgotten]
            before = sum(not self._counts.get(usual).is_forgotten for usual in mine)
            if len(order) + len(names) - before >= most:
                oldest = next((usual for usual in order if usual not in self._changed), None)
                names += [] if oldest is None else [oldest]
                return min(names, key=lambda usual: (self._get(usual).newest_ms, usual))
        return None
