"""`sluice ledger verify` on a real broker: an intact ledger, and the same after each kind of tampering."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaProducer
from typer.testing import CliRunner

from app.adapters.kafka_topics import create
from app.cli.main import cli
from app.core.ledger.chain import Chain
from app.verifier.located import Located
from load.tamper import TAMPERINGS, relaid
from topics.catalog import DEAD_LETTERS, ESCALATIONS, VERDICTS
from topics.layout import TopicLayout

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka

PARTITIONS = 3
RECORDS = 60
SEED = 20260101
KINDS = [
    (VERDICTS, "verdict", "verdict"),
    (ESCALATIONS, "escalation_opened", "escalation"),
    (DEAD_LETTERS, "dead_letter", "dead_letter"),
]
INTACT, FOUND, IMPOSSIBLE = 0, 1, 2


@dataclass(frozen=True)
class Ledger:
    """A ledger on the broker under its own prefix."""

    bootstrap_servers: str
    prefix: str

    def sluice(self, *arguments: str) -> tuple[int, str]:
        """Exit code and standard output of the command, set to this ledger."""
        env = {
            "SLUICE_KAFKA__BOOTSTRAP_SERVERS": self.bootstrap_servers,
            "SLUICE_KAFKA__TOPIC_PREFIX": self.prefix,
        }
        result = CliRunner().invoke(cli, arguments, env=env)
        return result.exit_code, result.stdout

    async def verified(self) -> tuple[int, dict[str, Any]]:
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


@pytest.fixture
def ledger(kafka: str, prefix: str) -> Ledger:
    return Ledger(kafka, prefix)


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


async def test_a_genuine_ledger_is_intact(ledger: Ledger) -> None:
    await ledger.lay(genuine())
    code, report = await ledger.verified()
    assert (code, report["intact"], report["records"], report["findings"]) == (INTACT, True, RECORDS, [])
    last = [part["last"] for part in report["partitions"].values()]
    assert last == [RECORDS // PARTITIONS] * PARTITIONS


@pytest.mark.parametrize("kind", TAMPERINGS)
async def test_tampering_is_found_and_named(ledger: Ledger, kind: str) -> None:
    tampered = TAMPERINGS[kind](genuine(), random.Random(SEED))  # noqa: S311 - seeded, not secret
    await ledger.lay(tampered.records)
    code, report = await ledger.verified()
    assert code == FOUND
    assert tampered.codes <= {finding["code"] for finding in report["findings"]}, tampered.what


async def test_an_export_is_verified_without_the_broker(ledger: Ledger, tmp_path: Path) -> None:
    await ledger.lay(genuine())
    file = tmp_path / "ledger.jsonl"
    assert (await asyncio.to_thread(ledger.sluice, "ledger", "export", str(file)))[0] == 0
    offline = Ledger("127.0.0.1:1", ledger.prefix)
    assert offline.sluice("ledger", "verify", "--from", str(file))[0] == INTACT
    lines = file.read_text().splitlines()
    del lines[RECORDS // 2]
    file.write_text("\n".join(lines))
    code, out = offline.sluice("ledger", "verify", "--from", str(file))
    assert code == FOUND
    assert "missing" in out


async def test_an_export_never_overwrites_a_file(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "ledger.jsonl"
    file.write_text("precious")
    assert (await asyncio.to_thread(ledger.sluice, "ledger", "export", str(file)))[0] == IMPOSSIBLE
    assert file.read_text() == "precious"


async def test_topics_that_are_not_there_are_no_intact_ledger(ledger: Ledger) -> None:
    assert (await asyncio.to_thread(ledger.sluice, "ledger", "verify"))[0] == IMPOSSIBLE


async def test_published_actions_are_watched_as_they_were_sent(ledger: Ledger, tmp_path: Path) -> None:
    await ledger.lay(genuine())
    action = {"action_id": "a1", "agent_id": "g", "session_id": "s1", "toolName": "t", "parameters": {}}
    line = json.dumps(action)
    file = tmp_path / "actions.jsonl"
    file.write_text(f"{line}\nnot json\n")
    publish = ("publish", str(file), "--json")
    assert (await asyncio.to_thread(ledger.sluice, *publish))[0] == FOUND
    code, out = await asyncio.to_thread(ledger.sluice, *publish, "--skip-invalid")
    assert code == FOUND
    invalid, place = map(json.loads, out.splitlines())
    assert (invalid["line"], invalid["error"]["code"], place["line"]) == (2, "not_json", 1)
    watch = ("watch", "gate.actions.proposed", "--from-beginning", "--timeout", "2", "--json")
    code, out = await asyncio.to_thread(ledger.sluice, *watch)
    (seen,) = map(json.loads, out.splitlines())
    assert (code, seen["value"], seen["partition"]) == (0, action, place["partition"])


async def test_raw_bytes_are_published_as_they_are(ledger: Ledger, tmp_path: Path) -> None:
    await ledger.lay(genuine())
    file = tmp_path / "raw.jsonl"
    file.write_bytes(b'{"session_id":"s1"\n\xff\xfe\n')
    assert (await asyncio.to_thread(ledger.sluice, "publish", str(file), "--raw"))[0] == 0
    watch = ("watch", "gate.actions.proposed", "--from-beginning", "--max", "2", "--json")
    _, out = await asyncio.to_thread(ledger.sluice, *watch)
    assert {json.loads(line)["value"] for line in out.splitlines()} == {'{"session_id":"s1"', "\ufffd\ufffd"}


def test_an_unknown_topic_is_refused_with_the_list(ledger: Ledger) -> None:
    assert ledger.sluice("watch", "gate.verdict")[0] == IMPOSSIBLE
    assert ledger.sluice("publish", "-", "--topic", VERDICTS)[0] == IMPOSSIBLE
