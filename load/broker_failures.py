"""On three brokers of its own: leaders are moved, and one broker at a time is killed or stopped, under load.

While it is away, the two others decide everything that was published until then. The brokers that coordinate
the group and the transactions are among them. Then it comes back, and its partitions' leaders with it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from load.head_signers import settle
from load.inputs.publisher import Pace
from load.installations.broker_cluster import (
    NODES,
    OFFSETS,
    TRANSACTIONS,
    find_group_coordinator,
    launch_cluster,
    read_replicas,
    rotate_leaders,
    wait_for_leaders,
    wait_until_led_without,
)
from load.installations.installation import gather
from load.recomputation import figures
from load.recomputation.run_findings import findings
from load.scene import open_scene
from sluice.broker import locate
from sluice_topics.catalog import CATALOG

if TYPE_CHECKING:
    from load.installations.broker_cluster import BrokerCluster
    from load.installations.installation import RunScale, TestInstallation
    from load.recomputation.figures import RunFigure
    from load.scene import Bed, Scene

NAME = "brokers"
WORKERS = 2


class _Faults:
    """What happened to the cluster: `led`, the partitions that a node led when it went away, and `moved`,
    those whose leader was moved while all nodes ran."""

    def __init__(self, cluster: BrokerCluster, installation: TestInstallation) -> None:
        self._cluster = cluster
        self._servers = installation.bootstrap_servers
        self._group = installation.app_id
        self._topics = [*(installation.real(topic.name) for topic in CATALOG), OFFSETS, TRANSACTIONS]
        self.moved = self.led = self.coordinators = self.in_flight = self.away = 0

    async def move(self, scene: Scene) -> None:
        """Another leader for each partition, those of the group's and the transactions' coordinators too."""
        await scene.busy(0)
        wanted = await rotate_leaders(self._servers, self._topics)
        await wait_for_leaders(self._servers, wanted)
        self.moved += len(wanted)

    async def take_away(self, scene: Scene, node_id: int, *, kill: bool) -> None:
        """Kill or stop a node, have all decided without it, start it, wait until its leaders are back."""
        before = await read_replicas(self._servers, self._topics)
        self.coordinators += await find_group_coordinator(self._servers, self._group) == node_id
        self.led += sum(leader == node_id for leader, _, _ in before.values())
        node = self._cluster.find_node(node_id)
        await scene.busy(0)
        self.in_flight += scene.count_in_flight() > 0
        await asyncio.to_thread(node.kill if kill else node.stop)
        self.away += 1
        await wait_until_led_without(self._servers, self._topics, node_id)
        await scene.calm()
        await asyncio.to_thread(self._cluster.restart, node)
        await wait_for_leaders(
            self._servers, {coordinates: topic_state[1][0] for coordinates, topic_state in before.items()}
        )

    async def find_coordinator(self) -> int:
        """The node of the group's coordinator."""
        return await find_group_coordinator(self._servers, self._group)


async def brokers(bed: Bed, scale: RunScale) -> list[RunFigure]:
    """Twice `scale.outages` times the group's coordinator goes away, killed and stopped by turns."""
    cluster = await asyncio.to_thread(launch_cluster, bed.folder / "cluster", locate.JARS)
    try:
        return await _hurt(replace(bed, broker=cluster, replication=NODES), cluster, scale)
    finally:
        cluster.close()


async def _hurt(bed: Bed, cluster: BrokerCluster, scale: RunScale) -> list[RunFigure]:
    installation = await bed.installation(NAME, broker_leaves=True)
    faults = _Faults(cluster, installation)
    turns = scale.outages * 2
    async with open_scene(
        installation, bed.traffic(installation, NAME, scale), Pace(scale.rate, plenty=scale.plenty), WORKERS
    ) as scene:
        for turn in range(turns):
            await scene.calm()
            await faults.move(scene)
            await scene.calm()
            victim = await faults.find_coordinator()
            await faults.take_away(scene, victim, kill=turn % 2 == 0)
        await scene.calm()
        await scene.finish(scale.events)
    return [
        figures.exactly("nodes_away", faults.away, turns, "nodes"),
        figures.exactly("nodes_away_in_flight", faults.in_flight, turns, "nodes"),
        figures.exactly("group_coordinators_away", faults.coordinators, turns, "nodes"),
        figures.some("partitions_led_by_them", faults.led, "partitions"),
        figures.some("leaders_moved", faults.moved, "partitions"),
        *await findings(scene.fleet.tally, await gather(installation), (), broker_away=True),
        *await settle(bed.attended),
    ]
