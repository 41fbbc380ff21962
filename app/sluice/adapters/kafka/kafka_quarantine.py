"""What waits for people, as it lies on a broker: held memories, escalations, what is behind them; reviews."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from aiokafka.errors import KafkaError

from sluice.adapters.kafka.kafka_evidence import is_sought
from sluice.adapters.kafka.kafka_inputs import KafkaHeldInput
from sluice.adapters.kafka.kafka_ledger import LedgerReader
from sluice.adapters.kafka.kafka_read import make_unreachable
from sluice.client.answers import ActionNotDecided, InputUnreadable
from sluice.client.exchange import Exchange
from sluice.client.input_kinds import REVIEW
from sluice.client.kafka_writing import PublishedAt
from sluice.client.record_proofs import NO_PROOFS
from sluice.core.reports.ledger_values import NotInLedgerError, read_decision, read_event
from sluice.core.reports.memory_recount import StatisticsRecount
from sluice_topics.catalog import MEMORY_DECISIONS, QUARANTINE, REVIEWS, SESSIONS_CHANGELOG, VERDICTS
from sluice_topics.json_text import parse
from sluice_topics.record_reading import read_ledger_record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from sluice.adapters.kafka.kafka_read import StoredRecord
    from sluice.client.answers import InputLocation
    from sluice.client.exchange import OutgoingInput
    from sluice.client.kafka_connection import KafkaCluster
    from sluice.client.record_proofs import RecordProofs


T = TypeVar("T")


def parse_ledger_record(base: str, value: bytes | None) -> dict[str, Any] | None:
    """The fields of a record of the ledger; None for what no worker wrote."""
    fields = parse(value or b"")
    return fields if isinstance(fields, dict) and read_ledger_record(base, fields) is not None else None


def _read_with_place(read: Callable[[bytes | None], T], record: StoredRecord, what: str) -> T:
    try:
        return read(record.value)
    except NotInLedgerError as error:
        origin = f"{record.topic}:{record.partition}:{record.offset}"
        raise NotInLedgerError(f"{origin} is no {what}: {error}") from None


Place = tuple[str, int, int]
"""Base topic, partition and offset of an input."""

CLOCKS_APART_MS = 60_000
"""A decision is written after its input; brokers' clocks differ by less than this."""


@dataclass(frozen=True, slots=True)
class Reviewed:
    """Where a review lies, and the record that says what became of it; None if none came in time. `flaw`: why
    the worker could not read it, a code and words."""

    placed: PublishedAt
    record: dict[str, Any] | None = None
    flaw: tuple[str, str] | None = None


class KafkaQuarantine:
    """Reads one installation's topics. Its methods raise UnknownTopics and KafkaUnreachable."""

    def __init__(
        self, cluster: KafkaCluster, real_names: Mapping[str, str], proofs: RecordProofs = NO_PROOFS
    ) -> None:
        """`real_names`: topic on the broker by base name; `proofs`: which keys must have signed what is read
        of the ledger."""
        self._proofs = proofs
        self._cluster = cluster
        self._names = real_names

    async def read_records(self, base: str, text: str = "") -> AsyncIterator[dict[str, Any]]:
        """Every committed record of a topic that has this text in it, each partition in order. What no worker
        wrote is passed over (`sluice ledger verify` names it)."""
        async for _, record in self._open(base).read():
            if text.encode() in (record.value or b""):
                fields = parse_ledger_record(base, record.value)
                if fields is not None:
                    yield fields

    async def read_changelog(self) -> AsyncIterator[StoredRecord]:
        """Every committed entry of the workers' table, as far as the log is not compacted."""
        topics = {self._names[SESSIONS_CHANGELOG]: SESSIONS_CHANGELOG}
        async for _, record in LedgerReader(self._cluster, topics).read():
            yield record

    async def recompute(self, until: Mapping[int, int]) -> StatisticsRecount:
        """Every decision on a write and every event of the quarantine, counted up to a sequence of each
        partition. Raises NotInLedgerError too."""
        anew = StatisticsRecount(until)
        async for base, record in self._open(MEMORY_DECISIONS, QUARANTINE).read():
            if base == MEMORY_DECISIONS:
                anew.count_decision(_read_with_place(read_decision, record, "decision on a memory"))
            else:
                anew.count_event(_read_with_place(read_event, record, "event of the quarantine"))
        return anew

    def _open(self, *bases: str) -> LedgerReader:
        return LedgerReader(self._cluster, {self._names[base]: base for base in bases}, self._proofs)

    async def fetch_content(self, coordinates: Place) -> bytes:
        """The value of the input at this place. Raises PortUnavailable where it is no longer to be had."""
        topic, partition, offset = coordinates
        held_input = KafkaHeldInput(self._cluster, self._names)
        try:
            content = await held_input.ask({"topic": topic, "partition": partition, "offset": offset})
        finally:
            await held_input.close()
        assert isinstance(content, bytes)  # noqa: S101 - what the port answers
        return content

    async def fetch_decision(self, memory_id: str, partition: int, since_ms: int) -> bytes | None:
        """The decision on the write of this id, whose input came at `since_ms` (0: unknown)."""
        return await self._find_first_since(
            MEMORY_DECISIONS, partition, since_ms, lambda value: is_sought("memory_id", memory_id, value)
        )

    async def fetch_verdict(self, verdict_id: str, partition: int, since_ms: int) -> bytes | None:
        """The verdict of this id, first or resolved, whose input came at `since_ms`."""
        return await self._find_first_since(
            VERDICTS, partition, since_ms, lambda value: is_sought("verdict_id", verdict_id, value)
        )

    async def _find_first_since(
        self, base: str, partition: int, since_ms: int, holds: Callable[[bytes], bool]
    ) -> bytes | None:
        record = await self._open(base).find_first(partition, max(0, since_ms - CLOCKS_APART_MS), holds)
        return None if record is None else record.value

    async def review(self, review: OutgoingInput, subject_id: str, wait_s: float) -> Reviewed:
        """Publish a person's signed answer to what waits under an id, and wait for what becomes of it."""
        prefix = self._names[REVIEWS].removesuffix(REVIEWS)
        exchange = Exchange(self._cluster, prefix, answers=REVIEW.answer_topics, proofs=self._proofs)
        places: list[PublishedAt] = []

        def note_place(at: InputLocation) -> None:
            places.append(PublishedAt(self._names[REVIEWS], at.partition, at.offset, at.timestamp_ms))

        try:
            await exchange.start()
            record = await exchange.review(review, subject_id, wait_s, note_place)
            return Reviewed(places[0], record)
        except InputUnreadable as unreadable:
            return Reviewed(places[0], flaw=(unreadable.code, unreadable.flaw))
        except ActionNotDecided as late:
            if not places:
                raise make_unreachable(self._cluster, late) from late
            return Reviewed(places[0])
        except (KafkaError, ConnectionError) as error:
            raise make_unreachable(self._cluster, error) from error
        finally:
            await exchange.close()
