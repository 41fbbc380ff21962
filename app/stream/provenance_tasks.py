"""References that are being resolved: a task for each, whose fault is nobody else's."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from app.ports import Found
from topics.records import ProvenanceRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.ports import ProvenanceSource
    from app.stream.provenance_feed import ProvenanceFeed
    from app.stream.provenance_work import Reference, Work

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
