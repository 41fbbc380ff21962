"""Where provenance references lead, as the resolvers record it, for the decisions of this worker.

Nothing is resolved here, and no decision waits: it looks a reference up and records what it saw.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from app.core.metadata.provenance import Resolution
from app.ports import Known
from app.stream.feeds.compacted_feed import CompactedFeed
from topics.reading import Unreadable, read
from topics.records import ProvenanceRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.stream.feeds.compacted_feed import CompactedReader

log = logging.getLogger(__name__)


CLOCKS_APART_MS = 60_000
"""What is further in the future was seen by a clock that is wrong: it would be believed for ever."""


class Kept(NamedTuple):
    """How much of a tenant's resolutions is kept: `max_bytes` are of the records as they are published."""

    max_recorded: int
    max_bytes: int


class ProvenanceFeed(CompactedFeed):
    """`recorded` is one mapping that changes in place, by tenant and URI: whoever decides reads it once.

    Of a tenant's references those resolved last are kept, as many as `kept` says: who invents references
    crowds out none but its own tenant's, and what was crowded out is wanted again. `wall_ms`: the time.
    """

    def __init__(
        self, reader: CompactedReader, interval_s: float, kept: Kept, wall_ms: Callable[[], int]
    ) -> None:
        super().__init__(reader, interval_s, "resolved references", self._taken)
        self.recorded: dict[tuple[str, str], Resolution] = {}
        self._known: defaultdict[str, dict[str, tuple[Known | None, int]]] = defaultdict(dict)
        self._bytes: defaultdict[str, int] = defaultdict(int)
        self._kept = kept
        self._wall_ms = wall_ms

    def known(self, tenant: str, uri: str) -> Known | None:
        """What the last resolution left, None where it found nothing or there was none."""
        return self._known[tenant].get(uri, _NOTHING)[0] if tenant in self._known else None

    def _taken(self, value: bytes) -> None:
        record = read(ProvenanceRecord, value)
        if isinstance(record, Unreadable):
            log.error("a resolved reference cannot be read: %s at %s", record.code, record.path)
            return
        if record.seen_at > self._wall_ms() + CLOCKS_APART_MS:
            log.warning("a resolved reference is from the future and counts for nothing: %s", record.uri)
        elif not self._is_behind(record):
            self._forget(record.tenant_id, record.uri)
            self._keep(record, len(value))

    def _is_behind(self, record: ProvenanceRecord) -> bool:
        """Of two resolvers the one that began later knows better, whichever was published last."""
        held = self.recorded.get((record.tenant_id, record.uri))
        return held is not None and record.seen_at < held.seen_ms

    def _keep(self, record: ProvenanceRecord, size: int) -> None:
        tenant, known = record.tenant_id, self._known[record.tenant_id]
        self.recorded[tenant, record.uri] = Resolution(
            record.status, record.hash, record.resolver, record.seen_at, record.detail
        )
        known[record.uri] = _known(record), size
        self._bytes[tenant] += size
        while len(known) > self._kept.max_recorded or self._bytes[tenant] > self._kept.max_bytes:
            self._forget(tenant, next(iter(known)))

    def _forget(self, tenant: str, uri: str) -> None:
        self.recorded.pop((tenant, uri), None)
        self._bytes[tenant] -= self._known[tenant].pop(uri, _NOTHING)[1]


_NOTHING: tuple[Known | None, int] = (None, 0)


def _known(record: ProvenanceRecord) -> Known | None:
    if record.hash is None:
        return None
    return Known(record.hash, record.size or 0, record.etag, record.last_modified)
