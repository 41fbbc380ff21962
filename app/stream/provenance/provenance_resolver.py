"""Resolves the references that decisions came upon, beside them, and records what was found.

Whatever a source of references does concerns its own reference only: each is resolved in a task of its own,
within its host's and its tenant's share, and a fault in it becomes that reference's record. The place of a
wanted reference is committed once its record is published, or there is nothing to say of it: none is lost
when a worker ends, and one may be resolved twice.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

import orjson
from aiokafka.errors import KafkaError

from app.core.text.places import normal_uri
from app.ports import Found
from app.stream.provenance.provenance_work import Reference, Work
from topics.record_reading import Unreadable, read
from topics.records import ProvenanceRecord, ProvenanceWanted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from app.ports import ProvenanceSource
    from app.stream.feeds.shared_feeds import ProvenanceFeed
    from app.stream.provenance.provenance_work import Place, Shares


log = logging.getLogger(__name__)

FAULT = "the resolver failed"


class Tried(NamedTuple):
    """A reference that was resolved or could not be, and when that was begun. No record: there is nothing to
    say."""

    reference: Reference
    since_ms: int
    record: ProvenanceRecord | None


class Resolving:
    """As many at once as the work's shares allow; one that ends makes room for the next by itself."""

    def __init__(
        self, source: ProvenanceSource, feed: ProvenanceFeed, work: Work, wall_ms: Callable[[], int]
    ) -> None:
        self._source = source
        self._feed = feed
        self._work = work
        self._wall_ms = wall_ms
        self._tasks: set[asyncio.Task[Found]] = set()
        self._found: list[Tried] = []
        self._ending = False

    def start(self) -> None:
        """Begin what may begin now."""
        while not self._ending and (reference := self._work.take()) is not None:
            task = asyncio.create_task(self._source.resolve(*reference, self._feed.known(*reference)))
            self._tasks.add(task)
            task.add_done_callback(partial(self._ended, reference, self._wall_ms()))

    def found(self) -> list[Tried]:
        """What was tried since the last call."""
        found, self._found = self._found, []
        return found

    async def end(self) -> None:
        """Give up what is in work."""
        self._ending = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _ended(self, reference: Reference, since_ms: int, task: asyncio.Task[Found]) -> None:
        self._tasks.discard(task)
        self._work.ended(reference)
        found = Found(None, FAULT, "passing")
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("%s of %s cannot be resolved", reference.uri, reference.tenant, exc_info=fault)
        elif not task.cancelled():
            found = task.result()
        self._found.append(Tried(reference, since_ms, self._said(reference, found, since_ms)))
        self.start()

    def _said(self, reference: Reference, found: Found, since_ms: int) -> ProvenanceRecord | None:
        """As of the beginning: what was there may have changed while it was read.

        A hiccup leaves what was found the last time as it is, and as old as it is. What the rules refuse is
        said only where it was let through before: nobody is to fill the topic with references to nowhere.
        """
        recorded = self._feed.recorded.get(reference)
        known = self._feed.known(*reference)
        if found.failure == "unasked" or (found.failure == "refused" and known is None):
            return None
        if found.failure == "passing" and recorded is not None and known is not None:
            return self._record(reference, found._replace(known=known), recorded.seen_ms)
        return self._record(reference, found, since_ms)

    def _record(self, reference: Reference, found: Found, seen_ms: int) -> ProvenanceRecord:
        known = found.known
        return ProvenanceRecord(
            schema_name="sluice/provenance_record/v1",
            tenant_id=reference.tenant,
            uri=reference.uri,
            status="unresolvable" if known is None else "resolved",
            resolver=self._source.name,
            hash=known and known.hash,
            detail=found.detail,
            size=known and known.size,
            etag=known and known.etag,
            last_modified=known and known.last_modified,
            seen_at=seen_ms,
        )


class WantedTopic(Protocol):
    """The wanted references of this worker's partitions, and the records. Each call raises KafkaError."""

    async def connect(self) -> None:
        """Before anything else."""

    async def some(self) -> Sequence[tuple[int, int, bytes | None]]:
        """Partition, offset and value of what came since the last call; waits a moment where nothing did."""

    def lost(self) -> frozenset[int]:
        """Partitions that were taken away since the last call."""

    async def publish(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Keys and values; all are acknowledged when it returns."""

    async def commit(self, positions: Mapping[int, int]) -> None:
        """Where the next owner begins, by partition."""

    async def close(self) -> None:
        """Give up the connections, also half of one."""


@dataclass(frozen=True, slots=True)
class ResolverSettings:
    """`min_interval_s`: a reference is not resolved twice within it; `again_s`: until a broker that went away
    is asked again; `pause_s`: between two looks while no more is taken."""

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
        """Until cancelled. A broker that was away gives again what was not committed."""
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
                await self._record(work, resolving.found())
        finally:
            await resolving.end()
            await self._topic.close()

    async def _take(self, work: Work) -> None:
        if not work.room:
            await asyncio.sleep(self._settings.pause_s)
        came = await self._topic.some() if work.room else ()
        work.forget(self._topic.lost())
        for partition, offset, value in came:
            self._enter(work, (partition, offset), value)

    def _enter(self, work: Work, place: Place, value: bytes | None) -> None:
        wanted = read(ProvenanceWanted, value)
        if isinstance(wanted, Unreadable):
            log.error("a wanted reference cannot be read: %s at %s", wanted.code, wanted.path)
            work.skip(place)
            return
        reference = Reference(wanted.tenant_id, normal_uri(wanted.uri))
        if self._is_young(reference):
            work.skip(place)
        elif not work.enter(place, reference):
            log.warning(
                "%s of %s is left: too many of its host or tenant wait", reference.uri, reference.tenant
            )

    def _is_young(self, reference: Reference) -> bool:
        """Resolved a moment ago, by whomever. The feed lags: what was published here is remembered here."""
        recorded = self._feed.recorded.get(reference)
        seen = (self._published.get(reference), recorded and recorded.seen_ms)
        now, interval = self._wall_ms(), self._settings.min_interval_s * 1000
        return any(at is not None and 0 <= now - at < interval for at in seen)

    async def _record(self, work: Work, found: Sequence[Tried]) -> None:
        records = [_message(one.reference, one.record) for one in found if one.record is not None]
        if records:
            await self._topic.publish(records)
        for one in found:
            work.recorded(one.reference)
            if one.record is not None:
                self._published[one.reference] = one.since_ms
        self._forget_old()
        await self._topic.commit(work.positions())

    def _forget_old(self) -> None:
        until = self._wall_ms() - self._settings.min_interval_s * 1000
        for reference in [one for one, at in self._published.items() if at < until]:
            del self._published[reference]


def _message(reference: Reference, record: ProvenanceRecord) -> tuple[bytes, bytes]:
    return orjson.dumps(list(reference)), record.model_dump_json(by_alias=True).encode()
