"""The policy of a running worker: it reads the control topics and makes a new decision point when they
change.

A decision takes the point in force when its lane starts it and keeps it to its end, so no decision uses half
of a change. None begins under what was read longer ago than `policy.max_lag_s`: inputs wait until the topics
are read again, so that a revocation counts from that time on, whatever keeps a worker from reading it. The
reduction of all control records is a pure function. It runs in a thread, because it compiles
bundles and runs their cases.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from aiokafka.errors import KafkaError

from sluice.core.actions.grading import judges_unproved
from sluice.core.trust.policy_contents import make_name
from sluice.core.trust.signed_entries import BUNDLE, QUALITY_BUNDLE
from sluice.stream.process import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.trust.policy_contents import PolicyContents
    from sluice.core.trust.refused import Refused
    from sluice.core.trust.revisions import Accepted


MOST_LINES = 20
"""The most lines of one kind for one reading of the control topics; the rest is counted."""
_KINDS = {QUALITY_BUNDLE: "quality bundle"}


def describe(entries: Sequence[Accepted]) -> str:
    """The policy in force in one line: bundles by name and revision, the registry by kinds and their number.

    Anyone may have published the names and reasons in control records, so a line shows only a limited number
    of printable characters, and one reading of the topics fills a limited number of lines.
    """
    bundles = [entry for entry in entries if entry.kind in (BUNDLE, QUALITY_BUNDLE)]
    named = [_revision(bundle) for bundle in bundles[:MOST_LINES]]
    more = [f"{len(bundles) - len(named)} more bundles"] if len(bundles) > len(named) else []
    kinds = Counter(entry.kind for entry in entries if entry.kind not in (BUNDLE, QUALITY_BUNDLE))
    counted = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())) or "empty"
    return one_line(f"{', '.join([*named, *more])}; registry entries: {counted}")


def describe_changes(before: Sequence[Accepted], now: Sequence[Accepted]) -> Iterator[str]:
    """A line for each revision that came into force: which one, which one it replaces, and who signed it.

    For a bundle also what it relaxes.
    """
    replaced = {make_name(entry.statement): entry for entry in before}
    hashes = {entry.hash for entry in before}
    return _limit_lines(
        (
            _change(entry, replaced.get(make_name(entry.statement)))
            for entry in now
            if entry.hash not in hashes
        ),
        "changes",
    )


def describe_refused(refused: Iterable[Refused]) -> Iterator[str]:
    """A line for each control record that does not count: its coordinates, the reason, and the place in
    it."""
    return _limit_lines(map(str, refused), "records")


def _revision(entry: Accepted) -> str:
    return f"{_KINDS.get(entry.kind, entry.kind)} {entry.statement.id} revision {entry.statement.revision}"


def _change(entry: Accepted, before: Accepted | None) -> str:
    instead = "is new" if before is None else f"replaces revision {before.statement.revision}"
    signed = ", ".join(sorted(entry.approvers)) or "a root key"
    relaxed = f"; relaxed: {', '.join(entry.relaxations)}" if entry.relaxations else ""
    return f"{_revision(entry)} {instead}, signed by {signed}{relaxed}"


def _limit_lines(lines: Iterable[str], what: str) -> Iterator[str]:
    left = iter(lines)
    yield from map(one_line, islice(left, MOST_LINES))
    more = sum(1 for _ in left)
    if more:
        yield f"and {more} more {what}"


log = logging.getLogger(__name__)


def _read_clock() -> float:
    """Seconds of a clock that runs on while the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ControlReader(Protocol):
    """A reader of both control topics; each call continues where the last one stopped."""

    async def to_end(self) -> list[InputRecord]:
        """Read every record up to the present end of the topics. Raises KafkaError."""

    async def close(self) -> None:
        """Give up the connection."""


class ReductionResult(Protocol):
    """The result of a reduction: the decision point, and every record that does not count."""

    @property
    def point(self) -> DecisionPoint | None:
        """None while the default bundle is not in force."""

    @property
    def refused(self) -> Sequence[Refused]:
        """In the order of the reduction."""

    @property
    def entries(self) -> Sequence[Accepted]:
        """The bundles and registry entries in force."""

    @property
    def contents(self) -> PolicyContents:
        """What they are together."""


Use = Callable[["DecisionPoint", "Sequence[Refused]", "PolicyContents"], None]
"""A function that gets every new policy with a decision point; otherwise the last one stays."""


class PolicyFeed:
    """The feed. It may be made outside a loop; the reader connects with the first `catch_up`. `first`: the
    point at the start."""

    def __init__(
        self,
        first: DecisionPoint,
        reader: ControlReader,
        reduce: Callable[[Sequence[InputRecord]], ReductionResult],
        interval_s: float,
        max_lag_s: float,
        clock: Callable[[], float] = _read_clock,
    ) -> None:
        """`interval_s`: between two readings; `max_lag_s`: after so long without one the policy is not
        current; `clock` gives seconds."""
        self.first = first
        self._reader = reader
        self._reduce = reduce
        self._interval_s = interval_s
        self._max_lag_s = max_lag_s
        self._clock = clock
        self._is_late = False
        self._away = ""
        self._next_reading = asyncio.Event()
        self._records: list[InputRecord] = []
        self._reduceed = 0
        self._reported: set[str] = set()
        self._unproved: set[str] = set()
        self._entries: Sequence[Accepted] = ()
        self._turn = asyncio.Lock()
        self._as_of_s: float | None = None

    async def catch_up(self, use: Use) -> None:
        """Read to the topics' present end and put new entries in force. Raises KafkaError."""
        async with self._turn:
            began_s = self._clock()
            self._records += await self._reader.to_end()
            if len(self._records) > self._reduceed:
                await self._reduce_again(use)
            self._as_of_s = began_s  # what the topics held then is in it, what came since may not be
            if (self._away or self._is_late) and self.is_current():
                log.info("policy: read again")
                self._away, self._is_late = "", False
        self.release()

    def is_current(self) -> bool:
        """Whether a decision may begin under the policy in force."""
        lag_s = self.measure_lag()
        return lag_s is not None and lag_s <= self._max_lag_s

    def measure_lag(self) -> float | None:
        """Seconds since the time of which the policy in force is; None before the first reading."""
        return None if self._as_of_s is None else self._clock() - self._as_of_s

    async def wait_until_current(self, is_wanted: Callable[[], bool] = lambda: True) -> float:
        """Return when a decision may begin, or none `is_wanted` any more; how long that took, in s."""
        if self.is_current():
            return 0.0
        began_s = self._clock()
        while is_wanted() and not self.is_current():
            if not self._is_late:
                self._tell_late()
            await self._next_reading.wait()
        return self._clock() - began_s

    def release(self) -> None:
        """Have those who wait look again: there was a reading, or they may be wanted no more."""
        self._next_reading.set()
        self._next_reading = asyncio.Event()

    async def follow(self, use: Use) -> None:
        """Catch up again and again, until cancelled. A broker that is away is asked again."""
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.catch_up(use)
            except KafkaError as away:
                self._tell_away(str(away))

    async def close(self) -> None:
        """Give up the connection."""
        async with self._turn:
            await self._reader.close()

    async def _reduce_again(self, use: Use) -> None:
        """Reduce again. Records count as reduced only when that is done: `follow` may be cancelled in
        between."""
        records = tuple(self._records)
        result = await asyncio.to_thread(self._reduce, records)
        self._reduceed = len(records)
        self._tell_refused(result.refused)
        if result.point is None:
            log.error("policy: the default bundle is not in force; what was in force stays")
        else:
            self._tell_in_force(result.entries, result.contents)
            self._tell_unproved(result.entries)
            use(result.point, result.refused, result.contents)

    def _tell_away(self, reason: str) -> None:
        """Log why the topics cannot be read, once for as long as the reason stays."""
        if reason != self._away:
            log.warning("the control topics cannot be read now: %s", reason)
        self._away = reason
        if not self._is_late and not self.is_current():
            self._tell_late()

    def _tell_late(self) -> None:
        self._is_late = True
        log.warning("policy: not read for more than %g s; inputs wait until it is", self._max_lag_s)

    def _tell_refused(self, refused: Sequence[Refused]) -> None:
        """Log each refusal once, and again whenever it changes (a change that is not complete yet)."""
        for line in describe_refused([refusal for refusal in refused if str(refusal) not in self._reported]):
            log.warning("policy: refused, what was in force stays: %s", line)
        self._reported = {str(refusal) for refusal in refused}

    def _tell_unproved(self, entries: Sequence[Accepted]) -> None:
        """Log, once for each, the bundles under which a hosted model judges that nobody has proved."""
        bundles = [entry.bundle for entry in entries if entry.bundle is not None]
        named = [
            bundle for bundle in bundles if bundle.hash not in self._unproved and judges_unproved(bundle)
        ]
        self._unproved |= {bundle.hash for bundle in named}
        lines = (f"bundle {bundle.id} lets hosted models judge without a proof" for bundle in named)
        for line in _limit_lines(lines, "bundles"):
            log.warning("policy: %s (grader.proof.required is false)", line)

    def _tell_in_force(self, entries: Sequence[Accepted], contents: PolicyContents) -> None:
        names = {"policy": contents.digest}
        if self._entries:
            for line in describe_changes(self._entries, entries):
                log.info("policy: %s", line, extra=names)
        else:
            log.info("policy in force: %s", describe(entries), extra=names)
        self._entries = entries
