"""What waits in a partition until somebody answers it or its time is over: held memories, open escalations.

Who answers finds it by name; time finds first what is due first; where there is no room, the agent that holds
the most gives up its oldest.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from sluice.core.state.session import NEVER_DUE_MS
from sluice.core.state.statistics import Whose

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LEFT_BEHIND = 256
"""How many entries of what has left a queue may keep, so that it is rarely built again."""


class Waits(Protocol):
    """Something of one agent that waits. `offset` is its input's, `due_ms` broker time."""

    @property
    def name(self) -> str:
        """Its id, by which it is answered."""

    @property
    def tenant(self) -> str:
        """The agent's tenant."""

    @property
    def agent_id(self) -> str:
        """The agent."""

    @property
    def offset(self) -> int:
        """Of its input: lower is older."""

    @property
    def due_ms(self) -> int:
        """When time does something to it next: at the latest when its own time is over."""


W = TypeVar("W", bound=Waits)


class WaitingRoom(Generic[W]):
    """All that waits, by name."""

    def __init__(self, entries: Iterable[W]) -> None:
        """Names are unique."""
        self._waits = {entry.name: entry for entry in entries}
        self._by_agent: dict[Whose, dict[str, W]] = {}
        for wait in self._waits.values():
            self._by_agent.setdefault(_whose(wait), {})[wait.name] = wait
        self._queue()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waits)

    def __iter__(self) -> Iterator[W]:
        """All of them, in no order."""
        return iter(self._waits.values())

    def get(self, name: str) -> W | None:
        """What waits under this name."""
        return self._waits.get(name)

    def oldest_first(self) -> list[W]:
        """Everything, by its input's offset."""
        return sorted(self._waits.values(), key=_offset)

    def select_crowding(self, count: int) -> list[W]:
        """Up to `count` entries that must make room: each is the oldest, by its input's offset, of the agent
        that holds the most at that point. So an agent cannot evict another agent's."""
        by_agent = {whose: sorted(entries.values(), key=_offset) for whose, entries in self._by_agent.items()}
        chosen: list[W] = []
        while by_agent and len(chosen) < count:
            whose = max(by_agent, key=lambda owner: (len(by_agent[owner]), -by_agent[owner][0].offset))
            chosen.append(by_agent[whose].pop(0))
            if not by_agent[whose]:
                del by_agent[whose]
        return chosen

    def next_due_ms(self) -> int | None:
        """When time does something to the next one; None while nothing waits."""
        while self._due and not self._counts(self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def due(self, now_ms: int, limit: int) -> list[W]:
        """Up to `limit` entries that are due, the earliest first. They stay."""
        live: list[tuple[int, str]] = []
        until = min(now_ms, NEVER_DUE_MS)
        while self._due and self._due[0][0] <= until and len(live) < limit:
            entry = heapq.heappop(self._due)
            if self._counts(entry) and live[-1:] != [entry]:
                live.append(entry)
        for entry in live:
            heapq.heappush(self._due, entry)
        return [self._waits[name] for _, name in live]

    def put(self, entry: W) -> None:
        """Let it wait; or, where its name waits already, replace what is kept of it."""
        previous = self._waits.get(entry.name)
        if previous is None or previous.due_ms != entry.due_ms:
            heapq.heappush(self._due, (entry.due_ms, entry.name))
        self._waits[entry.name] = entry
        self._by_agent.setdefault(_whose(entry), {})[entry.name] = entry

    def remove(self, name: str) -> None:
        """It waits no more. Raises KeyError where nothing waits under the name."""
        entry = self._waits.pop(name, None)
        if entry is None:
            raise KeyError(f"nothing waits under this name: {name}")
        whose = _whose(entry)
        del self._by_agent[whose][name]
        if not self._by_agent[whose]:
            del self._by_agent[whose]
        if len(self._due) > LEFT_BEHIND + 2 * len(self._waits):
            self._queue()

    def _counts(self, entry: tuple[int, str]) -> bool:
        """Whether an entry of the queue is that of something that still waits and is due then."""
        wait = self._waits.get(entry[1])
        return wait is not None and wait.due_ms == entry[0]

    def _queue(self) -> None:
        """Build the queue again, without those that have left."""
        self._due = [(wait.due_ms, wait.name) for wait in self._waits.values()]
        heapq.heapify(self._due)


def _whose(wait: Waits) -> Whose:
    return Whose(wait.tenant, wait.agent_id)


def _offset(wait: Waits) -> int:
    return wait.offset
