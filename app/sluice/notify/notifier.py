"""Delivers the records of a topic to one destination: nothing is lost while it is away, and nothing waits for
what is not in its way.

A position is committed once everything before it is delivered, so a record is delivered at least once. What
fails is tried again, later and later up to a bound, or when the destination said. Each destination has a
consumer group of its own, so that none waits for another: nor for one whose records or answers nobody
foresaw, which is put off like what fails.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from aiokafka.errors import KafkaError

from sluice.notify.backlog import DeliveryBacklog

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sluice.notify.backlog import AssignedPart, CommittedEvent, Part, Pending
    from sluice_topics.records import NotifiedSubject

log = logging.getLogger(__name__)
DELIVERIES = 20
"""After so many the topic is read again: a consumer that does not ask loses its partitions."""
IDLE_S = 0.2
_WAIT = re.compile(r"[0-9]{1,6}")
LONGEST_WAIT_S = 3600.0
"""However long a destination asks to be left alone: nobody is kept from an escalation for days."""


def parse_wait(retry_after: str) -> float | None:
    """The seconds of a Retry-After field (RFC 9110, section 10.2.3, without its dates); None where it has
    none."""
    match = _WAIT.fullmatch(retry_after)
    return None if match is None else min(float(match[0]), LONGEST_WAIT_S)


class TryLaterError(Exception):
    """It was not delivered. `scope`: what else is not tried meanwhile ("": the whole destination; None:
    nothing else). `after_s`: when to try again, as the destination says; None: it does not. `done`: how many
    of the records were delivered before."""

    def __init__(self, message: str, scope: str | None = None, after_s: float | None = None) -> None:
        super().__init__(message)
        self.scope = scope
        self.after_s = after_s
        self.done = 0


class Destination(Protocol):
    """A place to which notifications go. `name` is for the log."""

    name: str

    def name_subject(self, record: CommittedEvent) -> str | None:
        """Name the subject that the record is about; None: nobody is notified of it."""

    def name_scope(self, pending: Pending) -> str | None:
        """Name what a delivery shares with others that fail with it, such as a channel."""

    async def assign(self, parts: Iterable[Part]) -> None:
        """These partitions are delivered from now on."""

    async def deliver(self, subject: str, records: Sequence[CommittedEvent]) -> None:
        """Tell of the records of one subject, in their order. Raises TryLaterError."""

    async def close(self) -> None:
        """Give up what it holds."""


class LedgerTopic(Protocol):
    """A member of a consumer group."""

    async def connect(self) -> None:
        """Before anything else."""

    async def read_changes(self) -> tuple[frozenset[Part], Sequence[AssignedPart]]:
        """Which partitions went and came since the last call."""

    async def read_some(
        self, wait_s: float, *, paused: bool
    ) -> tuple[list[CommittedEvent], Mapping[Part, int]]:
        """Return new events, and the offset up to which each partition is read; `paused`: none may come."""

    async def commit(self, positions: Mapping[Part, int]) -> None:
        """Commit the offset at which the next owner of each partition begins."""

    async def close(self) -> None:
        """Leave the group."""


class Notified(Protocol):
    """The subjects that a destination was notified of, stored beside the ledger."""

    async def read_newest(self, partitions: Iterable[int]) -> dict[str, NotifiedSubject]:
        """The newest record of each subject of these partitions."""

    async def keep(self, partition: int, record: NotifiedSubject) -> None:
        """A newer one."""

    async def close(self) -> None:
        """Give up the connection."""


class DeliveryObserver(Protocol):
    """Sees what becomes of deliveries. `destination`: its name."""

    def note_delivery(self, destination: str, result: Literal["delivered", "put_off", "fault"]) -> None:
        """One delivery was tried."""

    def note_backlog(self, destination: str, waiting: int, *, caught_up: bool) -> None:
        """So many subjects wait; `caught_up`: everything that was committed has been read."""


@dataclass(frozen=True, slots=True)
class Patience:
    """`first_s` after the first failure, twice as long after each further one, `longest_s` at most."""

    first_s: float
    longest_s: float

    def compute_wait(self, failures: int) -> float:
        """Compute how long to wait after so many failures, in s."""
        return min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, 30))


class Notifier:
    """One destination's. Raises KafkaError from `run`: then start it again."""

    def __init__(
        self,
        topic: LedgerTopic,
        destination: Destination,
        patience: Patience,
        most: int,
        observer: DeliveryObserver | None = None,
    ) -> None:
        """`most`: subjects that wait at a time, after which no more is read."""
        self._observer = observer
        self._topic = topic
        self._destination = destination
        self._patience = patience
        self._backlog = DeliveryBacklog(most, destination.name_scope)
        self._failures: Counter[str | None] = Counter()
        self._stopping = False

    @property
    def name(self) -> str:
        """Its destination's name."""
        return self._destination.name

    def stop(self) -> None:
        """Return from `run` after the present delivery."""
        self._stopping = True

    async def run(self) -> None:
        """Deliver until stopped."""
        await self._topic.connect()
        try:
            wait_s = IDLE_S
            while not self._stopping:
                await self._read(wait_s)
                wait_s = IDLE_S if await self._deliver() < DELIVERIES else 0.0
                await self._topic.commit(self._backlog.list_committable())
        finally:
            await self._destination.close()
            await self._topic.close()

    async def _read(self, wait_s: float) -> None:
        lost, came = await self._topic.read_changes()
        self._backlog.revoke(lost)
        if came:
            await self._destination.assign([assigned.part for assigned in came])
        for assigned_part in came:
            self._backlog.assign(assigned_part)
        is_paused = self._backlog.is_full
        records, positions = await self._topic.read_some(wait_s, paused=is_paused)
        for record in records:
            subject = self._destination.name_subject(record)
            if subject is not None:
                self._backlog.take(record, subject)
        for part, position in positions.items():
            self._backlog.note_position(part, position)
        if self._observer is not None:
            caught_up = not (records or is_paused or self._backlog.is_looking)
            self._observer.note_backlog(self._destination.name, self._backlog.waiting, caught_up=caught_up)

    async def _deliver(self) -> int:
        for count in range(DELIVERIES):
            pending = None if self._stopping else self._backlog.find_due(time.monotonic())
            if pending is None:
                return count
            records = tuple(pending.records)
            try:
                await self._destination.deliver(pending.subject, records)
            except TryLaterError as error:
                self._note("put_off")
                self._postpone(pending, error)
            except KafkaError:
                raise
            except Exception as error:
                log.exception("%s: nobody foresaw what came of %s", self._destination.name, pending.subject)
                self._note("fault")
                self._postpone(pending, TryLaterError(f"fails: {type(error).__name__}"))
            else:
                self._note("delivered")
                for name in ("", self._destination.name_scope(pending), pending.subject):
                    self._failures.pop(name, None)
                self._backlog.note_delivered(pending, len(records))
        return DELIVERIES

    def _note(self, result: Literal["delivered", "put_off", "fault"]) -> None:
        if self._observer is not None:
            self._observer.note_delivery(self._destination.name, result)

    def _postpone(self, pending: Pending, error: TryLaterError) -> None:
        name = pending.subject if error.scope is None else error.scope
        self._failures[name] += 1
        self._backlog.note_delivered(pending, error.done)
        after_s = error.after_s or self._patience.compute_wait(self._failures[name])
        self._backlog.postpone(pending, time.monotonic() + after_s, error.scope)
        details = self._destination.name, pending.subject, after_s, error
        log.warning("%s: %s is put off for %.1f s: %s", *details)


async def run_all(notifiers: Sequence[Notifier]) -> None:
    """Run them until all were stopped. Raises what the first one raised, after the others have stopped."""
    tasks = [asyncio.create_task(notifier.run()) for notifier in notifiers]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for other in notifiers:
            other.stop()
        await asyncio.wait(tasks)
    for task in tasks:
        task.result()
