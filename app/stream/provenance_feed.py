"""Where provenance references lead, as the resolvers record it, for the decisions of this worker.

Nothing is resolved here, and no decision waits: it looks a reference up and records what it saw.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

from aiokafka.errors import KafkaError

from app.core.retrieval.resolution import Resolution
from app.ports import Known
from topics.reading import Unreadable, read
from topics.records import ProvenanceRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

log = logging.getLogger(__name__)

TAKEN_AT_ONCE = 500
"""Records between two looks at the loop: about 15 ms."""


class RecordReader(Protocol):
    """The topic of resolutions, read on from where the last call stopped."""

    async def to_end(self) -> Sequence[bytes]:
        """The values of every record up to the end that the topic has now. Raises KafkaError."""

    async def close(self) -> None:
        """Give up the connection."""


class ProvenanceFeed:
    """`recorded` is one mapping that changes in place, by tenant and URI: whoever decides reads it once.

    Of a tenant's references the `max_recorded` resolved last are kept: who invents references crowds out
    none but its own tenant's, and what was crowded out is wanted again.
    """

    def __init__(self, reader: RecordReader, interval_s: float, max_recorded: int) -> None:
        self.recorded: dict[tuple[str, str], Resolution] = {}
        self._known: defaultdict[str, dict[str, Known | None]] = defaultdict(dict)
        self._reader = reader
        self._interval_s = interval_s
        self._max_recorded = max_recorded
        self._turn = asyncio.Lock()

    def known(self, tenant: str, uri: str) -> Known | None:
        """What the last resolution left, None where it found nothing or there was none."""
        return self._known[tenant].get(uri) if tenant in self._known else None

    async def catch_up(self) -> None:
        """Read to the topic's end as of now. Raises KafkaError."""
        async with self._turn:
            for place, value in enumerate(await self._reader.to_end()):
                self._take(value)
                if place % TAKEN_AT_ONCE == 0:
                    await asyncio.sleep(0)

    async def follow(self) -> None:
        """Catch up again and again, until cancelled. A broker that is away is asked again."""
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.catch_up()
            except KafkaError as away:
                log.warning("the resolved references cannot be read now: %s", away)

    async def close(self) -> None:
        """Give up the connection."""
        async with self._turn:
            await self._reader.close()

    def _take(self, value: bytes) -> None:
        record = read(ProvenanceRecord, value)
        if isinstance(record, Unreadable):
            log.error("a resolved reference cannot be read: %s at %s", record.code, record.path)
            return
        tenant, uri = record.tenant_id, record.uri
        self.recorded[tenant, uri] = Resolution(
            record.status, record.hash, record.resolver, record.seen_at, record.detail
        )
        known = self._known[tenant]
        known.pop(uri, None)
        known[uri] = _known(record)
        if len(known) > self._max_recorded:
            oldest = next(iter(known))
            del known[oldest], self.recorded[tenant, oldest]


def _known(record: ProvenanceRecord) -> Known | None:
    if record.hash is None:
        return None
    return Known(record.hash, record.size or 0, record.etag, record.last_modified)
