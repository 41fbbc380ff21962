"""The exchange of inputs and committed answers: one producer and one reader for any number of agents.

The client of one agent uses it, and so does the HTTP gateway for all agents that call it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.client.answer_reader import AnswerReader
from sluice.client.answers import (
    ActionNotDecided,
    BrokerUnreachable,
    InputLocation,
    InputUnreadable,
    LoginRefused,
)
from sluice.client.binding import describe_answer
from sluice.client.input_kinds import ACTIONS, ANSWERS, DEAD_LETTERS
from sluice.client.kafka_connection import build_client_arguments, is_secured
from sluice.client.kafka_lines import thin_out_kafka_lines
from sluice.client.kafka_writing import make_producer
from sluice.client.record_proofs import NO_PROOFS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aiokafka import AIOKafkaProducer

    from sluice.client.binding import CommittedAnswer
    from sluice.client.input_kinds import InputKind
    from sluice.client.kafka_connection import KafkaCluster
    from sluice.client.kafka_lines import KafkaLines
    from sluice.client.record_proofs import RecordProofs


DEFAULT_CONNECT_S = 10.0


class OutgoingInput(NamedTuple):
    """An input to publish. `name`: what it is called in errors."""

    kind: InputKind
    name: str
    session: str
    value: bytes
    headers: Sequence[tuple[str, bytes]]


class Exchange:
    """Publishes inputs, each to its session's partition, and finds their answers. On one event loop."""

    def __init__(
        self,
        cluster: KafkaCluster,
        topic_prefix: str = "",
        connection: Mapping[str, Any] | None = None,
        answers: Sequence[str] = ANSWERS,
        proofs: RecordProofs = NO_PROOFS,
    ) -> None:
        """`connection`: further arguments of aiokafka's clients; `answers`: the topics that are read;
        `proofs`: which keys must have signed the answers."""
        self._cluster = cluster
        self._lines: KafkaLines | None = None
        self.connection = {**build_client_arguments(cluster), **(connection or {})}
        self.prefix = topic_prefix
        self.partitions = 0
        topics = {self.prefix + base: base for base in answers}
        self.reader = AnswerReader(self.connection, topics, self.prefix, proofs)
        self._producer: AIOKafkaProducer | None = None

    @property
    def is_broker_away(self) -> bool:
        """Whether the broker cannot be reached, as the log says too."""
        return self._lines is not None and self._lines.is_away(str(self._cluster))

    async def start(self, within_s: float = DEFAULT_CONNECT_S) -> None:
        """Connect. Raises BrokerUnreachable if that does not succeed in time, LoginRefused if the broker
        refuses the login; nothing is left open then."""
        from aiokafka.errors import KafkaError  # noqa: PLC0415 - importing the client loads no Kafka

        ends_s = asyncio.get_running_loop().time() + within_s
        if self._lines is None:
            self._lines = thin_out_kafka_lines(str(self._cluster))
        if is_secured(self._cluster):
            from sluice.client.kafka_login import find_login_fault  # noqa: PLC0415 - as above

            fault = await find_login_fault(self._cluster, within_s)
            if fault is not None:
                await self.close()
                if fault.is_final:
                    raise LoginRefused(str(self._cluster), fault.message)
                raise BrokerUnreachable(str(self._cluster), within_s, fault.message)
        self._producer = make_producer(self.connection)
        what = "it does not answer"
        try:
            async with asyncio.timeout_at(ends_s):
                await self._producer.start()
                what = f"it has no topic {self.prefix}{ACTIONS}, which `sluice init` makes"
                self.partitions = len(await self._producer.partitions_for(self.prefix + ACTIONS))
                what = "its answers cannot be read"
                await self.reader.start(self.partitions)
        except (KafkaError, OSError) as error:
            away = BrokerUnreachable(self.connection["bootstrap_servers"], within_s, what, error)
        except BaseException:
            await self.close()
            raise
        else:
            return
        await self.close()
        raise away

    async def close(self) -> None:
        """Send what was taken, and disconnect. Who still waits gets a ConnectionError."""
        await self.reader.close()
        if self._producer is not None:
            await self._producer.stop()
        if self._lines is not None:
            self._lines.unwatch(str(self._cluster))
            self._lines = None

    def find_partition(self, session: str) -> int:
        """The partition of a session, by the rule of Kafka's Java client."""
        from aiokafka.partitioner import murmur2  # noqa: PLC0415 - importing the client loads no Kafka

        return int(murmur2(session.encode()) & 0x7FFFFFFF) % self.partitions

    async def publish(self, what: OutgoingInput) -> InputLocation:
        """Publish an input; return when the broker has it. Raises KafkaError."""
        if self._producer is None:
            raise RuntimeError("the client is not started")
        metadata = await self._producer.send_and_wait(
            self.prefix + what.kind.topic,
            what.value,
            key=what.session.encode(),
            partition=self.find_partition(what.session),
            headers=list(what.headers),
        )
        return InputLocation(metadata.partition, metadata.offset, metadata.timestamp)

    async def ask(
        self,
        what: OutgoingInput,
        wait_s: float,
        placed: Callable[[InputLocation], None] | None = None,
        more_ids: Sequence[str] = (),
    ) -> CommittedAnswer:
        """Publish an input and wait for its answer. `placed` is told where the broker put it; `more_ids` may
        be the answer's beside those of its kind.

        Raises ActionNotDecided, InputUnreadable, ConnectionError and KafkaError.
        """
        partition, location = self.find_partition(what.session), None
        try:
            async with (
                asyncio.timeout(wait_s),
                self.reader.read_partition(partition, what.kind.answer_topics),
            ):
                with self.reader.keep_early_answers(partition):
                    location = await self.publish(what)
                    sought = describe_answer(what.kind, location, what.value, more_ids)
                    answering = self.reader.expect(sought, partition, what.kind.answer_topics)
                if placed is not None:
                    placed(location)
                answer = await answering
        except TimeoutError:
            raise ActionNotDecided(what.name, wait_s, location, may_still_come=True) from None
        return _check_readable(what.name, answer)

    async def review(
        self,
        what: OutgoingInput,
        subject_id: str,
        wait_s: float,
        placed: Callable[[InputLocation], None] | None = None,
    ) -> dict[str, Any]:
        """Publish a person's answer to what waits under an id, and wait for the record that says what became
        of it. Takes `placed` and raises as `ask`."""
        places: list[InputLocation] = []

        def note_place(location: InputLocation) -> None:
            places.append(location)
            if placed is not None:
                placed(location)

        answer = await self.ask(what, wait_s, note_place, [subject_id])
        if not _is_of_review(answer.record):  # another answer, or time, was first
            answer = await self.fetch_answer(what, places[0], wait_s)
        return answer.record

    async def fetch_answer(
        self, what: OutgoingInput, location: InputLocation, wait_s: float
    ) -> CommittedAnswer:
        """The answer to an input that was published before. Raises as `ask`."""
        sought, topics = describe_answer(what.kind, location, what.value), what.kind.answer_topics
        try:
            async with asyncio.timeout(wait_s), self.reader.read_partition(location.partition, topics):
                answering = self.reader.expect(sought, location.partition, topics)
                answer = await self.reader.look_back(sought, location, topics)
                return _check_readable(what.name, answer or await answering)
        except TimeoutError:
            raise ActionNotDecided(what.name, wait_s, location, may_still_come=True) from None


def _is_of_review(record: Mapping[str, Any]) -> bool:
    """Whether a record says what became of a review. A review that comes too late is the input of the expiry
    that it finds, and is refused besides."""
    return "approver_id" in record or "refusal_id" in record


def _check_readable(name: str, answer: CommittedAnswer) -> CommittedAnswer:
    if answer.topic == DEAD_LETTERS:
        raise InputUnreadable(name, answer.record)
    return answer
