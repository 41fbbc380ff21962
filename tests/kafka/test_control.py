"""The control topics on a real broker: read on to their end, published to whole or not at all."""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaProducer

from sluice.adapters.kafka import kafka_topics
from sluice.adapters.kafka.kafka_consumers import KafkaControlReader
from sluice.adapters.kafka.kafka_publish import AnotherPublisherError, publish_control
from sluice.client.kafka_writing import Outgoing
from sluice_topics.catalog import BUNDLES, REGISTRY
from sluice_topics.layout import TopicLayout
from tests.unit.cli.policy.policy_files import make, sluice, write
from tests.unit.core.trust.scene import agent, approver, bundle_document, tool

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from typer.testing import Result

    from sluice.core.foundation.input_record import InputRecord

pytestmark = pytest.mark.kafka


@pytest.fixture
async def topics(kafka: str, prefix: str) -> dict[str, str]:
    layout = TopicLayout(prefix, f"{prefix}app", 1)
    await kafka_topics.create(kafka, layout, replication=1)
    return {f"{prefix}{base}": base for base in (REGISTRY, BUNDLES)}


def record(key: bytes, value: bytes = b"v") -> Outgoing:
    return Outgoing(key, value, ())


def keys_of(input_records: Sequence[InputRecord]) -> list[tuple[str, bytes | None]]:
    return [(one.topic, one.key) for one in input_records]


async def test_what_is_chosen_is_written_together_and_read_back_once(
    kafka: str, prefix: str, topics: dict[str, str]
) -> None:
    before = int(time.time() * 1000)
    reader = KafkaControlReader(kafka, topics)
    try:
        assert await reader.to_end() == []
        chosen = [(REGISTRY, record(b"a")), (BUNDLES, record(b"b")), (REGISTRY, record(b"c"))]
        after = await publish_control(kafka, topics, f"{prefix}w", lambda _: chosen)
        read = await reader.to_end()
        assert sorted(read, key=lambda one: one.decision_id) == sorted(after, key=lambda one: one.decision_id)
        assert sorted(keys_of(read)) == [(BUNDLES, b"b"), (REGISTRY, b"a"), (REGISTRY, b"c")]
        assert all(one.timestamp_ms >= before for one in read)
        assert await reader.to_end() == []
    finally:
        await reader.close()


async def test_a_choice_is_made_on_what_is_there_and_may_be_none(
    kafka: str, prefix: str, topics: dict[str, str]
) -> None:
    seen: list[Sequence[InputRecord]] = []

    def none(records: Sequence[InputRecord]) -> list[tuple[str, Outgoing]]:
        seen.append(list(records))
        return []

    await publish_control(kafka, topics, f"{prefix}w", lambda _: [(REGISTRY, record(b"a"))])
    after = await publish_control(kafka, topics, f"{prefix}w", none)
    assert keys_of(seen[0]) == keys_of(after) == [(REGISTRY, b"a")]


async def test_a_record_that_cannot_be_written_keeps_the_others_back(
    kafka: str, prefix: str, topics: dict[str, str]
) -> None:
    class ChoiceError(Exception):
        pass

    def refuse(_: Sequence[InputRecord]) -> list[tuple[str, Outgoing]]:
        raise ChoiceError

    with pytest.raises(ChoiceError):
        await publish_control(kafka, topics, f"{prefix}w", refuse)
    assert await publish_control(kafka, topics, f"{prefix}w", lambda _: []) == []


async def test_a_publisher_who_begins_later_ends_the_one_before(
    kafka: str, prefix: str, topics: dict[str, str]
) -> None:
    def while_another_publishes(_: Sequence[InputRecord]) -> list[tuple[str, Outgoing]]:
        other = publish_control(kafka, topics, f"{prefix}w", lambda _: [(REGISTRY, record(b"second"))])
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, other).result()
        return [(REGISTRY, record(b"first"))]

    with pytest.raises(AnotherPublisherError):
        await publish_control(kafka, topics, f"{prefix}w", while_another_publishes)
    assert keys_of(await publish_control(kafka, topics, f"{prefix}w", lambda _: [])) == [
        (REGISTRY, b"second")
    ]


async def test_half_of_a_transaction_is_never_read(kafka: str, prefix: str, topics: dict[str, str]) -> None:
    reader = KafkaControlReader(kafka, topics)
    async with AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=f"{prefix}half") as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(f"{prefix}{REGISTRY}", b"v", key=b"half")
        reading = asyncio.ensure_future(reader.to_end())
        done, _ = await asyncio.wait([reading], timeout=1)
        assert not done
        await producer.abort_transaction()
    assert await reading == []
    await reader.close()


class Installation:
    """A broker's topics, the keys of a root and two approvers, and the command with the settings for them."""

    def __init__(self, kafka: str, prefix: str, folder: Path) -> None:
        self.folder = folder
        self.root, self.alice, self.bob = (make(folder, name) for name in ("root", "alice", "bob"))
        self._settings = {
            "SLUICE_KAFKA__BOOTSTRAP_SERVERS": kafka,
            "SLUICE_KAFKA__TOPIC_PREFIX": prefix,
            "SLUICE_POLICY__INSTALLATION": "here",
            "SLUICE_POLICY__ROOT_KEYS": json.dumps([self.root.public.text]),
        }

    def publish(self, noun: str, document: dict[str, object], signer: str, *options: str) -> Result:
        file, out = write(self.folder / "source.json", document), self.folder / "signed"
        keys = [word for name in signer.split() for word in ("--key", self.folder / f"{name}.pem")]
        assert sluice(noun, "sign", file, *keys, "--out", out).exit_code == 0
        return sluice(noun, "publish", out, *options, **self._settings)


@pytest.fixture
def installation(kafka: str, prefix: str, tmp_path: Path, topics: dict[str, str]) -> Installation:
    return Installation(kafka, prefix, tmp_path)


def test_a_policy_is_published_step_by_step_and_every_refusal_says_why(installation: Installation) -> None:
    early = installation.publish("registry", {"entries": [agent(), tool()]}, "alice")
    assert early.exit_code == 1
    assert "unknown_key" in early.stderr
    trusted = approver("alice", installation.alice)
    assert installation.publish("registry", {"entries": [trusted]}, "root").exit_code == 0
    entries = installation.publish("registry", {"entries": [agent(), tool()]}, "alice", "--json")
    assert entries.exit_code == 0
    assert [one["key"] for one in json.loads(entries.stdout)["written"]] == [
        "agent/reader@1",
        "tool/search@1",
    ]
    assert installation.publish("bundle", bundle_document(2), "alice").exit_code == 0
    older = installation.publish("bundle", bundle_document(1), "alice")
    by_root = installation.publish("bundle", bundle_document(3), "root")
    assert (older.exit_code, by_root.exit_code) == (1, 1)
    assert "older_revision" in older.stderr
    assert "key_not_allowed" in by_root.stderr


def test_publishing_again_writes_nothing_and_is_well(installation: Installation) -> None:
    installation.publish("registry", {"entries": [approver("alice", installation.alice)]}, "root")
    first = installation.publish("bundle", bundle_document(), "alice", "--json")
    again = installation.publish("bundle", bundle_document(), "alice", "--json")
    assert (first.exit_code, again.exit_code) == (0, 0)
    nothing: dict[str, list[str]] = {"written": [], "refused": [], "relaxations": []}
    assert json.loads(again.stdout) == {**nothing, "already_there": ["small@1"]}


def test_publishing_says_what_is_gone_since_the_revision_in_force(installation: Installation) -> None:
    """Mend 22.11."""
    both = [approver("alice", installation.alice), approver("bob", installation.bob)]
    installation.publish("registry", {"entries": both}, "root")
    rule = {"id": "no_drop", "type": "forbidden", "reason": "no", "condition": "action.tool == 'drop'"}
    stages = ["controls", "rules", "tier_auth"]
    installation.publish("bundle", bundle_document(stages=stages, rules=[rule]), "alice")
    without = bundle_document(2, stages=stages, rules=[])
    alone = installation.publish("bundle", without, "alice")
    assert (alone.exit_code, "second_approver_missing" in alone.stderr) == (1, True)
    assert "the rule no_drop is gone" in alone.stderr
    told = installation.publish("bundle", without, "alice bob", "--json")
    assert told.exit_code == 0
    (relaxed,) = json.loads(told.stdout)["relaxations"]
    assert "small@1" in relaxed
    assert "no_drop" in relaxed
