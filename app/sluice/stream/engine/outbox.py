"""Staged records of one partition, which are numbered and chained together when their batch is taken.

The order of staging is the order of the chain. A record that could not be linked would stop the worker. But
everything that an input can put into a ledger record was canonicalised before, for the decision's rerun hash,
and what it can put into released content is bounded (sluice/core/memory/admitted.py) and written unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from aiokafka.partitioner import murmur2

from sluice.core.foundation.canonical import canonical
from sluice.core.reports.memory_recount import LiveCounts
from sluice.stream.engine.crash_guard import RESERVED_KEY, PartitionRecord
from sluice.stream.engine.observer import StagedRecord
from sluice_topics.catalog import BY_NAME
from sluice_topics.headers import Headers, make_output_headers

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable

    from sluice.core.foundation.chain import Chain, OutRecord
    from sluice.core.foundation.input_record import InputRecord
    from sluice.stream.engine.observer import EngineObserver
    from sluice.stream.engine.record_signer import RecordSigner


def home_of(key: bytes, partitions: int) -> int:
    """The partition of a message key, 0 to `partitions` - 1, by the rule of Kafka's Java client."""
    return int(murmur2(key) & 0x7FFFFFFF) % partitions


_LEDGER = frozenset(name for name, topic in BY_NAME.items() if topic.ledger)
_INTERNAL = frozenset(name for name, topic in BY_NAME.items() if topic.direction == "internal")


@dataclass(frozen=True, slots=True)
class Output:
    """A record ready to be produced; `topic` is its base name, `partition` None the writer's own."""

    topic: str
    key: bytes
    value: bytes
    headers: Headers
    partition: int | None = None


class Outbox:
    """`source` is the CloudEvents source of all records of this worker; `partitions` is the number of each
    topic's. Without a `signer` records have no proofs."""

    def __init__(
        self,
        chain: Chain,
        source: str,
        partitions: int,
        signer: RecordSigner | None = None,
        watch: tuple[EngineObserver, Callable[[], int]] | None = None,
    ) -> None:
        """`watch`: who observes what is taken, and the time, ms since 1970; None: nobody does."""
        self._chain = chain
        self._source = source
        self._partitions = partitions
        self._signer = signer
        self._watch = watch
        self._staged: list[StagedRecord] = []
        self.taken: object = None

    def add(
        self, records: Iterable[OutRecord], traceparent: str | None, answered: InputRecord | None = None
    ) -> None:
        """Stage the records of one decision; `traceparent` is the input's; `answered`: the input itself, if
        it led to the decision and not time alone."""
        now_ms = 0 if self._watch is None else self._watch[1]()
        for record in records:
            self._staged.append(StagedRecord(record, traceparent, answered, now_ms))
            answered = None

    def topics(self) -> set[str]:
        """The topics of what is staged, without those whose key chooses the partition."""
        return {staged.record.topic for staged in self._staged} - _INTERNAL

    def take(self) -> list[Output]:
        """Link what is staged, and sign it as one transaction; `taken`: what the observer made of it. Raises
        CanonicalError."""
        staged, self._staged = self._staged, []
        values = []
        for record, *_ in staged:
            if record.topic in _LEDGER:
                values.append(self._chain.link(record.body, ordered=record.ordered, alike=record.alike))
            else:
                values.append(canonical(record.body, finite=True))
        outputs = []
        for (record, traceparent, *_), value in zip(staged, values, strict=True):
            outputs.append(self._output(record, value, traceparent))
        if self._signer is not None:
            self._signer.sign(self._chain.partition, outputs)
        if self._watch is not None:
            self.taken = self._watch[0].note_taken(staged)
        return outputs

    def _output(self, record: OutRecord, value: bytes, traceparent: str | None) -> Output:
        key = record.subject.encode()
        if record.topic in _INTERNAL:
            return Output(record.topic, key, value, [], home_of(key, self._partitions))
        headers = make_output_headers(record.body, record.kind, self._source, traceparent)
        return Output(record.topic, key, value, headers)


class ChangelogRecord(Protocol):
    """A committed record of the changelog."""

    @property
    def partition(self) -> int:
        """Its number."""

    @property
    def key(self) -> bytes | None:
        """The table's key."""

    @property
    def value(self) -> bytes | None:
        """None deletes."""


async def live_statistics(changelog: AsyncIterable[ChangelogRecord]) -> LiveCounts:
    """The workers' counts, of each partition as of its last transaction."""
    live = LiveCounts()
    async for entry in changelog:
        if entry.key == RESERVED_KEY:
            live.commit(entry.partition, PartitionRecord.decode(entry.value).sequence)
        else:
            live.take(entry.partition, entry.key or b"", entry.value)
    return live
