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
from sluice.client.past_records import POLL_MS, connect
from sluice.client.record_proofs import NO_PROOFS
from sluice.gateway.waiting_contents import WaitingContents
from sluice.notify.reported_subject import ENDS, LEFT, OPENS

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
_REVIEWED = {"approved": "allow", "rejected": "reject"}
"""What a review of a memory comes to, in the words of the decisions on memories."""
CHANGING = (
    *("approvals", "quorum", "approved_parameters", "tier", "required_role", "own_key"),
    *("group", "remind_at", "next_group", "next_at"),
)
"""What a record in between says anew of an escalation."""


class EndedSubject(NamedTuple):
    """What waited and has ended: the records that opened and ended it, and the action as it was in lists."""

    opened: Mapping[str, Any]
    end: Mapping[str, Any]
    content: WaitingContent | None

    @property
    def word(self) -> str:
        """A word for the end, as a decision says it: an approval that a gate blocked is denied."""
        left = LEFT.get(str(self.end.get("schema")))
        if left is not None:
            return _REVIEWED.get(left, left)
        if "decision" not in self.end:
            return "expired"
        is_allowed = self.end["decision"] == "approve" and self.end.get("outcome", "ALLOW") == "ALLOW"
        return "allowed" if is_allowed else "denied"


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
        self._open: dict[str, dict[str, dict[str, Any]]] = {base: {} for base in ID_FIELDS}
        self._of_tenant: dict[tuple[str, str], dict[str, dict[str, Any]]] = defaultdict(dict)
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

        consumer = await connect(self._connection)
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

    def list_waiting(self, base: str, caller: Caller) -> list[dict[str, Any]]:
        """The records that opened what waits now in a topic (base name) of the caller's agents, the oldest
        first; of an escalation with `approvals` so far, and the group whose turn it is."""
        opened = self._of_tenant.get((base, caller.tenant), {})
        return [record for record in opened.values() if is_of_caller(record, caller)]

    def get(self, base: str, an_id: str) -> dict[str, Any] | None:
        """The record that opened it; None where it does not wait, or is not read yet."""
        return self._open[base].get(an_id)

    def find_end_word(self, an_id: str) -> str | None:
        """A word for how it ended; None where it waits, or ended too long ago."""
        ended = self._ended.get(an_id)
        return None if ended is None else ended.word

    def list_alike_ends(self, opened: Mapping[str, Any], most: int) -> list[EndedSubject]:
        """List the answers about the same tenant, agent, tool and reason, the newest first: of the newest
        `MOST_ENDED` ends those that waited while this process ran."""
        content = self.contents.get(str(opened.get("escalation_id")))
        if content is None:
            return []
        same = [
            subject
            for subject in self._ended.values()
            if subject.content is not None
            and subject.content.tool == content.tool
            and all(subject.opened.get(name) == opened.get(name) for name in ("tenant_id", "agent_id"))
            and _read_code(subject.opened) == _read_code(opened)
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
                for batch in (await consumer.getmany(timeout_ms=POLL_MS)).values():
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
            waiting[an_id] = record
            self._of_tenant[base, str(record.get("tenant_id"))][an_id] = record
            if base == ESCALATIONS:
                self.contents.request(an_id, record, stored.timestamp)
        elif schema in ENDS:
            opened = waiting.pop(an_id, {})
            self._of_tenant[base, str(opened.get("tenant_id"))].pop(an_id, None)
            self._ended[an_id] = EndedSubject(opened, record, self.contents.get(an_id))
            if len(self._ended) > MOST_ENDED:
                del self._ended[next(iter(self._ended))]
            self.contents.forget(an_id)
            for ended in self._ending.get(an_id, ()):
                if not ended.done():
                    ended.set_result(None)
        elif an_id in waiting:
            update_waiting(waiting[an_id], record)
        self._change(str(record.get("tenant_id")))

    def _tell(self, an_id: str) -> None:
        """The content of what waits is read."""
        opened = self._open[ESCALATIONS].get(an_id)
        if opened is not None:
            self._change(str(opened.get("tenant_id")))

    def _change(self, tenant: str) -> None:
        self._changes[tenant] += 1
        self._stirred.set()
        self._stirred = asyncio.Event()


def update_waiting(opened: dict[str, Any], record: Mapping[str, Any]) -> None:
    """Add to what opened an escalation what a record in between says: `approved_by` are those whose approvals
    count so far, `last_approval` is the place of the newest of them."""
    opened |= {name: record[name] for name in CHANGING if record.get(name) is not None}
    if "approval_id" in record:
        gone = record.get("dropped") or ()
        still = [approver for approver in opened.get("approved_by", ()) if approver not in gone]
        opened |= {"approved_by": [*still, record["approver_id"]], "last_approval": record["input"]}


def _read_code(opened: Mapping[str, Any]) -> str:
    return str(opened.get("reason")).partition(":")[0]


def is_narrowed(opened: Mapping[str, Any]) -> bool:
    """Whether the approvals so far are for other parameters than the action's."""
    proposed = opened.get("parameters_digest")
    return bool(opened.get("approved_parameters", proposed) != proposed)


def is_of_caller(record: Mapping[str, Any], caller: Caller) -> bool:
    """Whether a record is about an agent of the caller's tenant for which the caller speaks."""
    agent = record.get("agent_id")
    return record.get("tenant_id") == caller.tenant and isinstance(agent, str) and caller.is_bound_to(agent)
