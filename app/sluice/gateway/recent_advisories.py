"""The advisories of agents' newest actions, kept by agent: a poll costs what its own answer costs.

The verdicts' tails are read once for everybody, and only while somebody asks: a reading serves all requests
that came before it began. Each agent has room of its own, so none pushes out another's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError

from sluice.client.input_kinds import VERDICTS
from sluice.client.kafka_reading import Connection, read_to
from sluice.client.record_proofs import NO_PROOFS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiokafka import AIOKafkaConsumer, TopicPartition

    from sluice.client.record_proofs import RecordProofs

WINDOW = 1_000
"""Newest verdicts of each partition that are read, at the first question and after a pause."""
MOST_OF_AN_AGENT = 1_000
MOST = 100_000
"""Advisories of all agents: beyond, the agent that has the most loses its older half."""
AT_ONCE = 200
"""Verdicts, between two of which other requests get their turn."""
NONE = b'"advisories":[]'
"""As the ledger's canonical form writes it."""
ABOUT = ("verdict_id", "request_id", "session_id", "decided_at")
Advisory = dict[str, Any]


class AdvisoriesByAgent:
    """The newest advisories of each agent of each tenant."""

    def __init__(self, most_of_an_agent: int = MOST_OF_AN_AGENT, most: int = MOST) -> None:
        self._most_of_an_agent = most_of_an_agent
        self._most = most
        self._by_agent: dict[tuple[str, str], deque[Advisory]] = {}
        self._count = 0

    def take(self, verdict: Mapping[str, Any]) -> None:
        """A verdict's."""
        about = {name: verdict[name] for name in ABOUT}
        for item in verdict["advisories"]:
            self._add((str(verdict["tenant_id"]), str(verdict["agent_id"])), {**about, **item})

    def list_advisories(self, tenant: str, agent: str) -> list[Advisory]:
        """An agent's, the newest first."""
        advisories = self._by_agent.get((tenant, agent), ())
        return sorted(advisories, key=lambda advisory: str(advisory["decided_at"]), reverse=True)

    def __len__(self) -> int:
        """The number of stored advisories, of all agents."""
        return self._count

    def _add(self, whose: tuple[str, str], advisory: Advisory) -> None:
        own = self._by_agent.setdefault(whose, deque(maxlen=self._most_of_an_agent))
        self._count += len(own) < self._most_of_an_agent
        own.append(advisory)
        if self._count > self._most:
            largest = max(self._by_agent, key=lambda key: len(self._by_agent[key]))
            crowd = self._by_agent[largest]
            for _ in range((len(crowd) + 1) // 2):
                crowd.popleft()
                self._count -= 1
            if not crowd:
                del self._by_agent[largest]


class RecentAdvisories:
    """Reads them from gate.verdicts. On one event loop."""

    def __init__(self, connection: Mapping[str, Any], prefix: str, proofs: RecordProofs = NO_PROOFS) -> None:
        """`connection`: aiokafka's arguments; `proofs`: which keys must have signed the verdicts."""
        self._connection = Connection(connection, "read_committed")
        self._proofs = proofs
        self._topic = prefix + VERDICTS
        self._advisories = AdvisoriesByAgent()
        self._next_at: dict[TopicPartition, int] = {}
        self._reading = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None

    async def fetch_advisories(self, tenant: str, agent: str, partitions: int) -> list[Advisory]:
        """An agent's, the newest first, with those of every verdict that is committed now. Raises
        KafkaError."""
        if self._next is None:
            self._next = asyncio.create_task(self._read(partitions))
        await asyncio.shield(self._next)
        return self._advisories.list_advisories(tenant, agent)

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()

    async def _read(self, partitions: int) -> None:
        async with self._reading:
            self._next = None  # who comes from now on needs a later reading
            try:
                await self._read_on(await self._connection.connect(), partitions)
            except KafkaError:
                await self.close()
                raise

    async def _read_on(self, consumer: AIOKafkaConsumer, partitions: int) -> None:
        from aiokafka import TopicPartition  # noqa: PLC0415 - importing the gateway loads no Kafka

        parts = [TopicPartition(self._topic, number) for number in range(partitions)]
        if not consumer.assignment():
            consumer.assign(parts)
            consumer.pause(*parts)
        ends = await consumer.end_offsets(parts)
        for part, end in ends.items():
            consumer.seek(part, max(self._next_at.get(part, 0), end - WINDOW, 0))
        async for batch in read_to(consumer, ends, AT_ONCE):
            for record in batch:
                if NONE not in (record.value or NONE):
                    self._take(record)
            for part in parts:
                self._next_at[part] = await consumer.position(part)

    def _take(self, record: Any) -> None:
        verdict = self._proofs.read_fields(VERDICTS, record)
        if verdict is not None:
            self._advisories.take(verdict)
