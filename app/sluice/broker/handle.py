"""What every broker offers, however it runs: its handle, what can go wrong, and whether it answers.

Also what the brokers of one node share, on the JVM or in a container: free loopback ports and the KRaft
configuration.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from sluice.client.kafka_connection import build_client_arguments, list_addresses

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.client.kafka_connection import KafkaCluster


THREE_WAYS = """\
Any one of these gives Sluice a broker:
  1. one that runs already: set KAFKA_BOOTSTRAP_SERVERS=host:port
  2. Docker: start its daemon (the official apache/kafka image is used)
  3. a JDK (17 or later) and Maven on the PATH: a local Apache Kafka is resolved, checked and started"""


class BrokerError(Exception):
    """No broker, or it did not do what was asked; the message says what to do next."""


class NoBrokerError(BrokerError):
    """None of the three ways works here; the message names them and why each was passed over."""

    def __init__(self, reasons: dict[str, str]) -> None:
        tried = "\n".join(f"  {way}: {reason}" for way, reason in reasons.items())
        super().__init__(f"No Kafka broker.\nTried:\n{tried}\n{THREE_WAYS}")


class JarsError(BrokerError):
    """The broker's jars are not those of the manifest; each difference is named."""


class Broker(Protocol):
    """A Kafka broker that answered an admin call.

    `stop`, `kill` and `start` are for fault runs: data and address survive them. A broker that is not ours
    (`kind == "external"`) refuses all three with BrokerError.
    """

    @property
    def kind(self) -> str:
        """`external`, `docker` or `jvm`."""

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, the same before and after a restart."""

    def stop(self) -> None:
        """SIGTERM, and wait until it has gone."""

    def kill(self) -> None:
        """SIGKILL, and wait until it has gone."""

    def start(self) -> None:
        """Start it again on the same data and address, and wait until it answers."""

    def close(self) -> None:
        """Stop it for good if it is ours. Calling it twice is harmless."""


ATTEMPT_S = 5.0
PAUSE_S = 0.1


def is_answering(cluster: KafkaCluster, attempt_s: float = ATTEMPT_S, brokers: int = 1) -> bool:
    """Whether `cluster` lists that many live brokers within `attempt_s` seconds.

    Runs its own event loop in its own thread, so that it may be called from inside another loop.
    """
    if not _is_listening(cluster, attempt_s):
        return False  # aiokafka would say so too, but with a line on standard error for each try
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, _has_live_brokers(cluster, attempt_s, brokers)).result()


def wait_until_ready(
    cluster: KafkaCluster, deadline_s: float, still_there: Callable[[], bool], brokers: int = 1
) -> bool:
    """Ask until that many brokers live (True), `deadline_s` seconds have passed or `still_there()` says no
    (False)."""
    end = time.monotonic() + deadline_s
    while (left := end - time.monotonic()) > 0 and still_there():
        if is_answering(cluster, min(ATTEMPT_S, left), brokers):
            return True
        time.sleep(PAUSE_S)
    return False


def _is_listening(cluster: KafkaCluster, attempt_s: float) -> bool:
    try:
        addresses = list_addresses(str(cluster))
    except ValueError:
        return False
    return any(_is_accepting(address, attempt_s) for address in addresses)


def _is_accepting(address: tuple[str, int], attempt_s: float) -> bool:
    try:
        with socket.create_connection(address, timeout=attempt_s):
            return True
    except OSError:
        return False


async def _has_live_brokers(cluster: KafkaCluster, attempt_s: float, brokers: int) -> bool:
    try:
        async with asyncio.timeout(attempt_s):
            return await _count_live_brokers(cluster, attempt_s) >= brokers
    except (KafkaError, OSError, TimeoutError):
        return False


async def _count_live_brokers(cluster: KafkaCluster, attempt_s: float) -> int:
    admin = AIOKafkaAdminClient(
        **build_client_arguments(cluster), request_timeout_ms=max(1, int(attempt_s * 1000))
    )
    try:
        await admin.start()
        return len((await admin.describe_cluster())["brokers"])
    finally:
        await admin.close()


LOOPBACK = "127.0.0.1"
# Below the range from which systems take ports for outgoing connections: a client that retries while the
# broker is down could otherwise be given the broker's own port, and connect to itself.
FIRST, LAST = 20000, 29000


def is_free(port: int) -> bool:
    """Whether a listener could bind `port` on loopback now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def find_free_ports(count: int) -> list[int]:
    """`count` free ports; where to begin depends on our pid, so that parallel runs do not meet."""
    begin = os.getpid() * 16 % (LAST - FIRST)
    order = (FIRST + (begin + step) % (LAST - FIRST) for step in range(LAST - FIRST))
    free = (port for port in order if is_free(port))
    return [next(free) for _ in range(count)]


# The largest record Sluice writes is 4 MB; batches, fetches and requests need room above it.
MESSAGE_MAX_BYTES = 8 * 1024 * 1024

SINGLE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # After SIGKILL the controller takes the same broker back only when its old session has run out.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "message.max.bytes": str(MESSAGE_MAX_BYTES),
    "replica.fetch.max.bytes": str(MESSAGE_MAX_BYTES),
}


def write_listeners(port: int, controller_port: int, bind: str) -> dict[str, str]:
    """Where it listens (`bind` is an address) and what it tells clients on this machine."""
    return {
        "listeners": f"PLAINTEXT://{bind}:{port},CONTROLLER://{bind}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
    }


def write_properties(properties: dict[str, str]) -> str:
    """`server.properties`."""
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def write_environment(properties: dict[str, str]) -> dict[str, str]:
    """The environment of the official image: KAFKA_ and the name in capitals, dots as underscores."""
    return {f"KAFKA_{name.upper().replace('.', '_')}": value for name, value in properties.items()}
