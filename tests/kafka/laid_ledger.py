"""A small ledger on a real broker, linked by the writer's own code, and the command set to it."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaProducer
from typer.testing import CliRunner

from load.tamper import relaid
from sluice.adapters.kafka.kafka_topics import create
from sluice.cli.main import cli
from sluice.core.foundation.chain import Chain
from sluice.verifier.export import Located
from sluice_topics.catalog import DEAD_LETTERS, ESCALATIONS, VERDICTS
from sluice_topics.layout import TopicLayout

PARTITIONS = 3
RECORDS = 60
SEED = 20260101
KINDS = [
    (VERDICTS, "verdict", "verdict"),
    (ESCALATIONS, "escalation_opened", "escalation"),
    (DEAD_LETTERS, "dead_letter", "dead_letter"),
]


@dataclass(frozen=True)
class Ledger:
    """A ledger on the broker under its own prefix."""

    bootstrap_servers: str
    prefix: str

    def environment(self) -> dict[str, str]:
        """What sets the command to this ledger."""
        return {
            "SLUICE_KAFKA__BOOTSTRAP_SERVERS": self.bootstrap_servers,
            "SLUICE_KAFKA__TOPIC_PREFIX": self.prefix,
        }

    def sluice(self, *arguments: str) -> tuple[int, str]:
        """Exit code and standard output of the command."""
        result = CliRunner().invoke(cli, arguments, env=self.environment())
        return result.exit_code, result.stdout

    def complain(self, *arguments: str) -> tuple[int, str]:
        """Exit code and standard error of the command."""
        result = CliRunner().invoke(cli, arguments, env=self.environment())
        return result.exit_code, result.stderr

    async def verify(self) -> tuple[int, dict[str, Any]]:
        """Exit code and report of `sluice ledger verify --json`."""
        code, out = await asyncio.to_thread(self.sluice, "ledger", "verify", "--json")
        return code, json.loads(out)

    async def lay(self, records: list[Located]) -> None:
        """Create the topics and append the records in order, in transactions, one of them rolled back."""
        await create(self.bootstrap_servers, TopicLayout(self.prefix, self.prefix, PARTITIONS), 1)
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap_servers, transactional_id=self.prefix)
        async with producer:
            await self._append(producer, records[: RECORDS // 2])
            await producer.begin_transaction()
            await producer.send_and_wait(self.prefix + VERDICTS, b"rolled back", partition=0)
            await producer.abort_transaction()
            await self._append(producer, records[RECORDS // 2 :])

    async def _append(self, producer: AIOKafkaProducer, records: list[Located]) -> None:
        async with producer.transaction():
            for record in records:
                topic = self.prefix + record.topic
                await producer.send_and_wait(topic, record.value, record.key, partition=record.partition)


def genuine() -> list[Located]:
    """What three workers' chains would hold, linked by the writer's own code."""
    rng = random.Random(SEED)  # noqa: S311 - seeded, not secret
    chains = [Chain(partition) for partition in range(PARTITIONS)]
    return relaid([_record(chains[offset % PARTITIONS], offset, rng) for offset in range(RECORDS)])


def _record(chain: Chain, offset: int, rng: random.Random) -> Located:
    source = {"topic": "gate.actions.proposed", "partition": chain.partition, "offset": offset}
    coordinates = f"{source['topic']}:{chain.partition}:{offset}"
    topic, schema, word = rng.choice(KINDS)
    body = {"schema": f"sluice/{schema}/v1", f"{word}_id": f"{word}:{coordinates}"}
    session = f"session-{chain.partition}-{rng.randrange(4)}"
    fields = {"session_id": session, "decided_at": "2026-01-01T00:00:00.000Z", "input": source}
    return Located(topic, chain.partition, 0, session.encode(), chain.link({**body, **fields}))
