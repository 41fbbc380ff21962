"""Three brokers on this machine's JVM, each a controller too, as a production cluster has them.

A topic has three replicas of which two must hold what is acknowledged; so have the group offsets and the
transactions' log. One node may go away, and everything goes on.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, for_code
from aiokafka.protocol.admin import AlterPartitionReassignmentsRequest

from sluice.broker import handle, local
from sluice.broker.handle import BrokerError, wait_until_ready
from sluice.broker.local import Layout, LocalBroker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

NODES = 3
HEAP = "-Xmx256m"
READY_S = 120.0
ANSWER_S = 30.0
POLL_S = 0.2
MOVE_MS = 20_000
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
COPIES = {
    "default.replication.factor": str(NODES),
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": str(NODES),
    "transaction.state.log.replication.factor": str(NODES),
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": str(NODES),
    "share.coordinator.state.topic.min.isr": "2",
    # Kafka looks every 5 minutes whether each partition is led by the first of its replicas; runs last less.
    "leader.imbalance.check.interval.seconds": "2",
    "leader.imbalance.per.broker.percentage": "0",
}


@dataclass
class BrokerCluster:
    """A `Broker` of several nodes; they outlive this object until `close`. Built by `launch_cluster`.

    `stop`, `kill` and `start` are of all nodes; those of one node are its own (`nodes[i].kill()`), but
    `restart`, which also waits until the cluster lists it.
    """

    nodes: Sequence[LocalBroker]
    kind: str = field(default="jvm", init=False)

    @property
    def bootstrap_servers(self) -> str:
        """All nodes, so that a client finds the cluster whichever is away."""
        return ",".join(node.bootstrap_servers for node in self.nodes)

    def find_node(self, node_id: int) -> LocalBroker:
        """By Kafka's id of it."""
        return self.nodes[node_id - 1]

    def start(self) -> None:
        """Start what is not running; return when all nodes are listed. Raises BrokerError."""
        self._each(lambda node: None if node.is_alive() else node.begin())
        self._wait()

    def restart(self, node: LocalBroker) -> None:
        """Start a node, and return when the cluster lists all. Raises BrokerError."""
        node.begin()
        self._wait()

    def stop(self) -> None:
        """SIGTERM to all."""
        self._each(LocalBroker.stop)

    def kill(self) -> None:
        """SIGKILL to all."""
        self._each(LocalBroker.kill)

    def close(self) -> None:
        """End it for good. The last nodes without a quorum could not stop in order, so all are killed."""
        self.kill()

    def _each(self, act: Callable[[LocalBroker], None]) -> None:
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(act, self.nodes))

    def _wait(self) -> None:
        def all_run() -> bool:
            return all(node.is_alive() for node in self.nodes)

        if not wait_until_ready(self.bootstrap_servers, READY_S, all_run, len(self.nodes)):
            ended = [node.layout.log for node in self.nodes if not node.is_alive()]
            raise BrokerError(f"the cluster does not list {len(self.nodes)} brokers; ended: {ended}")


def launch_cluster(work: Path, jars: Path, more: Mapping[str, str] | None = None) -> BrokerCluster:
    """Start three nodes with their data under `work`; `more`: broker properties. Raises BrokerError."""
    ports = handle.find_free_ports(2 * NODES)
    listening, controlling = ports[:NODES], ports[NODES:]
    voters = ",".join(f"{i + 1}@{handle.LOOPBACK}:{port}" for i, port in enumerate(controlling))
    cluster_id = local.make_cluster_id()
    nodes = [
        LocalBroker(
            Layout(work / f"node-{i + 1}", work / f"node-{i + 1}" / "data", jars),
            listening[i],
            controlling[i],
            more={**COPIES, "node.id": str(i + 1), "controller.quorum.voters": voters, **(more or {})},
            cluster_id=cluster_id,
            heap=HEAP,
        )
        for i in range(NODES)
    ]
    cluster = BrokerCluster(nodes)
    try:
        local.resolve(jars)  # once, and not by three threads
        cluster.start()
    except BaseException:  # an interrupt too: nobody else would end the JVMs
        cluster.close()
        raise
    return cluster


Place = tuple[str, int]
Replicas = dict[Place, tuple[int, list[int], list[int]]]


@asynccontextmanager
async def open_admin(bootstrap_servers: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """An admin client, closed at the end."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        await admin.start()
        yield admin
    finally:
        await admin.close()


async def read_replicas(bootstrap_servers: str, topics: Iterable[str]) -> Replicas:
    """By topic and partition: its leader (-1: none), its replicas and those in sync. It asks again while a
    node that it asks is away. Raises TimeoutError."""
    asked = list(topics)
    async with asyncio.timeout(ANSWER_S):
        while (described := await _try_describe(bootstrap_servers, asked)) is None:  # noqa: ASYNC110 - asks a broker
            await asyncio.sleep(POLL_S)
    return {
        (topic["topic"], partition["partition"]): (
            partition["leader"],
            partition["replicas"],
            partition["isr"],
        )
        for topic in described
        for partition in topic["partitions"]
    }


async def _try_describe(bootstrap_servers: str, topics: list[str]) -> list[dict[str, Any]] | None:
    try:
        async with open_admin(bootstrap_servers) as admin:
            described: list[dict[str, Any]] = await admin.describe_topics(topics)
    except KafkaError:
        return None
    return described


async def wait_for_leaders(bootstrap_servers: str, wanted: Mapping[Place, int]) -> None:
    """Return when every partition has this leader, and all its replicas are in sync. Raises TimeoutError."""

    def holds(now: Replicas) -> bool:
        return all(
            now[coordinates][0] == node and len(now[coordinates][2]) == NODES
            for coordinates, node in wanted.items()
        )

    await _wait_until(bootstrap_servers, {topic for topic, _ in wanted}, holds)


async def wait_until_led_without(bootstrap_servers: str, topics: Iterable[str], node_id: int) -> None:
    """Return when no partition of these topics is led by this node or by none. Raises TimeoutError."""

    def holds(now: Replicas) -> bool:
        return {node_id, -1}.isdisjoint(leader for leader, _, _ in now.values())

    await _wait_until(bootstrap_servers, topics, holds)


async def _wait_until(
    bootstrap_servers: str, topics: Iterable[str], holds: Callable[[Replicas], bool]
) -> None:
    asked = list(topics)
    async with asyncio.timeout(READY_S):
        while not holds(await read_replicas(bootstrap_servers, asked)):  # noqa: ASYNC110 - asks a broker
            await asyncio.sleep(POLL_S)


async def rotate_leaders(bootstrap_servers: str, topics: Iterable[str]) -> dict[Place, int]:
    """Make the second replica of every partition the preferred one, which the controller then makes its
    leader. Returns the leaders that are to be. Raises KafkaError."""
    before = await read_replicas(bootstrap_servers, topics)
    wanted = {coordinates: [*replicas[1:], replicas[0]] for coordinates, (_, replicas, _) in before.items()}
    by_topic: dict[str, list[Any]] = {}
    for (topic, partition), replicas in wanted.items():
        by_topic.setdefault(topic, []).append((partition, replicas, {}))
    request = AlterPartitionReassignmentsRequest(
        MOVE_MS, [(*assignment, {}) for assignment in by_topic.items()], {}
    )
    async with open_admin(bootstrap_servers) as admin:
        answer = await admin._send_to_controller(request)  # noqa: SLF001 - the client has no method for it
    codes = {
        answer.error_code,
        *(answered[1] for _, partitions, _ in answer.responses for answered in partitions),
    }
    if failed := [code for code in codes if code]:
        raise KafkaError(f"leaders could not be moved: {[for_code(code).__name__ for code in failed]}")
    return {coordinates: replicas[0] for coordinates, replicas in wanted.items()}


async def find_group_coordinator(bootstrap_servers: str, group: str) -> int:
    """The node that coordinates a consumer group. Raises KafkaError."""
    async with open_admin(bootstrap_servers) as admin:
        return int(await admin.find_coordinator(group))
