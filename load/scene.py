"""One fault run: what it is given, its installation with traffic, workers, and the moments for a fault."""

from __future__ import annotations

import asyncio
import json
import random
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from load.head_signers import invite
from load.inputs.people import people_of
from load.inputs.publisher import Publisher
from load.inputs.task_traffic import TaskTraffic
from load.inputs.traffic import Traffic
from load.installations import approvers, task_policy
from load.installations.fleet import Fleet, RunFailed
from load.installations.installation import Mix, prepare, records_of
from load.installations.neutral_policy import MOST_HELD
from load.recomputation.quarantine_recount import ENTERED, LEAVING
from sluice.adapters.kafka.kafka_acls import set_access
from sluice.broker.local import LocalBroker
from sluice.client.kafka_connection import build_client_arguments
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.access import list_access
from sluice_topics.catalog import DESTINATION_USES, QUARANTINE, SOURCE_FEEDBACK
from sluice_topics.layout import TopicLayout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from load.head_signers import Attendants
    from load.inputs.people import People
    from load.inputs.publisher import Pace
    from load.installations.installation import RunScale, TestInstallation
    from load.installations.worker_process import WorkerProcess
    from sluice.broker.handle import Broker
    from sluice.broker.secured import BrokerSecurity
    from sluice.client.kafka_connection import KafkaCluster
    from sluice_topics.access import Role

SLOW = 0.1


@dataclass(frozen=True, slots=True)
class Bed:
    """`salt` makes names and contents unique on the broker, `seed` makes the run repeatable. `replication`:
    how many replicas the topics of its runs have. `attended`: whether heads are signed and persons erased
    meanwhile, and by whom in the runs so far."""

    broker: Broker
    folder: Path
    seed: int
    salt: str
    replication: int = 1
    attended: list[Attendants] | None = None

    async def installation(
        self, run: str, *, with_people: bool = True, broker_leaves: bool = False
    ) -> TestInstallation:
        """Topics of this run's own. `with_people`: agents whose actions are escalated act there too, and
        approvers answer; `broker_leaves`: the run takes its broker away for a while."""
        name = self.installation_name(run)
        folder = self.folder / run
        folder.mkdir(parents=True)
        installation = await prepare(self._cluster, folder, name, replication=self.replication)
        security = self._security
        if security is not None:
            installation = await _lower_rights(installation, self._cluster, security)
        installation.settings["SLUICE_MEMORY__MAX_QUARANTINE_SIZE"] = str(MOST_HELD)
        installation.settings.update(task_policy.write_settings(folder))
        await publish_policy(
            installation.cluster, installation.prefix, task_policy.records(installation.trust)
        )
        if self.attended is not None:
            rng = self.rng(f"{run}:attendants")
            self.attended.append(await invite(installation, rng, broker_leaves=broker_leaves))
            installation = replace(installation, attendants=self.attended[-1])
        if not with_people:
            return installation
        await publish_policy(installation.cluster, installation.prefix, approvers.records(installation.trust))
        return replace(installation, statements=approvers.WhatWasSaid())

    @property
    def _security(self) -> BrokerSecurity | None:
        """Of a broker where everyone must log in."""
        return self.broker.security if isinstance(self.broker, LocalBroker) else None

    @property
    def _cluster(self) -> KafkaCluster:
        """How the topics are made."""
        if isinstance(self.broker, LocalBroker):
            return self.broker.cluster
        return self.broker.bootstrap_servers

    def installation_name(self, run: str) -> str:
        """Begins the names of all topics of a run's site."""
        return f"faults-{run.replace('_', '-')}-{self.salt}"

    def rng(self, run: str) -> random.Random:
        """The run's randomness."""
        return random.Random(f"{self.seed}:{run}")

    def traffic(
        self, installation: TestInstallation, run: str, scale: RunScale, slow: float = SLOW
    ) -> Traffic:
        """Ordinary traffic of the run; `slow` is the share of actions and writes that ask the slow port."""
        mix = Mix(sessions=scale.sessions, slow=slow)
        names, reviewer = f"{run}-{self.salt}", installation.trust.reviewer
        traffic = Traffic(self.rng(f"{run}:traffic"), names, mix, reviewer, audience=installation.audience)
        traffic.tasks = self.make_tasks(installation, run, mix)
        return traffic

    def make_tasks(self, installation: TestInstallation, run: str, mix: Mix) -> TaskTraffic:
        """The part of a run's traffic whose agents act under mandates and limits."""
        rng, names = self.rng(f"{run}:tasks"), f"{run}-{self.salt}"
        return TaskTraffic(rng, names, mix, installation.trust, installation.audience, read_now_ms)


DRIVER = "load"
DRIVERS_ROLES: tuple[Role, ...] = ("agent", "approver", "store", "policy-owner", "auditor")
"""The user of a run itself, which publishes inputs and policy and reads everything back."""


async def _lower_rights(
    installation: TestInstallation, cluster: KafkaCluster, security: BrokerSecurity
) -> TestInstallation:
    """On a secured broker the workers log in with the rights of their role, and the run with those of the
    people and agents that it plays: no longer as the administrator who made the topics."""
    layout = TopicLayout(installation.prefix, installation.app_id, installation.partitions)
    await set_access(cluster, "User:worker", list_access("worker", layout))
    for role in DRIVERS_ROLES:
        await set_access(cluster, f"User:{DRIVER}", list_access(role, layout))
    port = int(installation.bootstrap_servers.rpartition(":")[2])
    installation.settings.update(security.write_settings(port, "worker"))
    return replace(installation, login=security.connect(port, DRIVER))


def read_now_ms() -> int:
    """The time of day in ms, which is about the broker's."""
    return time.time_ns() // 1_000_000


ANSWER_S = 8.0

Ends = dict[tuple[str, int], int]


async def read_committed(installation: TestInstallation) -> Ends | None:
    """First undecided offset by real topic and partition; None when the broker does not say."""
    admin = AIOKafkaAdminClient(**build_client_arguments(installation.cluster))
    try:
        async with asyncio.timeout(ANSWER_S):
            await admin.start()
            offsets = await admin.list_consumer_group_offsets(installation.app_id)
    except (KafkaError, TimeoutError, OSError):
        return None
    finally:
        await admin.close()
    return {(tp.topic, tp.partition): meta.offset for tp, meta in offsets.items()}


def count_behind(positions: Mapping[tuple[str, int], int], ends: Ends) -> int:
    """How many offsets lie between the positions and the ends."""
    return sum(max(0, end - max(0, positions.get(coordinates, 0))) for coordinates, end in ends.items())


async def is_settled(installation: TestInstallation) -> bool:
    """Nothing is held any more, and all that was told to the owners of sources and agents is decided."""
    schemas = [
        json.loads(record.value or b"null")["schema"] for record in await records_of(installation, QUARANTINE)
    ]
    if schemas.count(ENTERED) != sum(schema in LEAVING for schema in schemas):
        return False
    positions = await read_committed(installation)
    learnt = [
        record
        for topic in (SOURCE_FEEDBACK, DESTINATION_USES)
        for record in await records_of(installation, topic)
    ]
    return positions is not None and all(
        record.offset < positions.get((record.topic, record.partition), 0) for record in learnt
    )


SLOW_S = 0.3
STALL_S = 75.0
LOOK_S = 0.3
BUSY_LOOK_S = 0.005


class Scene:
    """Made by `open_scene`."""

    def __init__(
        self,
        installation: TestInstallation,
        fleet: Fleet,
        publisher: Publisher,
        watching: list[asyncio.Task[None]],
    ) -> None:
        self._watching = watching
        self.people: People | None = None
        self.installation = installation
        self.fleet = fleet
        self.publisher = publisher

    async def calm(self) -> None:
        """Return when all partitions are owned and everything placed before that moment is decided.

        Between two faults this is the progress that keeps an innocent input from being in flight at three.
        """
        await self.wait_until(self._all_owned, "every partition is owned")
        await wait_until_decided(self.installation, self.publisher.ends, self.fleet, self.check)

    async def busy(self, slot: int) -> WorkerProcess:
        """Return when the slot's worker waits for a slow call."""
        await self.wait_until(lambda: self._waits(slot), f"worker {slot} has work in flight", BUSY_LOOK_S)
        return self.fleet.workers[slot]

    async def wait_until(self, holds: Callable[[], bool], what: str, look_s: float = LOOK_S) -> None:
        """Wait for something. Raises RunFailed after `STALL_S`, or when a worker ended as none should."""
        end = time.monotonic() + STALL_S
        while not holds():
            self.check()
            if time.monotonic() > end:
                await raise_stalled(self.fleet, f"waited {STALL_S:.0f} s in vain until {what}")
            await asyncio.sleep(look_s)

    def check(self) -> None:
        """Raise what ended the publisher or the supervisor; RunFailed when a worker ended as none should."""
        self.fleet.check()
        self.publisher.check()
        for task in self._watching:
            if task.done():
                task.result()

    def count_in_flight(self) -> int:
        """Slow calls that the workers wait for."""
        return sum(worker.count_waiting() for worker in self.fleet.workers.values())

    async def finish(self, at_least: int) -> None:
        """Publish the rest, wait until all is decided and nothing is held any more, stop the workers."""
        if (attendants := self.installation.attendants) is not None:
            await self.wait_until(attendants.settled.is_set, "persons are erased")
        await self.publisher.finish(at_least)
        await wait_until_decided(self.installation, self.publisher.ends, self.fleet, self.check)
        if self.people is not None:
            await self.people.finish(self.check, STALL_S)
        await self._wait_until_settled()
        await self.wait_until(self._all_decide, "every worker decides for some partition")
        await self.fleet.close()
        self.fleet.check()

    def _all_owned(self) -> bool:
        return len(self.fleet.list_owned()) == self.installation.partitions

    def _all_decide(self) -> bool:
        """None is still starting, when it could not yet be asked to stop in good order."""
        return all(worker.partitions() for worker in self.fleet.workers.values())

    def _waits(self, slot: int) -> bool:
        worker = self.fleet.workers.get(slot)
        return worker is not None and bool(worker.partitions()) and worker.count_waiting() > 0

    async def _wait_until_settled(self) -> None:
        end = time.monotonic() + STALL_S
        while not await is_settled(self.installation):
            self.check()
            if time.monotonic() > end:
                await raise_stalled(
                    self.fleet, f"after {STALL_S:.0f} s memories are held, or feedback is not folded"
                )
            await asyncio.sleep(LOOK_S)


async def wait_until_decided(
    installation: TestInstallation, ends: Ends, fleet: Fleet, check: Callable[[], None]
) -> None:
    """Return when everything before these ends is decided. Raises RunFailed where nothing is for `STALL_S`,
    and what `check` raises."""
    due, left, since = dict(ends), None, time.monotonic()
    while True:
        check()
        positions = await read_committed(installation)
        now = left if positions is None else count_behind(positions, due)
        if now == 0:
            return
        if now != left:
            left, since = now, time.monotonic()
        if time.monotonic() > since + STALL_S:
            await raise_stalled(fleet, f"no progress for {STALL_S:.0f} s with {left} inputs undecided")
        await asyncio.sleep(LOOK_S)


async def raise_stalled(fleet: Fleet, how: str) -> NoReturn:
    """Raise RunFailed with what the workers wait for."""
    raise RunFailed(f"{how}\n{await asyncio.to_thread(fleet.where)}")


@asynccontextmanager
async def open_scene(
    installation: TestInstallation,
    traffic: Traffic,
    pace: Pace,
    workers: int,
    slow_s: float = SLOW_S,
    *,
    tree: Path | None = None,
) -> AsyncIterator[Scene]:
    """Workers started and ready, then traffic. Everything is stopped at the end, whatever happens. `tree`: of
    whose code the workers are; None: of ours."""
    fleet, publisher = Fleet(installation, slow_s), Publisher(installation, traffic, pace)
    if tree is not None:
        fleet.trees.update(dict.fromkeys(range(workers), tree))
    watching = [asyncio.create_task(fleet.watch())]
    scene = Scene(installation, fleet, publisher, watching)
    try:
        for slot in range(workers):
            fleet.spawn(slot)
        await scene.wait_until(lambda: _ready(scene, workers), f"{workers} workers are ready")
        await publisher.start()
        if installation.attendants is not None:
            watching.append(asyncio.create_task(installation.attendants.attend(publisher)))
        if installation.statements is None:
            yield scene
        else:
            async with people_of(installation) as scene.people:
                yield scene
    finally:
        for task in watching:
            task.cancel()
        await asyncio.wait(watching)
        fleet.kill_all()
        await publisher.close()


def _ready(scene: Scene, workers: int) -> bool:
    deciding = [worker for worker in scene.fleet.workers.values() if worker.partitions()]
    return len(deciding) == workers and len(scene.fleet.list_owned()) == scene.installation.partitions
