"""Every memory source's history, as the owners publish them, for the decisions of this worker.

The newest record under a key counts. It may lag behind the owners' own; a decision records what it saw.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from app.core.state.history import History, SourceName
from app.stream.feeds.compacted_feed import CompactedFeed
from topics.reading import Unreadable, read
from topics.records import SourceHistory

if TYPE_CHECKING:
    from app.stream.feeds.compacted_feed import CompactedReader

log = logging.getLogger(__name__)


class SourceFeed(CompactedFeed):
    """`histories` is one mapping that changes in place: whoever decides reads it once."""

    def __init__(self, reader: CompactedReader, interval_s: float) -> None:
        super().__init__(reader, interval_s, "source histories", self._taken)
        self.histories: dict[SourceName, History] = {}

    def _taken(self, value: bytes) -> None:
        record = read(SourceHistory, value)
        if isinstance(record, Unreadable):
            log.error("a source history cannot be read: %s at %s", record.code, record.path)
            return
        name = SourceName(record.tenant_id, record.source_id)
        known = self.histories.get(name)
        if known is None or known.revision < record.revision:
            self.histories[name] = History(record.type, record.positive, record.negative, record.revision)
