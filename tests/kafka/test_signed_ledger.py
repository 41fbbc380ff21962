"""Mend 22.3: workers sign what they write; readers that are told the key pass over what they did not, and
`sluice ledger verify` finds it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaProducer
from typer.testing import CliRunner

from load.installations.neutral_policy import EXEMPT_SOURCE
from sluice.adapters.kafka.kafka_groups import KafkaLedgerGroup
from sluice.adapters.kafka.kafka_topics import create
from sluice.cli.main import cli
from sluice.cli.policy.key_files import make_private_key
from sluice.client.record_proofs import RecordProofs
from sluice.core.foundation.chain import Chain
from sluice.stream.engine.outbox import Output
from sluice.stream.engine.record_signer import RecordSigner
from sluice_topics.audience import Audience
from sluice_topics.catalog import (
    ACTIONS,
    ADMITTED,
    CATALOG,
    ESCALATIONS,
    MEMORY_WRITES,
    QUALITY_DECISIONS,
    QUARANTINE,
    RETRIEVALS,
    SERVED,
    SESSION_EVENTS,
    VERDICTS,
)
from sluice_topics.layout import TopicLayout
from tests.kafka.installation import (
    action,
    make_small_installation,
    publish,
    publish_to,
    read_stored,
    run_worker,
    wait_until,
)
from tests.quality_ledger import decision
from tests.unit.records import ledger_records

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka
SESSIONS = [f"s-{number}" for number in range(8)]


def test_a_worker_signs_every_record_and_a_record_that_continues_the_chain_unsigned_is_found(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    installation = make_small_installation(kafka, tmp_path, prefix.rstrip("."))
    key = make_private_key(tmp_path / "verdicts.pem").public.text
    installation.settings["SLUICE_VERDICTS__SIGNING_KEY"] = str(tmp_path / "verdicts.pem")
    signing = run_worker(installation)
    worker = next(signing)
    publish(installation, [action(one, f"a-{number}") for one in SESSIONS for number in range(4)], ACTIONS)
    source = {"id": EXEMPT_SOURCE, "type": "user"}
    publish(installation, [_memory(one, source) for one in SESSIONS], MEMORY_WRITES)
    publish(installation, [_retrieval(one) for one in SESSIONS], RETRIEVALS)
    wait_until(
        lambda: all(len(read_stored(installation, topic)) >= len(SESSIONS) for topic in (ADMITTED, SERVED)),
        worker,
    )
    wait_until(lambda: len(read_stored(installation, VERDICTS)) == 4 * len(SESSIONS), worker)
    assert next(signing, None) is None
    proofs = RecordProofs([key], installation.trust.make_audience(installation.prefix))
    for topic in [one.name for one in CATALOG if one.ledger] + [ADMITTED, SERVED]:
        for one in read_stored(installation, topic):
            assert proofs.find_objection(topic, one) is None
    assert _verify(installation.settings) == (0, set())
    assert _verify(installation.settings, "--verdict-key", key) == (0, set())
    export = tmp_path / "ledger.jsonl"
    assert (
        CliRunner().invoke(cli, ["ledger", "export", str(export)], env=installation.settings).exit_code == 0
    )
    assert _verify(installation.settings, "--verdict-key", key, "--from", str(export)) == (0, set())
    _continue_the_chain(installation)
    assert _verify(installation.settings) == (0, set()), "every number, link and hash is in order"
    assert _verify(installation.settings, "--verdict-key", key) == (1, {"unsigned"})
    other = make_private_key(tmp_path / "other.pem").public.text
    assert _verify(installation.settings, "--verdict-key", other)[0] == 1
    assert _verify({**installation.settings, "SLUICE_VERDICTS__PUBLIC_KEYS": json.dumps([key])})[0] == 1


def _memory(session: str, source: dict[str, str]) -> dict[str, Any]:
    fields = {"write_id": f"w-{session}", "agent_id": "load-agent", "session_id": session}
    return {**fields, "content": "The order was delivered on Tuesday.", "source": source}


def _retrieval(session: str) -> dict[str, Any]:
    items = [{"item_id": "i-1", "body": "text"}]
    return {"request_id": f"r-{session}", "agent_id": "load-agent", "session_id": session, "items": items}


def _verify(settings: dict[str, str], *words: str) -> tuple[int, set[str]]:
    """Exit code and the codes of what was found."""
    result = CliRunner().invoke(cli, ["ledger", "verify", "--json", *words], env=settings)
    found = json.loads(result.stdout)["findings"]
    return result.exit_code, {one["code"] for one in found}


def _continue_the_chain(installation: Any) -> None:
    """Append a record as a stranger can: with the next number, the right link and the right hash."""
    ledger = [one for topic in CATALOG if topic.ledger for one in read_stored(installation, topic.name)]
    partition = ledger[0].partition
    bodies = [json.loads(one.value or b"") for one in ledger if one.partition == partition]
    last = max(bodies, key=lambda one: int(one["sequence"]))
    body = {
        "schema": "sluice/session_folded/v1",
        "session_id": "of a stranger",
        "tenants": {},
        "opened_at": last["decided_at"],
        "last_at": last["decided_at"],
        "decided_at": last["decided_at"],
        "reason": "idle",
        "input": None,
    }
    value = Chain(partition, last["sequence"], last["event_hash"]).link(body)
    publish_to(installation, partition, json.loads(value), SESSION_EVENTS)


LISTED = {ESCALATIONS: ("EscalationOpened", "escalation_id"), QUARANTINE: ("QuarantineEntered", "memory_id")}


async def test_what_no_worker_signed_is_in_no_list_no_report_and_no_notification(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    """Without the key the same records stand in the lists and end the report, so nothing else keeps them
    out."""
    key, here = make_private_key(tmp_path / "verdicts.pem"), Audience("installation-1", prefix)
    signed, forged = (_make_outputs(one) for one in ("signed", "forged"))
    RecordSigner(key, here).sign(0, signed)
    garbage = [Output(one.topic, b"s-1", b"x", []) for one in signed]
    half = [Output(one.topic, b"s-1", _half_of(one), []) for one in signed if one.topic in LISTED]
    await _lay(kafka, prefix, [*signed, *forged, *garbage, *half])
    environment = {
        "SLUICE_KAFKA__BOOTSTRAP_SERVERS": kafka,
        "SLUICE_KAFKA__TOPIC_PREFIX": prefix,
        "SLUICE_POLICY__INSTALLATION": here.installation,
    }
    told = {**environment, "SLUICE_VERDICTS__PUBLIC_KEYS": json.dumps([key.public.text])}
    for words, field in (("escalations", "escalation_id"), ("quarantine", "memory_id")):
        ids = [await _list_ids(env, words, field) for env in (told, environment)]
        assert ids == [["signed"], ["forged", "signed"]]
    code, report = await _sluice(told, "quality", "report", "--json")
    assert (code, json.loads(report)["overall"]["decisions"]) == (0, 1)
    assert (await _sluice(environment, "quality", "report", "--json"))[0] == 2
    proofs = RecordProofs([key.public.text], here)
    assert await _describe(KafkaLedgerGroup(kafka, f"{prefix}told", _names(prefix), 3600, proofs)) == {
        "signed"
    }
    assert await _describe(KafkaLedgerGroup(kafka, f"{prefix}untold", _names(prefix), 3600)) == {
        "forged",
        "signed",
    }


def _make_outputs(name: str) -> list[Output]:
    """An opened escalation, a held memory and a decision on an item."""
    bodies = {topic: {**ledger_records()[kind], field: name} for topic, (kind, field) in LISTED.items()}
    bodies[QUALITY_DECISIONS] = decision()
    return [Output(topic, b"s-1", json.dumps(body).encode(), []) for topic, body in bodies.items()]


def _half_of(one: Output) -> bytes:
    """A record under an id of its own, without what it must have."""
    return json.dumps({"schema": json.loads(one.value)["schema"], LISTED[one.topic][1]: "half"}).encode()


async def _lay(kafka: str, prefix: str, outputs: list[Output]) -> None:
    await create(kafka, TopicLayout(prefix, prefix, 1), 1)
    async with AIOKafkaProducer(bootstrap_servers=kafka, acks="all") as producer:
        for one in outputs:
            await producer.send_and_wait(prefix + one.topic, one.value, one.key, 0, headers=one.headers)


async def _sluice(environment: dict[str, str], *words: str) -> tuple[int, str]:
    result = await asyncio.to_thread(CliRunner().invoke, cli, words, env=environment)
    return result.exit_code, result.stdout


async def _list_ids(environment: dict[str, str], verbs: str, field: str) -> list[str]:
    code, out = await _sluice(environment, verbs, "list", "--json")
    assert code == 0
    return sorted(one[field] for one in json.loads(out))


def _names(prefix: str) -> dict[str, str]:
    return {prefix + topic: topic for topic in LISTED}


async def _describe(group: KafkaLedgerGroup) -> set[str]:
    """The ids of what a notifier gets to tell."""
    await group.connect()
    found: set[str] = set()
    try:
        read: dict[Any, int] = {}
        async with asyncio.timeout(60):
            while set(read.values()) != {4} or len(read) < len(LISTED):
                await group.read_changes()
                records, read = await group.read_some(0.2, paused=False)
                found |= {str(one.fields[LISTED[one.part[0]][1]]) for one in records}
    finally:
        await group.close()
    return found
