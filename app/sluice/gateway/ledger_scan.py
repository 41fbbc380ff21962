"""Looks through the ledger from a time back, over the whole retention: bounded, and told how far it came.

The newest records of all partitions come first, in windows: each time that partition is read further back
whose oldest record so far is the newest. So everything after one moment was looked through, and a later scan
goes on from there.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.client.kafka_reading import open_consumer, read_between
from sluice.client.record_proofs import NO_PROOFS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aiokafka import AIOKafkaConsumer, TopicPartition

    from sluice.client.record_proofs import RecordProofs

MOST_READ, LONGEST_S = 50_000, 5.0
WINDOW, LEAST_WINDOW = 500, 20
NEVER_MS = 2**62


class ScanQuery(NamedTuple):
    """What to look for: records of these topics (base names) and this tenant that have all of these bytes
    somewhere. From before one time back to another, in ms since 1970; 0: to the oldest."""

    topics: Sequence[str]
    tenant: str
    words: Sequence[bytes] = ()
    before_ms: int = NEVER_MS
    after_ms: int = 0
    most_found: int = MOST_READ


class LedgerMatch(NamedTuple):
    """A record: its topic (base name), the broker's time of it in ms since 1970, and what it says."""

    topic: str
    at_ms: int
    fields: dict[str, Any]


class Scanned(NamedTuple):
    """What was found, the newest first. `read`: records that were looked through, `left`: about how many were
    not; `next_ms`: a scan from before this time goes on; None: all was looked through."""

    matches: list[LedgerMatch]
    read: int
    left: int
    next_ms: int | None
    took_s: float


@dataclass(slots=True)
class _Line:
    """A partition of a topic, which is read from its end to its first offset. `reached_ms`: the time of the
    oldest record that was read."""

    topic: str
    part: TopicPartition
    first: int
    end: int
    reached_ms: int = NEVER_MS

    @property
    def left(self) -> int:
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class LedgerScan:
    """Scans one installation's ledger; each scan has a connection of its own. `proofs`: which keys must have
    signed what is found. `most_read`, `longest_s`: records and seconds of one scan, which ends with the
    window that passes one of them, but leaves no partition out; `window`: records that are read at once."""

    connection: Mapping[str, Any]
    prefix: str
    partitions: int
    proofs: RecordProofs = NO_PROOFS
    most_read: int = MOST_READ
    longest_s: float = LONGEST_S
    window: int = WINDOW

    async def scan(self, asked: ScanQuery) -> Scanned:
        """Scan. Raises KafkaError."""
        began, read, matches = time.monotonic(), 0, list[LedgerMatch]()
        async with open_consumer(self.connection, fetch_max_wait_ms=100) as consumer:
            lines = await self._open_lines(consumer, asked)
            window = max(LEAST_WINDOW, min(self.window, self.most_read // (2 * len(lines) or 1)))
            while (line := _find_newest(lines)) is not None:
                is_over = read >= self.most_read or time.monotonic() - began > self.longest_s
                if line.reached_ms < NEVER_MS and (is_over or len(matches) >= asked.most_found):
                    break
                records = await self._read_window(consumer, line, window)
                read += len(records)
                matches += select_matches(line.topic, records, asked, self.proofs)
        took_s = time.monotonic() - began
        if line is None:
            return Scanned(_sort_matches(matches), read, 0, None, took_s)
        reached = [match for match in matches if match.at_ms > line.reached_ms]
        next_ms = min(line.reached_ms + 1, asked.before_ms - 1)
        return Scanned(
            _sort_matches(reached), read, sum(open_line.left for open_line in lines), next_ms, took_s
        )

    async def _open_lines(self, consumer: AIOKafkaConsumer, asked: ScanQuery) -> list[_Line]:
        from aiokafka import TopicPartition  # noqa: PLC0415 - importing the gateway loads no Kafka

        topics = {
            TopicPartition(self.prefix + topic, number): topic
            for topic in asked.topics
            for number in range(self.partitions)
        }
        consumer.assign([*topics])
        consumer.pause(*topics)
        firsts, ends = await consumer.beginning_offsets([*topics]), await consumer.end_offsets([*topics])
        if asked.after_ms:
            since = await consumer.offsets_for_times(dict.fromkeys(topics, asked.after_ms))
            firsts = {
                part: ends[part] if position is None else position.offset for part, position in since.items()
            }
        if asked.before_ms < NEVER_MS:
            until = await consumer.offsets_for_times(dict.fromkeys(topics, asked.before_ms))
            ends |= {part: position.offset for part, position in until.items() if position is not None}
        return [
            _Line(topic, part, firsts[part], ends[part])
            for part, topic in topics.items()
            if firsts[part] < ends[part]
        ]

    async def _read_window(self, consumer: AIOKafkaConsumer, line: _Line, most: int) -> list[Any]:
        """The next records of a line, in their order."""
        begin = max(line.first, line.end - most)
        records = await read_between(consumer, line.part, begin, line.end)
        line.end = begin
        line.reached_ms = min([line.reached_ms, *(record.timestamp for record in records)])
        return records


def select_matches(
    topic: str, records: Sequence[Any], asked: ScanQuery, proofs: RecordProofs
) -> list[LedgerMatch]:
    """Those that count, and are what was asked for."""
    words = (asked.tenant.encode(), *asked.words)
    return [
        LedgerMatch(topic, record.timestamp, fields)
        for record in records
        if all(word in (record.value or b"") for word in words)
        and (fields := proofs.read_record(topic, record)) is not None
        and fields.get("tenant_id") == asked.tenant
    ]


def quote_text(text: str) -> bytes:
    """A text as it is in a record's JSON."""
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _find_newest(lines: Sequence[_Line]) -> _Line | None:
    """The line that has to be read next; None where all are read."""
    return max((line for line in lines if line.left), key=lambda line: line.reached_ms, default=None)


def _sort_matches(matches: list[LedgerMatch]) -> list[LedgerMatch]:
    return sorted(matches, key=lambda match: match.at_ms, reverse=True)
