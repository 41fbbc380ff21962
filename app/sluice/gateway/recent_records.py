"""What the ledger's newest records say: a session's totals, a tenant's decisions. Bounded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.client.input_kinds import SESSION_EVENTS, VERDICTS
from sluice.client.kafka_reading import open_consumer, read_between
from sluice.client.record_proofs import NO_PROOFS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aiokafka import AIOKafkaConsumer

    from sluice.client.record_proofs import RecordProofs
    from sluice.gateway.http.api_keys import Caller

WINDOW = 5_000
"""Records that are read at once."""
FOLLOWED = 5_000
"""Records after a decision that are looked through for what came of it."""


@dataclass(frozen=True, slots=True)
class RecentRecords:
    """Reads them. `most`: newest records of a partition that are looked through for a session; `proofs`:
    which keys must have signed them."""

    connection: Mapping[str, Any]
    prefix: str
    most: int
    proofs: RecordProofs = NO_PROOFS

    async def fetch_totals(self, session: str, partition: int, caller: Caller) -> dict[str, Any] | None:
        """Fetch the last totals in the ledger of a session of the caller's tenant; None where the ledger has
        none so far back. Raises KafkaError."""
        async with open_consumer(self.connection) as consumer:
            verdict = await self._find_newest(consumer, VERDICTS, (partition, session), caller)
            event = await self._find_newest(consumer, SESSION_EVENTS, (partition, session), caller)
        return _read_totals(verdict, event, caller.tenant)

    async def fetch_newest(
        self, topic: str, partitions: int, most: int, caller: Caller
    ) -> list[dict[str, Any]]:
        """The caller's among the newest `most` records of each partition of a topic (base name), the newest
        first. Raises KafkaError."""
        async with open_consumer(self.connection) as consumer:
            records = [
                fields
                for part in await self._fetch_tails(consumer, topic, partitions, most)
                for record in part
                if caller.tenant.encode() in (record.value or b"")
                and (fields := self.proofs.read_record(topic, record)) is not None
            ]
        ours = [record for record in records if record.get("tenant_id") == caller.tenant]
        return sorted(ours, key=lambda record: str(record.get("decided_at")), reverse=True)

    async def fetch_following(
        self, topics: Sequence[str], partition: int, since_ms: int, names: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Fetch a partition's records since a time that name one of these things, in the chain's order; of
        each topic (base name) `FOLLOWED` records are looked through. Raises KafkaError."""
        from aiokafka import TopicPartition  # noqa: PLC0415 - as below

        written = [json.dumps(name, ensure_ascii=False).encode() for name in names]
        following: list[dict[str, Any]] = []
        async with open_consumer(self.connection) as consumer:
            for topic in topics:
                part = TopicPartition(self.prefix + topic, partition)
                consumer.assign([part])
                begin = (await consumer.offsets_for_times({part: since_ms}))[part]
                if begin is None:
                    continue
                end = min((await consumer.end_offsets([part]))[part], begin.offset + FOLLOWED)
                following += [
                    fields
                    for record in await read_between(consumer, part, begin.offset, end)
                    if any(name in (record.value or b"") for name in written)
                    and (fields := self.proofs.read_record(topic, record)) is not None
                ]
        return sorted(following, key=lambda record: int(record.get("sequence", 0)))

    async def _fetch_tails(
        self, consumer: AIOKafkaConsumer, topic: str, partitions: int, most: int
    ) -> list[list[Any]]:
        """The newest records of each partition."""
        from aiokafka import TopicPartition  # noqa: PLC0415 - as below

        parts = [TopicPartition(self.prefix + topic, number) for number in range(partitions)]
        consumer.assign(parts)
        consumer.pause(*parts)
        ends = await consumer.end_offsets(parts)
        begins = await consumer.beginning_offsets(parts)
        return [
            await read_between(consumer, part, max(begins[part], ends[part] - most), ends[part])
            for part in parts
        ]

    async def _find_newest(
        self, consumer: AIOKafkaConsumer, topic: str, where: tuple[int, str], caller: Caller
    ) -> dict[str, Any] | None:
        from aiokafka import TopicPartition  # noqa: PLC0415 - as above

        partition, session = where
        part = TopicPartition(self.prefix + topic, partition)
        consumer.assign([part])
        end = (await consumer.end_offsets([part]))[part]
        first = max((await consumer.beginning_offsets([part]))[part], end - self.most)
        while end > first:
            begin = max(first, end - WINDOW)
            matches = [
                record
                for record in await read_between(consumer, part, begin, end)
                if record.key == session.encode() and caller.tenant.encode() in (record.value or b"")
            ]
            for record in reversed(matches):
                fields = self.proofs.read_record(topic, record)
                if fields is not None and _has_totals(fields, caller):
                    return fields
            end = begin
        return None


def _has_totals(record: Mapping[str, Any], caller: Caller) -> bool:
    """A verdict on an action of the caller's agents, a settlement, or the end of the session."""
    if "verdict_id" in record:
        return record["tenant_id"] == caller.tenant and caller.is_bound_to(str(record["agent_id"]))
    if "outcome_id" in record:
        return bool(record["tenant_id"] == caller.tenant)
    return caller.tenant in record.get("tenants", {})


def _read_totals(
    verdict: Mapping[str, Any] | None, event: Mapping[str, Any] | None, tenant: str
) -> dict[str, Any] | None:
    """The newer of both counts; a settlement says the rows alone."""
    if verdict is None:
        return None
    totals = {"as_of": verdict["decided_at"], "folded": False, **verdict["session"]["after"]}
    if event is not None and event["sequence"] > verdict["sequence"]:
        if "tenants" in event:
            totals |= {"folded": True, **event["tenants"][tenant]}
        else:
            totals["aggregateRowsAffected"] = event["aggregateRowsAffected"]
        totals["as_of"] = event["decided_at"]
    return {"session_id": verdict["session_id"], "last_verdict_id": verdict["verdict_id"], **totals}
