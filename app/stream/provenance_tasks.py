"""References that are being resolved: a task for each, whose fault is nobody else's."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from app.ports import Found
from topics.records import ProvenanceRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.ports import ProvenanceSource
    from app.stream.provenance_feed import ProvenanceFeed
    from app.stream.provenance_work import Reference, Work

log = logging.getLogger(__name__)

FAULT = "the resolver failed"


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
        self._found: list[tuple[Reference, ProvenanceRecord]] = []
        self._ending = False

    def start(self) -> None:
        """Begin what may begin now."""
        while not self._ending and (reference := self._work.take()) is not None:
            task = asyncio.create_task(self._source.resolve(reference.uri, self._feed.known(*reference)))
            self._tasks.add(task)
            task.add_done_callback(partial(self._ended, reference, self._wall_ms()))

    def found(self) -> list[tuple[Reference, ProvenanceRecord]]:
        """What was resolved since the last call."""
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
        found = Found(None, FAULT)
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("%s of %s cannot be resolved", reference.uri, reference.tenant, exc_info=fault)
        elif not task.cancelled():
            found = task.result()
        self._found.append((reference, self._record(reference, found, since_ms)))
        self.start()

    def _record(self, reference: Reference, found: Found, since_ms: int) -> ProvenanceRecord:
        """As of the beginning: what was there may have changed while it was read."""
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
            seen_at=since_ms,
        )
