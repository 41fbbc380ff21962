"""The catalog's topics on a real broker: made, checked, and every difference seen."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from sluice.adapters.kafka import kafka_topics
from sluice.adapters.kafka.kafka_read import KafkaUnreachable
from sluice_topics.layout import TopicLayout

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.kafka
PARTITIONS = 2


@pytest.fixture
def layout(prefix: str) -> TopicLayout:
    return TopicLayout(prefix, f"{prefix}app", PARTITIONS)


async def make(kafka: str, name: str, partitions: int, config: Mapping[str, str]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=dict(config))])
    finally:
        await admin.close()


async def test_what_is_created_is_as_the_catalog_says(kafka: str, layout: TopicLayout) -> None:
    made = await kafka_topics.create(kafka, layout, replication=1)
    assert made == dict.fromkeys(layout.topics(), True)
    assert await kafka_topics.check(kafka, layout) == []


async def test_creating_again_changes_nothing(kafka: str, layout: TopicLayout) -> None:
    await kafka_topics.create(kafka, layout, replication=1)
    assert await kafka_topics.create(kafka, layout, replication=1) == dict.fromkeys(layout.topics(), False)


async def test_nothing_created_is_every_topic_missing(kafka: str, layout: TopicLayout) -> None:
    missing = await kafka_topics.check(kafka, layout)
    assert {(one.topic, one.actual) for one in missing} == {(name, "missing") for name in layout.topics()}


async def test_a_topic_made_by_someone_else_is_left_and_its_differences_are_seen(
    kafka: str, layout: TopicLayout
) -> None:
    name = f"{layout.prefix}gate.verdicts"
    wrong = {
        "cleanup.policy": "compact",
        "retention.ms": "1000",
        "max.message.bytes": "1000",
        "message.timestamp.type": "CreateTime",
    }
    await make(kafka, name, PARTITIONS + 1, wrong)
    made = await kafka_topics.create(kafka, layout, replication=1)
    assert [topic for topic, new in made.items() if not new] == [name]
    differing = await kafka_topics.check(kafka, layout)
    assert {one.topic for one in differing} == {name}
    assert {one.what: one.actual for one in differing} == {"partitions": str(PARTITIONS + 1), **wrong}


async def test_a_refusal_names_the_topic_and_the_brokers_code(kafka: str, layout: TopicLayout) -> None:
    with pytest.raises(
        kafka_topics.KafkaTopicError, match=r"gate\.actions\.proposed was not created: code 38"
    ):
        await kafka_topics.create(kafka, layout, replication=1000)


async def test_an_illegal_name_is_a_refusal_too(kafka: str, layout: TopicLayout) -> None:
    illegal = dataclasses.replace(layout, prefix="no spaces ")
    with pytest.raises(kafka_topics.KafkaTopicError, match="code 17"):
        await kafka_topics.create(kafka, illegal, replication=1)


async def test_a_broker_that_does_not_answer_is_named(layout: TopicLayout) -> None:
    nobody = "127.0.0.1:1"
    with pytest.raises(KafkaUnreachable, match=nobody):
        await kafka_topics.check(nobody, layout)
