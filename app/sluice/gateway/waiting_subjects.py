"""What waits for a person now: open escalations and held memories, as their topics say.

One reader for all requests. It begins so far back that whatever still waits is found, and keeps only what
waits; a request that waits for an end costs no connection.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.client.input_kinds import ESCALATIONS, QUARANTINE
from sluice.client.kafka_reading import FOLLOW_MS, connect_consumer
from sluice.client.record_proofs import NO_PROOFS
from sluice.core.reports.pending_subject import ENDS, EVENTS, LEFT, OPENS, PendingSubject, is_blocked
from sluice.gateway.waiting_contents import WaitingContents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiokafka import AIOKafkaConsumer, TopicPartition

    from sluice.client.record_proofs import RecordProofs
    from sluice.gateway.action_summary import WaitingContent
    from sluice.gateway.http.api_keys import Caller

log = logging.getLogger(__name__)
MOST_ENDED = 5_000
"""Ends that are remembered, of all tenants."""
ID_FIELDS = {ESCALATIONS: "escalation_id", QUARANTINE: "memory_id"}
_WORDS = {"approved": "allowed"}
_MEMORY_WORDS = {"approved": "allow", "rejected": "reject"}
"""What the decisions call how something ended; other words are theirs already."""


class EndedSubject(NamedTuple):
    """What waited and has ended, and the action as it was in lists."""

    subject: PendingSubject
    content: WaitingContent | None

    @property
    def end(self) -> Mapping[str, Any]:
        """The record that ended it."""
        return self.subject.records[-1]

    @property
    def word(self) -> str:
        """A word for the end, as a decision says it: an approval that a gate blocked is denied."""
        words = _MEMORY_WORDS if self.end["schema"] in LEFT else _WORDS
        return "denied" if is_blocked(self.end) else words.get(self.subject.status, self.subject.status)


class WaitingSubjects:
    """Follows gate.escalations and gate.quarantine. On one event loop."""

    def __init__(
        self, connection: Mapping[str, Any], prefix: str, back_s: float, proofs: RecordProofs = NO_PROOFS
    ) -> None:
        """`connection`: aiokafka's arguments; `back_s`: longer than anything waits; `proofs`: which keys must
        have signed the records."""
        self._proofs = proofs
        self._connection = connection
        self._topics = {prefix + base: base for base in ID_FIELDS}
        self._back_s = back_s
        self._open: dict[str, dict[str, PendingSubject]] = {base: {} for base in ID_FIELDS}
        self._of_tenant: dict[tuple[str, str], dict[str, PendingSubject]] = defaultdict(dict)
        self._ended: dict[str, EndedSubject] = {}
        self._ending: dict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self.contents = WaitingContents(connection, prefix)
        self._task: asyncio.Task[None] | None = None
        self._caught_up = False
        self._changes: dict[str, int] = defaultdict(int)
        self._stirred = asyncio.Event()

    @property
    def is_reading(self) -> bool:
        """Whether it is started, and has not ended."""
        return self._task is not None and not self._task.done()

    async def wait_until_ended(self) -> None:
        """Return once it reads no more."""
        if self._task is not None:
            await asyncio.wait([self._task])

    @property
    def is_current(self) -> bool:
        """Whether everything that was there at the start is read, and reading goes on."""
        return self._caught_up and self.is_reading

    async def start(self, partitions: int) -> None:
        """Connect. Raises KafkaError."""
        from aiokafka import TopicPartition  # noqa: PLC0415 - as in sluice/client

        consumer = await connect_consumer(self._connection, fetch_max_wait_ms=FOLLOW_MS)
        parts = [TopicPartition(real, number) for real in self._topics for number in range(partitions)]
        consumer.assign(parts)
        since = int(1000 * (time.time() - self._back_s))
        begins = await consumer.offsets_for_times(dict.fromkeys(parts, since))
        ends = await consumer.end_offsets(parts)
        for part in parts:
            consumer.seek(part, ends[part] if begins[part] is None else begins[part].offset)
        self._task = asyncio.create_task(self._read(consumer, ends))
        await self.contents.start(self._tell)

    async def close(self) -> None:
        """Disconnect."""
        await self.contents.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def list_waiting(self, base: str, caller: Caller) -> list[PendingSubject]:
        """What waits now in a topic (base name) of the caller's agents, in the order in which it was read."""
        waiting = self._of_tenant.get((base, caller.tenant), {})
        return [subject for subject in waiting.values() if is_of_caller(subject.fields, caller)]

    def get(self, base: str, an_id: str) -> PendingSubject | None:
        """What waits under an id; None where it does not wait, or is not read yet."""
        return self._open[base].get(an_id)

    def find_end_word(self, an_id: str) -> str | None:
        """A word for how it ended; None where it waits, or ended too long ago."""
        ended = self._ended.get(an_id)
        return None if ended is None else ended.word

    def list_alike_ends(self, waiting: PendingSubject, most: int) -> list[EndedSubject]:
        """List the answers about the same tenant, agent, tool and reason, the newest first: of the newest
        `MOST_ENDED` ends those that waited while this process ran."""
        content = self.contents.get(waiting.subject_id)
        if content is None:
            return []
        same = [
            ended
            for ended in self._ended.values()
            if ended.content is not None
            and ended.content.tool == content.tool
            and _name_group(ended.subject) == _name_group(waiting)
        ]
        return same[: -most - 1 : -1]

    def count_changes(self, tenant: str) -> int:
        """The number of a tenant's changes so far."""
        return self._changes[tenant]

    async def wait_for_change(self, tenant: str, since: int, wait_s: float) -> int:
        """Wait until something of a tenant opens, changes or ends. The number of its changes so far, which is
        `since` where nothing did within the time."""
        try:
            async with asyncio.timeout(wait_s):
                while self._changes[tenant] == since:
                    await self._stirred.wait()
        except TimeoutError:
            pass
        return self._changes[tenant]

    async def wait_for_end(self, base: str, an_id: str, wait_s: float) -> bool:
        """Wait until it waits no more; False: it still does."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ending[an_id].add(ended)
        try:
            if an_id not in self._open[base]:
                return True
            await asyncio.wait([ended], timeout=wait_s)
            return ended.done()
        finally:
            self._ending[an_id].discard(ended)
            if not self._ending[an_id]:
                del self._ending[an_id]

    async def _read(self, consumer: AIOKafkaConsumer, ends: dict[TopicPartition, int]) -> None:
        left = set(ends)
        try:
            while True:
                left = {part for part in left if await consumer.position(part) < ends[part]}
                self._caught_up = not left
                for batch in (await consumer.getmany(timeout_ms=FOLLOW_MS)).values():
                    for record in batch:
                        self._take(self._topics[record.topic], record)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("the reader of what waits has ended")
        finally:
            await consumer.stop()

    def _take(self, base: str, stored: Any) -> None:
        record = self._proofs.read_record(base, stored)
        if record is None:
            return
        an_id, schema = str(record.get(ID_FIELDS[base])), record.get("schema")
        waiting = self._open[base]
        if schema in OPENS:
            self._store(base, an_id, PendingSubject.of([record]))
            if base == ESCALATIONS:
                self.contents.request(an_id, record, stored.timestamp)
        elif schema in ENDS:
            self._end(base, an_id, record)
        elif an_id in waiting and schema in EVENTS:
            self._store(base, an_id, waiting[an_id].apply(record))
        self._change(str(record.get("tenant_id")))

    def _store(self, base: str, an_id: str, subject: PendingSubject) -> None:
        self._open[base][an_id] = self._of_tenant[base, subject.tenant][an_id] = subject

    def _end(self, base: str, an_id: str, record: dict[str, Any]) -> None:
        subject = self._open[base].pop(an_id, None)
        if subject is not None:
            self._of_tenant[base, subject.tenant].pop(an_id, None)
        whole = PendingSubject.of([record]) if subject is None else subject.apply(record)
        self._ended[an_id] = EndedSubject(whole, self.contents.get(an_id))
        if len(self._ended) > MOST_ENDED:
            del self._ended[next(iter(self._ended))]
        self.contents.forget(an_id)
        for ended in self._ending.get(an_id, ()):
            if not ended.done():
                ended.set_result(None)

    def _tell(self, an_id: str) -> None:
        """The content of what waits is read."""
        subject = self._open[ESCALATIONS].get(an_id)
        if subject is not None:
            self._change(subject.tenant)

    def _change(self, tenant: str) -> None:
        self._changes[tenant] += 1
        self._stirred.set()
        self._stirred = asyncio.Event()


def _name_group(subject: PendingSubject) -> tuple[object, ...]:
    return subject.fields.get("tenant_id"), subject.fields.get("agent_id"), subject.code


def is_of_caller(record: Mapping[str, Any], caller: Caller) -> bool:
    """Whether a record is about an agent of the caller's tenant for which the caller speaks."""
    agent = record.get("agent_id")
    return record.get("tenant_id") == caller.tenant and isinstance(agent, str) and caller.is_bound_to(agent)
