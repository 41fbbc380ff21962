"""A memory source's history across sessions (product.md, "Memory writes").

Each session's partition sends what it learns about a source to the source's own partition. The one owner of
that partition folds it and sends the folded history to all workers. A decision records the revision it saw.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import rfc3339
from sluice_topics.catalog import SOURCE_FEEDBACK, SOURCE_HISTORIES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.core.state.quarantined import QuarantinedMemory

SCHEMA_FEEDBACK = "sluice/source_feedback/v1"
SCHEMA_HISTORY = "sluice/source_history/v1"
KEY_PREFIX = b"f:"
"""Of an owned history in the sessions' table."""


def write_array_key(parts: Iterable[str]) -> str:
    """A message key of several names: their JSON array."""
    return json.dumps(list(parts), ensure_ascii=False, separators=(",", ":"))


class SourceName(NamedTuple):
    """A tenant and a source's id: sources of two tenants with the same id are two sources."""

    tenant: str
    source: str

    def key(self) -> str:
        """The message key of everything about this source."""
        return write_array_key(self)


@dataclass(frozen=True, slots=True)
class History:
    """The history of a source. `type` as first seen, None for an unseen source; `revision` counts the folded
    pieces of feedback."""

    type: str | None
    positive: int
    negative: int
    revision: int

    def encode(self) -> bytes:
        """The bytes in the table."""
        return orjson.dumps([self.type, self.positive, self.negative, self.revision])

    @classmethod
    def decode(cls, stored: bytes | None) -> History:
        """The history that `encode` wrote; for None the history of an unseen source."""
        return UNSEEN if stored is None else cls(*orjson.loads(stored))

    def add(self, claimed_type: str, verdict: str) -> History:
        """This history with one more piece of feedback. The type stays as first seen."""
        return History(
            self.type or claimed_type,
            self.positive + (verdict == "positive"),
            self.negative + (verdict == "negative"),
            self.revision + 1,
        )


UNSEEN = History(None, 0, 0, 0)


def record_seen(name: SourceName, claimed_type: str, memory_id: str, now_ms: int) -> OutRecord:
    """Feedback: a source wrote in a session for the first time."""
    return _feedback(name, claimed_type, "seen", memory_id, now_ms)


def record_review(memory: QuarantinedMemory, *, approved: bool, now_ms: int) -> OutRecord:
    """Feedback: a person judged one of the source's memories."""
    name = SourceName(memory.tenant, memory.source_id)
    return _feedback(
        name, memory.source_type, "positive" if approved else "negative", memory.memory_id, now_ms
    )


def history_record(name: SourceName, history: History, now_ms: int) -> OutRecord:
    """The folded history as all workers read it."""
    body = {
        "schema": SCHEMA_HISTORY,
        "tenant_id": name.tenant,
        "source_id": name.source,
        "type": history.type,
        "positive": history.positive,
        "negative": history.negative,
        "revision": history.revision,
        "decided_at": rfc3339(now_ms),
    }
    return OutRecord(SOURCE_HISTORIES, "SourceHistory", body, name.key())


def _feedback(name: SourceName, claimed_type: str, verdict: str, memory_id: str, now_ms: int) -> OutRecord:
    body: dict[str, Any] = {
        "schema": SCHEMA_FEEDBACK,
        "tenant_id": name.tenant,
        "source_id": name.source,
        "type": claimed_type,
        "verdict": verdict,
        "memory_id": memory_id,
        "decided_at": rfc3339(now_ms),
    }
    return OutRecord(SOURCE_FEEDBACK, "SourceFeedback", body, name.key())
