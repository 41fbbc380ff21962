"""Faust's consumer, read_committed, which hands an agent one message per fetched batch (faust 0.15.3).

Faust does membership, assignment, fetching, seeking, and the way from the consumer to an agent's stream. One
message per record costs more than all the rest, and deserialising it loses the neighbours of a bad record:
so a message is what one fetch brought of one topic-partition, and the engine reads its records.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import faust
from aiokafka.errors import (
    ConsumerStoppedError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    KafkaError,
    NoError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
)
from aiokafka.protocol.commit import OffsetCommitRequest
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage
from mode import Service

from sluice.core.foundation.input_record import InputRecord
from sluice.stream.engine.intake import FetchedBatch
from sluice.stream.process import EXIT_FENCED, Explained, reasons, service_log
from sluice_topics.agent_signature import find_header
from sluice_topics.headers import find_agent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

FETCH_MAX_WAIT_MS = 100
IDLE_FETCH_MAX_WAIT_MS = 1000
"""A fetch and its answer name every partition: most of an idle worker's CPU goes into that. But a partition
whose records are not taken yet is not part of a fetch, and waits until it ends."""
RECOVERY_POLL_S = 0.2
POLL_S = 0.1
IDLE_S = 0.01
WATCH_S = 1.0
END_S = 1.0
"""Within this the broker gives a partition's end, or timers wait."""
TRACEPARENT = "traceparent"


class NameTaken(Explained):
    """Another worker has started under the name that this one has in the group."""

    status = EXIT_FENCED


def end_where_name_is_taken(coordinator: Any, session_timeout_s: float) -> None:
    """Let the broker's answer that it does not know this static member raise NameTaken.

    aiokafka would join again, under the same name: its heartbeats and commits do not say the name (they are
    of before KIP-345), so the broker cannot answer that it is another's. Then both workers take name and
    partitions from each other, and both end. A member that was silent for longer than a session joins again.
    """
    send = coordinator._send_req
    heard_s = time.monotonic()

    async def ask(request: Any) -> Any:
        nonlocal heard_s
        sent_s, member = time.monotonic(), coordinator.member_id
        response = await send(request)
        if isinstance(request, OffsetCommitRequest):
            codes = {code for _, partitions in response.topics for _, code in partitions}
        elif isinstance(request, HeartbeatRequest | JoinGroupRequest | SyncGroupRequest):
            codes = {response.error_code}
            if codes == {NoError.errno}:
                heard_s = sent_s
        else:
            return response
        is_same = member and member == coordinator.member_id
        if UnknownMemberIdError.errno in codes and is_same and time.monotonic() - heard_s < session_timeout_s:
            raise NameTaken("another worker has started under the name of this one in the group")
        return response

    coordinator._send_req = ask


class CommittedConsumerThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]
    """Reads committed records only (aiokafka.py:568), without Faust's own transactions."""

    logger = service_log

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"
        consumer._fetch_max_wait_ms = FETCH_MAX_WAIT_MS
        return consumer

    async def on_start(self) -> None:
        """Connect; a worker with a name in the group ends where another one takes it."""
        await super().on_start()
        if self._consumer._group_instance_id is not None:
            end_where_name_is_taken(self._consumer._coordinator, self._consumer._session_timeout_ms / 1000)

    def close(self) -> None:
        """Does nothing. Faust calls it from the app's thread at a rebalance while the worker stops, to close
        connections that this thread's loop reads (base.py:1849): uvloop then calls freed objects, and the
        process dies of SIGSEGV. This thread closes them itself when it is stopped, and leaves the group."""

    def verify_event_path(self, now: float, tp: Any) -> None:
        """Does nothing. Faust's livelock warnings are about commits of its own, and it makes none here."""

    def verify_recovery_event_path(self, now: float, tp: Any) -> None:
        """Likewise."""


class BatchSchema(faust.Schema):  # type: ignore[misc]
    """Reads messages whose value is a FetchedBatch, which the consumer has made; they have no key."""

    def loads_key(self, *_: Any, **__: Any) -> None:
        """None."""

    def loads_value(self, app: Any, message: Any, **_: Any) -> FetchedBatch:
        """The batch."""
        del app
        batch: FetchedBatch = message.value
        return batch


class BatchConsumer(driver.Consumer):  # type: ignore[misc]
    """Fetches batches for the agents, whose topics have no acks: so Faust commits nothing of its own."""

    logger = service_log

    def _new_consumer_thread(self) -> CommittedConsumerThread:
        return CommittedConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def tell_group(self, offsets: Mapping[Any, int]) -> None:
        """Commit the group's offsets. During a rebalance it commits nothing; while the broker is away it
        waits."""
        thread = self._thread
        commit = thread._consumer.commit(dict(offsets))
        with suppress(KafkaError):
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(commit, thread.thread_loop))

    def fetch_position(self, tp: Any) -> int | None:
        """The next offset that the consumer would return, after markers and aborted records; None if
        unassigned."""
        subscription = self._thread._consumer._subscription.subscription
        assignment = subscription.assignment if subscription else None
        state = assignment.state_value(tp) if assignment else None
        return None if state is None else state._position

    def _read_position(self, topic: str, number: int) -> int | None:
        """The read position. Call it between two fetches, when everything fetched has been delivered."""
        return self.fetch_position(TP(topic, number))

    def find_end(self, tp: Any) -> int | None:
        """The end of an assigned partition according to the last fetch; None before the first fetch."""
        subscription = self._thread._consumer._subscription.subscription
        assignment = subscription.assignment if subscription else None
        state = assignment.state_value(tp) if assignment else None
        return None if state is None else state.highwater

    async def ask_end(self, tp: Any) -> int | None:
        """The end of a partition as its leader gives it now; None if that takes longer than `END_S`."""
        thread = self._thread

        async def ask() -> int:
            async with asyncio.timeout(END_S):
                return int((await thread._consumer.end_offsets([tp]))[tp])

        with suppress(KafkaError, TimeoutError):
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(ask(), thread.thread_loop))
        return None

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[Any, ConsumerMessage]]:
        """Yield one message per fetched batch, and fetch again when the agents have delivered all of them.

        Faust's fetcher calls it in a loop and puts each message on its agent's queue (consumer.py:1221).
        An exception here is a fault of I/O: the worker stops, its partitions stay open.
        """
        if not self.flow_active:
            await self.wait(self.can_resume_flow)
        generation = self.app.consumer_generation_id
        try:
            batches = await self._fetch(generation, set(self._get_active_partitions()), timeout)
        except ConsumerStoppedError:
            raise
        except Exception as fault:  # noqa: BLE001 - Faust would shut down in good order, as if all were well
            self.app.fail(fault)
            return
        for tp, batch in batches.items():
            if not self._is_current(generation):
                return
            self._read_offset.pop(tp, None)  # Faust drops what is below it, without a word (consumer.py:1209)
            yield tp, _message(tp, batch)
        await self._wait_delivered(generation, batches.values())

    def _is_current(self, generation: int) -> bool:
        """Whether inputs fetched in this generation may be decided."""
        return bool(self.flow_active and generation == self.app.consumer_generation_id)

    async def _wait_delivered(self, generation: int, batches: Iterable[FetchedBatch]) -> None:
        """Return when the engine has taken the batches, or when a rebalance or a stop has dropped them."""
        for batch in batches:
            while not batch.delivered.is_set():
                if self.should_stop or not self._is_current(generation):
                    return
                await self.wait_first(batch.delivered, self.suspend_flow, timeout=WATCH_S)
        if self._is_current(generation):
            self.app.engine.note_read(generation, self._read_position)

    async def _fetch(self, generation: int, active: set[Any], timeout: float) -> dict[Any, FetchedBatch]:
        """The next inputs of partitions that can take more; none during a recovery, whose records go to the
        table."""
        if self.app.in_recovery and active:
            self._keep_fetches(FETCH_MAX_WAIT_MS)
            changes = await self._getmany(active, min(timeout, RECOVERY_POLL_S))
            self.app.tables.recovery.absorb(changes)
            return {}
        wanted = self._select_wanted(active)
        if not wanted:
            self._keep_fetches(FETCH_MAX_WAIT_MS)
            await asyncio.sleep(IDLE_S)
            return {}
        every = len(wanted) == len(active)
        records = await self._getmany(wanted, timeout if every else POLL_S)
        self._keep_fetches(FETCH_MAX_WAIT_MS if records or not every else IDLE_FETCH_MAX_WAIT_MS)
        if self._is_current(generation):
            return {tp: self._read(generation, tp, batch) for tp, batch in records.items()}
        if records:
            await self._put_back(records)
        return {}

    def _keep_fetches(self, max_wait_ms: int) -> None:
        """How long the broker may keep the next fetches that find nothing."""
        self._thread._consumer._fetcher._fetch_max_wait_ms = max_wait_ms

    async def _put_back(self, records: dict[Any, list[Any]]) -> None:
        """Put records back after a rebalance during a fetch. The fetch may have taken records of the new
        assignment, and Faust's seek skips a partition without a committed offset: without this its inputs
        would be lost."""
        assigned = self.assignment()
        with suppress(IllegalStateError):
            await self.seek_wait({tp: batch[0].offset for tp, batch in records.items() if tp in assigned})

    def _select_wanted(self, active: set[Any]) -> set[Any]:
        inputs = {tp for tp in active if tp.topic in self.app.input_names}
        numbers = self.app.engine.select_wanted({tp.partition for tp in inputs})
        return {tp for tp in inputs if tp.partition in numbers}

    def _read(self, generation: int, tp: Any, records: Sequence[Any]) -> FetchedBatch:
        return FetchedBatch(generation, list(input_records(self.app.input_names[tp.topic], records)))

    @Service.task  # type: ignore[untyped-decorator]
    async def _watch_aiokafka(self) -> None:
        """Check aiokafka's background tasks. Faust calls the fetcher directly, without aiokafka's own
        checks, so a dead task would stay unnoticed."""
        while not self.should_stop:
            await self.sleep(WATCH_S)
            consumer = self._thread._consumer
            if consumer is None or self.should_stop or self.app.should_stop:
                continue
            fetching, coordinator = consumer._fetcher._fetch_task, consumer._coordinator
            dead = fetching.done() or coordinator._coordination_task.done()
            if dead or coordinator._pending_exception is not None:
                ended = (task for task in (fetching, coordinator._coordination_task) if task.done())
                raised = (task.exception() for task in ended if not task.cancelled())
                fault = coordinator._pending_exception or next(filter(None, raised), None)
                self.app.fail(fault if isinstance(fault, NameTaken) else Explained(explain_end(fault)))


def explain_end(fault: BaseException | None) -> str:
    """A line for whoever reads why the worker ends: aiokafka's background task ended, by `fault` where it
    left one."""
    line = "the consumer's background task ended"
    if fault is None:
        return line
    is_refused = isinstance(fault, (GroupAuthorizationFailedError, TopicAuthorizationFailedError))
    needed = "; `sluice topics acl --role worker` sets what a worker needs" if is_refused else ""
    return f"{line}: {reasons(fault)}{needed}"


def _message(tp: Any, batch: FetchedBatch) -> ConsumerMessage:
    """A batch as Faust's streams know a record: the offset is its last one, the generation its fetch's, which
    a stream compares with the group's before an agent sees it."""
    offset = batch.input_records[-1].offset
    return ConsumerMessage(
        *tp, offset, 0.0, 0, None, None, batch, None, tp=tp, generation_id=batch.generation
    )


def input_records(topic: str, records: Sequence[Any]) -> Iterator[InputRecord]:
    """Consumed records as the core sees them; `topic` is the base name."""
    for record in records:
        yield InputRecord(
            topic,
            record.partition,
            record.offset,
            record.timestamp,
            record.key,
            record.value,
            _traceparent(record.headers),
            signature_header=find_header(record.headers),
            agent_header=find_agent(record.headers),
        )


def _traceparent(headers: Sequence[tuple[str, bytes | None]]) -> str | None:
    for name, value in headers:
        if name == TRACEPARENT and value is not None:
            return value.decode("ascii", "replace")
    return None
