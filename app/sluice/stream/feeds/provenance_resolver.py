"""Resolve in the background the references that decisions requested, and record the results.

A source can affect only its own reference: each reference is resolved in its own task, within the share of
its host and tenant, and a fault in the task becomes the record of that reference. The offset of a request is
committed once its record is published, or when there is nothing to record. So no request is lost when a
worker ends, and a reference may be resolved twice.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

import orjson
from aiokafka.errors import KafkaError

from sluice.ports import ProvenanceAnswer
from sluice.stream.feeds.provenance_work import Reference, Work
from sluice.text.places import normal_uri
from sluice_topics.record_reading import Unreadable, read
from sluice_topics.records import ProvenanceRecord, ProvenanceWanted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sluice.ports import ProvenanceSource
    from sluice.stream.feeds.provenance_work import Place, Shares
    from sluice.stream.feeds.shared_feeds import ProvenanceFeed


log = logging.getLogger(__name__)

FAULT = "the resolver failed"


class Tried(NamedTuple):
    """An attempt at a reference, with its result and the time at which it began. No record: there is nothing
    to record."""

    reference: Reference
    since_ms: int
    record: ProvenanceRecord | None


class Resolving:
    """The attempts in progress, as many as the shares allow; when one ends, the next one starts."""

    def __init__(
        self, source: ProvenanceSource, feed: ProvenanceFeed, work: Work, wall_ms: Callable[[], int]
    ) -> None:
        self._source = source
        self._feed = feed
        self._work = work
        self._wall_ms = wall_ms
        self._tasks: set[asyncio.Task[ProvenanceAnswer]] = set()
        self._attempts: list[Tried] = []
        self._ending = False

    def start(self) -> None:
        """Start the attempts that may start now."""
        while not self._ending and (reference := self._work.take()) is not None:
            task = asyncio.create_task(self._source.resolve(*reference, self._feed.find(*reference)))
            self._tasks.add(task)
            task.add_done_callback(partial(self._note_end, reference, self._wall_ms()))

    def take_found(self) -> list[Tried]:
        """The attempts that ended since the last call."""
        attempts, self._attempts = self._attempts, []
        return attempts

    async def end(self) -> None:
        """Cancel the attempts in progress."""
        self._ending = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _note_end(self, reference: Reference, since_ms: int, task: asyncio.Task[ProvenanceAnswer]) -> None:
        self._tasks.discard(task)
        self._work.note_end(reference)
        answer = ProvenanceAnswer(None, FAULT, "passing")
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("%s of %s cannot be resolved", reference.uri, reference.tenant, exc_info=fault)
        elif not task.cancelled():
            answer = task.result()
        self._attempts.append(Tried(reference, since_ms, self._make_record(reference, answer, since_ms)))
        self.start()

    def _make_record(
        self, reference: Reference, answer: ProvenanceAnswer, since_ms: int
    ) -> ProvenanceRecord | None:
        """The record of an attempt, with the time of its beginning: the source may have changed while it was
        read.

        A temporary failure keeps the last result with its age. A refusal by the rules is recorded only if
        the reference was resolved before: otherwise anyone could fill the topic with references to nowhere.
        """
        recorded = self._feed.recorded.get(reference)
        record = self._feed.find(*reference)
        if answer.failure == "unasked" or (answer.failure == "refused" and record is None):
            return None
        if answer.failure == "passing" and recorded is not None and record is not None:
            return self._record(reference, answer._replace(resolution=record), recorded.seen_ms)
        return self._record(reference, answer, since_ms)

    def _record(self, reference: Reference, answer: ProvenanceAnswer, seen_ms: int) -> ProvenanceRecord:
        record = answer.resolution
        return ProvenanceRecord(
            schema_name="sluice/provenance_record/v1",
            tenant_id=reference.tenant,
            uri=reference.uri,
            status="unresolvable" if record is None else "resolved",
            resolver=self._source.name,
            hash=record and record.hash,
            detail=answer.detail,
            size=record and record.size,
            etag=record and record.etag,
            last_modified=record and record.last_modified,
            seen_at=seen_ms,
        )


class WantedTopic(Protocol):
    """The requests of this worker's partitions, and the records. Each call raises KafkaError."""

    async def connect(self) -> None:
        """Before anything else."""

    async def some(self) -> Sequence[tuple[int, int, bytes | None]]:
        """Partition, offset and value of the requests since the last call; waits a moment if there are
        none."""

    def take_lost(self) -> frozenset[int]:
        """Partitions that were taken away since the last call."""

    async def publish(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Publish keys and values; all are acknowledged when it returns."""

    async def commit(self, positions: Mapping[int, int]) -> None:
        """Commit the offsets at which the next owner begins, by partition."""

    async def close(self) -> None:
        """Close the connections, also if only some of them are open."""


@dataclass(frozen=True, slots=True)
class ResolverSettings:
    """`min_interval_s`: a reference is not resolved twice within this time; `again_s`: the wait before a
    broker that was away is asked again; `pause_s`: the time between two checks while no more requests are
    taken."""

    shares: Shares
    min_interval_s: float
    again_s: float = 1.0
    pause_s: float = 0.1


class ProvenanceResolver:
    """Runs in one loop. `wall_ms`: the time, ms since 1970."""

    def __init__(
        self,
        source: ProvenanceSource,
        topic: WantedTopic,
        feed: ProvenanceFeed,
        settings: ResolverSettings,
        wall_ms: Callable[[], int],
    ) -> None:
        self._source = source
        self._topic = topic
        self._feed = feed
        self._settings = settings
        self._wall_ms = wall_ms
        self._published: dict[Reference, int] = {}

    async def run(self) -> None:
        """Run until cancelled. After an outage the broker delivers uncommitted requests again."""
        while True:
            try:
                await self._serve()
            except KafkaError as away:
                log.warning("references cannot be resolved now: %s", away)
            await asyncio.sleep(self._settings.again_s)

    async def _serve(self) -> None:
        work = Work(self._settings.shares)
        resolving = Resolving(self._source, self._feed, work, self._wall_ms)
        try:
            await self._topic.connect()
            while True:
                await self._take(work)
                resolving.start()
                await self._record(work, resolving.take_found())
        finally:
            await resolving.end()
            await self._topic.close()

    async def _take(self, work: Work) -> None:
        if not work.has_capacity:
            await asyncio.sleep(self._settings.pause_s)
        came = await self._topic.some() if work.has_capacity else ()
        work.forget(self._topic.take_lost())
        for partition, offset, value in came:
            self._enter(work, (partition, offset), value)

    def _enter(self, work: Work, coordinates: Place, value: bytes | None) -> None:
        wanted = read(ProvenanceWanted, value)
        if isinstance(wanted, Unreadable):
            log.error("a wanted reference cannot be read: %s at %s", wanted.code, wanted.path)
            work.skip(coordinates)
            return
        reference = Reference(wanted.tenant_id, normal_uri(wanted.uri))
        if self._is_young(reference):
            work.skip(coordinates)
        elif not work.enter(coordinates, reference):
            log.warning(
                "%s of %s is left: too many of its host or tenant wait", reference.uri, reference.tenant
            )

    def _is_young(self, reference: Reference) -> bool:
        """Whether any resolver has just resolved it. The feed lags, so this worker remembers its own
        records."""
        recorded = self._feed.recorded.get(reference)
        versions = (self._published.get(reference), recorded and recorded.seen_ms)
        now, interval = self._wall_ms(), self._settings.min_interval_s * 1000
        return any(at is not None and 0 <= now - at < interval for at in versions)

    async def _record(self, work: Work, attempts: Sequence[Tried]) -> None:
        records = [
            _message(attempt.reference, attempt.record) for attempt in attempts if attempt.record is not None
        ]
        if records:
            await self._topic.publish(records)
        for attempt in attempts:
            work.note_recorded(attempt.reference)
            if attempt.record is not None:
                self._published[attempt.reference] = attempt.since_ms
        self._forget_old()
        await self._topic.commit(work.positions())

    def _forget_old(self) -> None:
        until = self._wall_ms() - self._settings.min_interval_s * 1000
        for reference in [published for published, at in self._published.items() if at < until]:
            del self._published[reference]


def _message(reference: Reference, record: ProvenanceRecord) -> tuple[bytes, bytes]:
    return orjson.dumps(list(reference)), record.model_dump_json(by_alias=True).encode()
