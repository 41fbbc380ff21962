"""Creating the catalog's topics on a broker, and seeing how they are there."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiokafka.admin import NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    NodeNotReadyError,
    TopicAlreadyExistsError,
    TransactionalIdAuthorizationFailed,
    for_code,
)
from aiokafka.protocol.metadata import MetadataRequest

from sluice.adapters.kafka.kafka_read import open_admin, require_login
from sluice.client.kafka_writing import make_producer
from sluice_topics.layout import FoundTopic, TopicDifference, TopicLayout, compare_topics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiokafka.admin import AIOKafkaAdminClient

    from sluice.client.kafka_connection import KafkaCluster

_CREATED = 0
_SETTLE_S = 20.0
_POLL_S = 0.05


class KafkaTopicError(Exception):
    """The broker refused to create or to describe a topic; the message names the topic and Kafka's code."""


async def create(cluster: KafkaCluster, layout: TopicLayout, replication: int) -> dict[str, bool]:
    """Create what is missing; per real name whether it is new. Existing topics are left as they are.

    Returns when every broker shows them all, so that a client started next finds them. Raises KafkaTopicError
    and KafkaUnreachable.
    """
    new_topics = [
        NewTopic(name, layout.count_partitions(topic), replication, topic_configs=topic.config())
        for name, topic in layout.topics().items()
    ]
    async with open_admin(cluster) as admin:
        response = await admin.create_topics(new_topics)
        made = {name: _is_new(name, code, rest) for name, code, *rest in response.topic_errors}
        await await_topics(admin, set(made))
    return made


async def look(cluster: KafkaCluster, layout: TopicLayout) -> dict[str, FoundTopic]:
    """The catalog's topics that the broker has, by real name. Raises KafkaTopicError and KafkaUnreachable."""
    async with open_admin(cluster) as admin:
        replicas = await _count_replicas(admin)
        present = [name for name in layout.topics() if name in replicas]
        configs = await _fetch_configs(admin, present)
    return {name: FoundTopic(len(replicas[name]), configs[name], min(replicas[name])) for name in present}


async def check(cluster: KafkaCluster, layout: TopicLayout) -> list[TopicDifference]:
    """Every difference between the catalog and the broker. Raises KafkaTopicError and KafkaUnreachable."""
    return compare_topics(layout, await look(cluster, layout), str(cluster))


async def probe_transactions(cluster: KafkaCluster, app_id: str, timeout_ms: int) -> TopicDifference | None:
    """Begin and abort an empty transaction, under an id that no worker has, with the workers' time-out; None:
    that works. Raises KafkaUnreachable where nobody is let in."""
    await require_login(cluster)
    name = f"{app_id}-check"
    producer = make_producer(cluster, transactional_id=name, transaction_timeout_ms=timeout_ms)
    try:
        async with asyncio.timeout(_SETTLE_S):
            await producer.start()
            await producer.begin_transaction()
            await producer.abort_transaction()
    except (KafkaError, TimeoutError) as error:
        actual = f"{type(error).__name__} {error}".strip()
        mend = "a cluster with transactions, or a smaller worker.transaction_timeout_s"
        why = "a worker commits decisions, state and positions in transactions alone: it cannot run here"
        if isinstance(error, TransactionalIdAuthorizationFailed):
            mend = "an ACL of Write on this id for the login that asks; no role has it"
            why = "nobody knows: the login may not use the id of the probe, which says nothing of workers'"
        return TopicDifference(
            f"transactional id {name}", "transactions", "begin and abort", actual, mend, why
        )
    finally:
        await producer.stop()
    return None


def _is_new(name: str, code: int, rest: list[Any]) -> bool:
    if code == TopicAlreadyExistsError.errno:
        return False
    if code != _CREATED:
        reason = next((str(part) for part in rest if part), for_code(code).__name__)
        raise KafkaTopicError(f"{name} was not created: code {code}, {reason}")
    return True


async def await_topics(admin: AIOKafkaAdminClient, names: set[str]) -> None:
    """Return when every broker shows them all, each partition with a leader: brokers learn of new topics one
    after the other, and who connects next may ask any of them. One that is away is nobody's next."""
    nodes = [broker.nodeId for broker in admin._client.cluster.brokers()]  # noqa: SLF001 - aiokafka asks a random one
    async with asyncio.timeout(_SETTLE_S):
        await _await_topics_of(admin, names, None)
        for node in nodes:
            with suppress(NodeNotReadyError, KafkaConnectionError):
                await _await_topics_of(admin, names, node)


async def _await_topics_of(admin: AIOKafkaAdminClient, names: set[str], node: int | None) -> None:
    while names - (await _count_replicas(admin, node)).keys():  # noqa: ASYNC110 - a broker tells nobody
        await asyncio.sleep(_POLL_S)


async def _count_replicas(admin: AIOKafkaAdminClient, node: int | None = None) -> dict[str, list[int]]:
    """Count the replicas of each partition, of every topic whose partitions all have a leader, as a broker
    knows them; None: any."""
    answer = await admin._send_request(MetadataRequest(None), node)  # noqa: SLF001 - as above
    return {
        topic["topic"]: [len(part["replicas"]) for part in topic["partitions"]]
        for topic in answer.to_object()["topics"]
        if topic["partitions"] and all(part["error_code"] == 0 for part in topic["partitions"])
    }


async def _fetch_configs(admin: AIOKafkaAdminClient, names: Iterable[str]) -> dict[str, dict[str, str]]:
    asked = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    if not asked:
        return {}
    answers = await admin.describe_configs(asked)
    return {
        name: _read_config(name, code, message, entries)
        for answer in answers
        for code, message, _, name, entries in answer.resources
    }


def _read_config(name: str, code: int, message: str | None, entries: list[tuple[Any, ...]]) -> dict[str, str]:
    if code:
        reason = message or for_code(code).__name__
        raise KafkaTopicError(f"{name} could not be described: code {code}, {reason}")
    return {key: value or "" for key, value, *_ in entries}
