"""Turns at something of which so much can be done at once, shared out fairly among those who ask.

One agent can neither use up the places of others nor their room to wait: it holds no more places than it
leaves free, a free place goes round the tenants and then round their agents, and where the room to wait is
full, whoever waits for the most gives way (max-min fairness; Bertsekas and Gallager, "Data Networks", 6.5.2).
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from sluice.core.foundation.requests import NOBODY
from sluice.ports import PortBusy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from sluice.core.foundation.requests import Asker

    Place = asyncio.Future[None]


class FairTurns:
    """Hands out `places`. Who asks as NOBODY has the port to itself, and no share."""

    def __init__(self, places: int, most_waiting: int | None) -> None:
        """`most_waiting`: how many may wait, None any number."""
        self._free = places
        self._most = most_waiting
        self._taken: Counter[Asker] = Counter()
        self._lines: OrderedDict[str, OrderedDict[Asker, deque[Place]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, asker: Asker) -> AsyncIterator[float]:
        """Wait for a place, and hold it inside. Gives the seconds waited. Raises PortBusy."""
        clock = asyncio.get_running_loop().time
        began_s = clock()
        await self._enter(asker)
        try:
            yield clock() - began_s
        finally:
            self._leave(asker)

    async def _enter(self, asker: Asker) -> None:
        turn: Place = asyncio.get_running_loop().create_future()
        self._lines.setdefault(asker.tenant, OrderedDict()).setdefault(asker, deque()).append(turn)
        self._hand_out()
        if not turn.done():
            self._enforce_bound(asker)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._leave(asker)
            else:
                self._drop(asker, turn)
            raise

    def _leave(self, asker: Asker) -> None:
        self._free += 1
        self._taken[asker] -= 1
        if not self._taken[asker]:
            del self._taken[asker]
        self._hand_out()

    def _hand_out(self) -> None:
        while self._free:
            asker = next(
                (candidate for candidate in self._list_in_order() if self._may_take(candidate)),
                None,
            )
            if asker is None:
                return
            agents = self._lines[asker.tenant]
            agents.move_to_end(asker)
            self._lines.move_to_end(asker.tenant)
            turn = agents[asker][0]
            self._drop(asker, turn)
            if turn.done():
                continue
            self._free -= 1
            self._taken[asker] += 1
            turn.set_result(None)

    def _list_in_order(self) -> Iterable[Asker]:
        return (asker for agents in self._lines.values() for asker in agents)

    def _may_take(self, asker: Asker) -> bool:
        return asker == NOBODY or self._taken[asker] < self._free

    def _enforce_bound(self, newcomer: Asker) -> None:
        """Where more wait than may, the newest of the agent that waits for the most gives way, of the tenant
        of which the most wait; among equals the newcomer."""
        if self._most is None or sum(map(self._count_waiting, self._lines)) <= self._most:
            return
        tenant = max(
            self._lines, key=lambda candidate: (self._count_waiting(candidate), candidate == newcomer.tenant)
        )
        agents = self._lines[tenant]
        asker = max(agents, key=lambda agent: (len(agents[agent]), agent == newcomer))
        turn = agents[asker][-1]
        self._drop(asker, turn)
        turn.set_exception(PortBusy(f"{self._most} questions wait for the model, as many as may"))

    def _count_waiting(self, tenant: str) -> int:
        return sum(map(len, self._lines[tenant].values()))

    def _drop(self, asker: Asker, turn: Place) -> None:
        agents = self._lines.get(asker.tenant, OrderedDict())
        line = agents.get(asker)
        if line is None or turn not in line:
            return
        line.remove(turn)
        if not line:
            del agents[asker]
        if not agents:
            del self._lines[asker.tenant]
