"""The policy of a running worker: control topics in, a new decision point as soon as they change.

A decision takes the point that is in force when its lane starts it and keeps it to its end, so none falls
under half of a change. The fold of all control records is a pure function; it runs beside the loop, since a
bundle compiles and runs its own cases there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from aiokafka.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.core.arrival import Arrival
    from app.core.decide import DecisionPoint
    from app.core.trust.refused import Refused

log = logging.getLogger(__name__)


class ControlReader(Protocol):
    """Both control topics, read on from where the last call stopped."""

    async def to_end(self) -> list[Arrival]:
        """Every record up to the end that the topics have now. Raises KafkaError."""

    async def close(self) -> None:
        """Give up the connection."""


class InForce(Protocol):
    """What a fold gives: the point to decide with, and every record that does not count."""

    @property
    def point(self) -> DecisionPoint | None:
        """None while the default bundle is not in force."""

    @property
    def refused(self) -> Sequence[Refused]:
        """In the order of the fold."""


Use = Callable[["DecisionPoint", "Sequence[Refused]"], None]
"""Called with every new policy that has a point; the last one stays otherwise."""


class PolicyFeed:
    """Made outside a loop; the reader connects with the first `catch_up`. `first`: to start with."""

    def __init__(
        self,
        first: DecisionPoint,
        reader: ControlReader,
        fold: Callable[[Sequence[Arrival]], InForce],
        interval_s: float,
    ) -> None:
        self.first = first
        self._reader = reader
        self._fold = fold
        self._interval_s = interval_s
        self._records: list[Arrival] = []
        self._folded = 0
        self._told: set[str] = set()
        self._turn = asyncio.Lock()

    async def catch_up(self, use: Use) -> None:
        """Read to the topics' end as of now and put in force what is new. Raises KafkaError."""
        async with self._turn:
            self._records += await self._reader.to_end()
            if len(self._records) > self._folded:
                await self._refold(use)

    async def follow(self, use: Use) -> None:
        """Catch up again and again, until cancelled. A broker that is away is asked again."""
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.catch_up(use)
            except KafkaError as away:
                log.warning("the control topics cannot be read now: %s", away)

    async def close(self) -> None:
        """Give up the connection."""
        async with self._turn:
            await self._reader.close()

    async def _refold(self, use: Use) -> None:
        """Counted as folded only when it is done: `follow` may be cancelled in between."""
        records = tuple(self._records)
        found = await asyncio.to_thread(self._fold, records)
        self._folded = len(records)
        refused = {str(one) for one in found.refused}
        for told in sorted(refused - self._told):
            log.warning("refused: %s", told)
        self._told = refused
        if found.point is None:
            log.error("the default bundle is not in force; what was in force stays")
        else:
            use(found.point, found.refused)
