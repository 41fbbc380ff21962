"""A partition's state of memories outside its sessions: quarantine, statistics, and the histories that it
owns.

A decision's changes are values. `apply` applies them in the step in which the decision's records are staged,
and `flush` returns the table's new entries, which go into the same transaction.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from app.core.state.held import Held, held_in
from app.core.state.history import KEY_PREFIX as HISTORY_PREFIX
from app.core.state.history import History, SourceName
from app.core.state.session import NEVER_DUE_MS
from app.core.state.statistics import NOTHING, Statistics, Whose, statistics_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LEFT_BEHIND = 256
"""How many entries of departed memories a queue may keep, so that it is rarely built again."""


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision on a write, for the statistics."""

    whose: Whose
    action: str


@dataclass(frozen=True, slots=True)
class Entered:
    """A memory goes into quarantine."""

    held: Held


@dataclass(frozen=True, slots=True)
class Left:
    """A memory leaves the quarantine: reviewed, expired or evicted."""

    held: Held


@dataclass(frozen=True, slots=True)
class HistoryFolded:
    """A history's new revision."""

    name: SourceName
    history: History


@dataclass(frozen=True, slots=True)
class Alarmed:
    """An alarm was raised for a window that ended at a moment, ms; by the subject of the alarm."""

    name: tuple[str, str, int]
    ended_ms: int


Change = Decided | Entered | Left | HistoryFolded | Alarmed
ALARM_PREFIX = b"a:"


class Book:
    """The book of one partition. The core reads it; the owner of the table calls `apply` and `flush`."""

    def __init__(self, table: Mapping[bytes, bytes]) -> None:
        """`table`: the partition's recovered state. Histories are read from it on demand, and
        `histories` counts them by tenant."""
        self._table = table
        self._held = {one.memory_id: one for one in held_in(table)}
        self._by_agent: dict[Whose, dict[str, Held]] = {}
        for one in self._held.values():
            self._by_agent.setdefault(_whose(one), {})[one.memory_id] = one
        self._queue()
        self.statistics: dict[Whose, Statistics] = statistics_in(table)
        self._histories: dict[SourceName, History] = {}
        self.histories = Counter(
            orjson.loads(key[len(HISTORY_PREFIX) :])[0] for key in table if key.startswith(HISTORY_PREFIX)
        )
        self._alarmed: dict[tuple[str, str, int], int] = {
            tuple(orjson.loads(key[len(ALARM_PREFIX) :])): orjson.loads(value)
            for key, value in table.items()
            if key.startswith(ALARM_PREFIX)
        }
        self._changed: dict[bytes, bytes | None] = {}

    def __len__(self) -> int:
        """Memories in quarantine."""
        return len(self._held)

    def held(self, memory_id: str) -> Held | None:
        """The memory in quarantine under this id."""
        return self._held.get(memory_id)

    def trust_of(self, tenant: str, memory_id: str) -> float | None:
        """The trust in a memory of this tenant that is in quarantine; None where there is no such one."""
        held = self._held.get(memory_id)
        return held.trust if held is not None and held.tenant == tenant else None

    @property
    def all_held(self) -> list[Held]:
        """Everything in quarantine, the oldest first by its input's offset."""
        return sorted(self._held.values(), key=_offset)

    def crowding(self, count: int) -> list[Held]:
        """Up to `count` held memories that must make room: each is the oldest, by its input's offset, of the
        agent that holds the most at that point. So an agent cannot evict another agent's memories."""
        by_agent = {whose: sorted(held.values(), key=_offset) for whose, held in self._by_agent.items()}
        chosen: list[Held] = []
        while by_agent and len(chosen) < count:
            whose = max(by_agent, key=lambda one: (len(by_agent[one]), -by_agent[one][0].offset))
            chosen.append(by_agent[whose].pop(0))
            if not by_agent[whose]:
                del by_agent[whose]
        return chosen

    def next_due_ms(self) -> int | None:
        """When the next held memory expires; None while nothing is held."""
        while self._due and self._due[0][1] not in self._held:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def due(self, now_ms: int, limit: int) -> list[Held]:
        """Up to `limit` held memories whose time is over, the earliest first."""
        return self._first(self._due, limit, now_ms)

    def history(self, name: SourceName) -> History:
        """The history of a source that this partition owns, staged feedback included."""
        known = self._histories.get(name)
        return known or History.decode(self._table.get(HISTORY_PREFIX + name.key().encode()))

    def alarmed(self, name: tuple[str, str, int]) -> int:
        """The end of the window of the last alarm, ms; 0 if there was none."""
        return self._alarmed.get(name, 0)

    def apply(self, changes: Iterable[Change]) -> None:
        """Take over a decision's changes."""
        for change in changes:
            match change:
                case Decided(whose, action):
                    self._count(whose, self.statistics.get(whose, NOTHING).decided(action))
                case Entered(held):
                    self._enter(held)
                case Left(held):
                    self._leave(held)
                case HistoryFolded(name, history):
                    self.histories[name.tenant] += history.revision == 1
                    self._histories[name] = history
                    self._changed[HISTORY_PREFIX + name.key().encode()] = history.encode()
                case Alarmed(alarm, ended_ms):
                    self._alarmed[alarm] = ended_ms
                    self._changed[ALARM_PREFIX + orjson.dumps(list(alarm))] = orjson.dumps(ended_ms)

    def flush(self) -> dict[bytes, bytes | None]:
        """The entries that changed since the last time, by key; None deletes one."""
        changed, self._changed = self._changed, {}
        self._histories = {}
        return changed

    def _first(self, queue: list[tuple[int, str]], count: int, until: int = NEVER_DUE_MS) -> list[Held]:
        """The first entries of a queue up to `until`, in its order. They stay in the queue; entries that have
        left are removed."""
        kept: list[tuple[int, str]] = []
        while queue and queue[0][0] <= until and len(kept) < count:
            entry = heapq.heappop(queue)
            if entry[1] in self._held:
                kept.append(entry)
        for entry in kept:
            heapq.heappush(queue, entry)
        return [self._held[memory_id] for _, memory_id in kept]

    def _queue(self) -> None:
        """Build the queue again from the held memories, without those that have left."""
        self._due = [(one.expires_ms, one.memory_id) for one in self._held.values()]
        heapq.heapify(self._due)

    def _enter(self, held: Held) -> None:
        self._held[held.memory_id] = held
        self._by_agent.setdefault(_whose(held), {})[held.memory_id] = held
        heapq.heappush(self._due, (held.expires_ms, held.memory_id))
        self._changed[held.key] = held.encode()
        self._resize(held, 1)

    def _leave(self, held: Held) -> None:
        if self._held.pop(held.memory_id, None) is None:
            raise KeyError(f"not in quarantine: {held.memory_id}")
        whose = _whose(held)
        del self._by_agent[whose][held.memory_id]
        if not self._by_agent[whose]:
            del self._by_agent[whose]
        self._changed[held.key] = None
        self._resize(held, -1)
        if len(self._due) > LEFT_BEHIND + 2 * len(self._held):
            self._queue()

    def _resize(self, held: Held, by: int) -> None:
        whose = _whose(held)
        self._count(whose, self.statistics.get(whose, NOTHING).resized(by))

    def _count(self, whose: Whose, statistics: Statistics) -> None:
        self.statistics[whose] = statistics
        self._changed[whose.key] = orjson.dumps(list(statistics))


def _whose(held: Held) -> Whose:
    return Whose(held.tenant, held.agent_id)


def _offset(held: Held) -> int:
    return held.offset
