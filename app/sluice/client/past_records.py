"""Committed records and inputs that lie on the broker already."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.client.binding import CommittedAnswer
from sluice.client.kafka_reading import open_consumer, read_between, read_to
from sluice.client.record_proofs import NO_PROOFS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from aiokafka import AIOKafkaConsumer, TopicPartition

    from sluice.client.answers import InputLocation
    from sluice.client.binding import AnswerQuery
    from sluice.client.record_proofs import RecordProofs

log = logging.getLogger(__name__)

ID_HEADER, TYPE_HEADER = "ce_id", "ce_type"
OPENINGS = (b"sluice.gate.escalation_opened.v1", b"sluice.gate.retrieval_escalation_opened.v1")
CLOCKS_APART_MS = 60_000
"""How far before an input's time the search for its answer begins: more than clocks of brokers differ."""
LATEST: dict[str, Any] = {"auto_offset_reset": "latest", "fetch_max_wait_ms": 100}
"""The broker holds a fetch that finds nothing for so long: a partition that is resumed waits until it
ends."""


class PlacedInput(NamedTuple):
    """An input as the broker has it; `timestamp_ms` is the broker's."""

    value: bytes
    timestamp_ms: int


class PastRecords:
    """Looks for single records; each look has a connection of its own."""

    def __init__(
        self,
        connection: Mapping[str, Any],
        topics: Mapping[str, str],
        prefix: str = "",
        proofs: RecordProofs = NO_PROOFS,
    ) -> None:
        """`connection`: aiokafka's arguments for a client. `topics`: real names to base names; `prefix`: of
        every topic; `proofs`: which keys must have signed the records of these topics."""
        self._connection = connection
        self._proofs = proofs
        self._prefix = prefix
        self._topics = topics

    async def look_back(
        self, sought: AnswerQuery, location: InputLocation, topics: Collection[str]
    ) -> CommittedAnswer | None:
        """Look for the answer in the records committed since the input came; None if it is not there yet.

        Reads the partition's topics once, from the input's time to their present ends.
        """
        from aiokafka import TopicPartition  # noqa: PLC0415 - importing the client loads no Kafka

        parts = [
            TopicPartition(real, location.partition) for real, base in self._topics.items() if base in topics
        ]
        async with open_consumer(self._connection, **LATEST) as consumer:
            return await self._look(consumer, parts, sought, location.timestamp_ms - CLOCKS_APART_MS)

    async def fetch_value(self, topic: str, location: InputLocation) -> bytes | None:
        """The value of an input at its coordinates; None if it is no longer there."""
        past_input = await self.fetch_input(topic, location.partition, location.offset)
        return None if past_input is None else past_input.value

    async def fetch_input(self, topic: str, partition: int, offset: int) -> PlacedInput | None:
        """The input at a place of a topic (base name); None where none is there, or no longer."""
        from aiokafka import TopicPartition  # noqa: PLC0415 - importing the client loads no Kafka

        part = TopicPartition(self._prefix + topic, partition)
        async with open_consumer(self._connection, **LATEST) as consumer:
            consumer.assign([part])
            if offset < (await consumer.end_offsets([part]))[part]:
                for record in await read_between(consumer, part, offset, offset + 1):
                    return PlacedInput(bytes(record.value or b""), record.timestamp)
            return None

    def _accept(self, record: Any, sought: AnswerQuery) -> CommittedAnswer | None:
        """The record, if it is what is sought. One that only has the id is passed over, with a warning."""
        base = self._topics[record.topic]
        fields = self._proofs.read_fields(base, record)
        if fields is None:
            return None
        answer = CommittedAnswer(base, fields, record.timestamp)
        objection = sought.objection(answer)
        if objection is None:
            return answer
        coordinates = f"{record.topic}:{record.partition}:{record.offset}"
        log.warning("%s is not the answer that its id says, and is passed over: %s", coordinates, objection)
        return None

    async def _look(
        self, consumer: AIOKafkaConsumer, parts: list[TopicPartition], sought: AnswerQuery, since_ms: int
    ) -> CommittedAnswer | None:
        consumer.assign(parts)
        begins = await consumer.offsets_for_times(dict.fromkeys(parts, since_ms))
        ends = await consumer.end_offsets(parts)
        for part, begin in begins.items():
            consumer.seek(part, ends[part] if begin is None else begin.offset)
        async for batch in read_to(consumer, ends):
            for record in batch:
                if (
                    read_answer_id(record) in sought.ids
                    and (answer := self._accept(record, sought)) is not None
                ):
                    return answer
        return None


def read_answer_id(record: Any) -> str:
    """The id of the answer that a record is. None for the opening of an escalation, which has the id of its
    end."""
    headers = dict(record.headers)
    if headers.get(TYPE_HEADER) in OPENINGS:
        return ""
    return str(headers.get(ID_HEADER, b""), "utf-8", "replace")
