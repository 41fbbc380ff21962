"""The policy of a running worker: control topics in, a new decision point as soon as they change.

A decision takes the point that is in force when its lane starts it and keeps it to its end, so none falls
under half of a change. The fold of all control records is a pure function; it runs beside the loop, since a
bundle compiles and runs its own cases there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from aiokafka.errors import KafkaError

from app.core.registry.loading import FACT
from app.core.trust.signed_entries import BUNDLE, QUALITY_BUNDLE
from app.stream.process import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from app.core.decide.decide import DecisionPoint
    from app.core.foundation.arrival import Arrival
    from app.core.trust.refused import Refused
    from app.core.trust.revisions import Accepted


MOST_LINES = 20
"""Of one kind and one reading of the control topics; the rest is counted."""
_KINDS = {QUALITY_BUNDLE: "quality bundle"}


def describe(entries: Sequence[Accepted]) -> str:
    """All that is in force: bundles by name and revision, the registry by kinds and their number.

    Names and reasons come from control records that anybody may have published, so a line shows only
    printable signs, of bounded number, and one reading of the topics fills a bounded number of lines.
    """
    bundles = [one for one in entries if one.kind in (BUNDLE, QUALITY_BUNDLE)]
    named = [_revision(one) for one in bundles[:MOST_LINES]]
    more = [f"{len(bundles) - len(named)} more bundles"] if len(bundles) > len(named) else []
    kinds = Counter(one.kind for one in entries if one.kind not in (BUNDLE, QUALITY_BUNDLE))
    counted = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())) or "empty"
    return one_line(f"{', '.join([*named, *more])}; registry entries: {counted}")


def describe_changes(before: Sequence[Accepted], now: Sequence[Accepted]) -> Iterator[str]:
    """A line for each revision that came into force: which, instead of which, and who signed it.

    Of a quality bundle also what it takes back.
    """
    replaced = {_name(one): one for one in before}
    known = {one.hash for one in before}
    return _bounded(
        (_change(one, replaced.get(_name(one))) for one in now if one.hash not in known), "changes"
    )


def describe_refused(refused: Iterable[Refused]) -> Iterator[str]:
    """A line for each control record that does not count: where it lies, the reason, and where in it."""
    return _bounded(map(str, refused), "records")


def _name(one: Accepted) -> str:
    """Of facts every revision counts for its time: none replaces another."""
    return one.key if one.kind == FACT else f"{one.kind}/{one.said.id}"


def _revision(one: Accepted) -> str:
    return f"{_KINDS.get(one.kind, one.kind)} {one.said.id} revision {one.said.revision}"


def _change(one: Accepted, before: Accepted | None) -> str:
    instead = "is new" if before is None else f"replaces revision {before.said.revision}"
    signed = ", ".join(sorted(one.approvers)) or "a root key"
    looser = f"; looser: {', '.join(one.looser)}" if one.looser else ""
    return f"{_revision(one)} {instead}, signed by {signed}{looser}"


def _bounded(lines: Iterable[str], what: str) -> Iterator[str]:
    left = iter(lines)
    yield from map(one_line, islice(left, MOST_LINES))
    more = sum(1 for _ in left)
    if more:
        yield f"and {more} more {what}"


log = logging.getLogger(__name__)


class ControlReader(Protocol):
    """Both control topics, read on from where the last call stopped."""

    async def to_end(self) -> list[Arrival]:
        """Every record up to the end that the topics have now. Raises KafkaError."""

    async def close(self) -> None:
        """Give up the connection."""


class FoldResult(Protocol):
    """What a fold gives: the point to decide with, and every record that does not count."""

    @property
    def point(self) -> DecisionPoint | None:
        """None while the default bundle is not in force."""

    @property
    def refused(self) -> Sequence[Refused]:
        """In the order of the fold."""

    @property
    def entries(self) -> Sequence[Accepted]:
        """The bundles and registry entries in force."""


Use = Callable[["DecisionPoint", "Sequence[Refused]"], None]
"""Called with every new policy that has a point; the last one stays otherwise."""


class PolicyFeed:
    """Made outside a loop; the reader connects with the first `catch_up`. `first`: to start with."""

    def __init__(
        self,
        first: DecisionPoint,
        reader: ControlReader,
        fold: Callable[[Sequence[Arrival]], FoldResult],
        interval_s: float,
    ) -> None:
        self.first = first
        self._reader = reader
        self._fold = fold
        self._interval_s = interval_s
        self._records: list[Arrival] = []
        self._folded = 0
        self._told: set[str] = set()
        self._entries: Sequence[Accepted] = ()
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
        self._tell_refused(found.refused)
        if found.point is None:
            log.error("policy: the default bundle is not in force; what was in force stays")
        else:
            self._tell_in_force(found.entries)
            use(found.point, found.refused)

    def _tell_refused(self, refused: Sequence[Refused]) -> None:
        """Each refusal once; one that changes (a change that never became whole) as often as it does."""
        for line in describe_refused([one for one in refused if str(one) not in self._told]):
            log.warning("policy: refused, what was in force stays: %s", line)
        self._told = {str(one) for one in refused}

    def _tell_in_force(self, entries: Sequence[Accepted]) -> None:
        if self._entries:
            for line in describe_changes(self._entries, entries):
                log.info("policy: %s", line)
        else:
            log.info("policy in force: %s", describe(entries))
        self._entries = entries
