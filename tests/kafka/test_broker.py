"""A broker is found, answers, and keeps what it was given through a stop and a kill."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from load.installations.broker_cluster import (
    NODES,
    launch_cluster,
    read_replicas,
    wait_for_leaders,
    wait_until_led_without,
)
from sluice.broker import handle, locate
from sluice.broker.handle import BrokerError, is_answering
from sluice.settings.reader import load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.broker.handle import Broker

pytestmark = pytest.mark.kafka


async def test_the_shared_broker_does_not_make_topics_of_itself(kafka: str, prefix: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    try:
        await admin.describe_topics([f"{prefix}never.created"])
        assert f"{prefix}never.created" not in await admin.list_topics()
    finally:
        await admin.close()


async def test_what_was_acknowledged_survives_a_stop_and_a_kill(own_broker: Broker, prefix: str) -> None:
    address, topic = own_broker.bootstrap_servers, f"{prefix}kept"
    await _create(address, topic)
    await _publish(address, topic, b"before the stop")
    await asyncio.to_thread(own_broker.stop)
    assert not await asyncio.to_thread(is_answering, address)
    await asyncio.to_thread(own_broker.start)
    assert own_broker.bootstrap_servers == address
    await _publish(address, topic, b"before the kill")
    await asyncio.to_thread(own_broker.kill)
    assert not await asyncio.to_thread(is_answering, address)
    await asyncio.to_thread(own_broker.start)
    assert await _values(address, topic, 2) == [b"before the stop", b"before the kill"]


async def test_a_record_of_four_megabytes_fits_where_its_topic_allows_it(kafka: str, prefix: str) -> None:
    topic, value = f"{prefix}large", b"x" * 4_000_000
    await _create(kafka, topic, {"max.message.bytes": "4194304"})
    await _publish(kafka, topic, value)
    assert await _values(kafka, topic, 1) == [value]


def test_a_started_broker_is_found_again_started_once_and_stopped(tmp_path: Path) -> None:
    wish = locate.StartOptions(port=handle.find_free_ports(1)[0])
    first, started_now = locate.start(tmp_path, wish)
    try:
        again, started_again = locate.start(tmp_path, wish)
        found = locate.read_status(tmp_path, None)
        assert (started_now, started_again) == (True, False)
        assert found is not None
        assert found.answers
        assert first.bootstrap_servers == again.bootstrap_servers == found.bootstrap_servers
        with pytest.raises(BrokerError, match="already runs"):
            locate.start(tmp_path, locate.StartOptions(port=locate.DEFAULT_PORT))
        assert locate.stop(tmp_path) == first.bootstrap_servers
        assert locate.read_status(tmp_path, None) is None
        assert not is_answering(first.bootstrap_servers)
    finally:
        first.close()


def test_a_secured_broker_lets_each_role_in_by_its_file_and_is_found_again(tmp_path: Path) -> None:
    wish = locate.StartOptions(port=handle.find_free_ports(1)[0], secured=("worker",))
    broker, _ = locate.start(tmp_path, wish)
    try:
        status = locate.read_status(tmp_path, None)
        assert status is not None
        assert (status.answers, status.logins) == (True, str(tmp_path / "secured"))
        assert not is_answering(broker.bootstrap_servers), "without a login nobody is answered"
        for user in ("admin", "worker"):
            settings = load_settings(tmp_path / "secured" / f"{user}.toml", environment={})
            assert settings.kafka.username == user
            assert is_answering(settings.kafka.connection)
        assert locate.start(tmp_path, wish)[1] is False
        assert locate.stop(tmp_path) == broker.bootstrap_servers
        again, started_again = locate.start(tmp_path, wish)  # on the same data: with the same passwords
        assert (again.bootstrap_servers, started_again) == (broker.bootstrap_servers, True)
        with pytest.raises(BrokerError, match="KAFKA_BOOTSTRAP_SERVERS"):
            locate.start(tmp_path, locate.StartOptions(again.bootstrap_servers, secured=()))
    finally:
        locate.stop(tmp_path)
        broker.close()


async def test_a_cluster_of_three_takes_writes_while_a_node_is_dead_and_gives_it_its_leaders_back(
    tmp_path: Path,
) -> None:
    cluster = await asyncio.to_thread(launch_cluster, tmp_path, locate.JARS)
    address = cluster.bootstrap_servers
    try:
        await _create(address, "kept", replication=NODES)
        before = await read_replicas(address, ["kept"])
        ((leader, replicas, _),) = before.values()
        assert len(replicas) == NODES
        await _publish(address, "kept", b"by all")
        dead = cluster.find_node(leader)
        await asyncio.to_thread(dead.kill)
        await wait_until_led_without(address, ["kept"], leader)
        await _publish(address, "kept", b"by two")
        await asyncio.to_thread(cluster.restart, dead)
        await wait_for_leaders(address, dict.fromkeys(before, leader))
        assert await _values(address, "kept", 2) == [b"by all", b"by two"]
    finally:
        cluster.close()


async def _create(
    address: str, topic: str, config: dict[str, str] | None = None, replication: int = 1
) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, 1, replication, topic_configs=config or {})])
    finally:
        await admin.close()


async def _publish(address: str, topic: str, value: bytes) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=address, acks="all", max_request_size=5_000_000
    ) as producer:
        await producer.send_and_wait(topic, value)


async def _values(address: str, topic: str, count: int) -> list[bytes | None]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=address, auto_offset_reset="earliest", enable_auto_commit=False
    )
    async with asyncio.timeout(30), consumer:
        consumer.assign([TopicPartition(topic, 0)])
        return [(await consumer.getone()).value for _ in range(count)]
