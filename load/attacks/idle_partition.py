"""Attack: a worker that slept until its producer id expired writes what follows from an old state.

The broker forgets a transactional id that made no transaction for long, and whom it fenced with it. So a
worker that was suspended meanwhile could ask for a new id as any worker can, fence the one that has taken its
partitions over, and go on from what it remembers. Here are real workers on a broker that forgets producer ids
after seconds instead of 7 days, under the traffic of the fault runs; everything is recounted at the end.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import uuid
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aiokafka import AIOKafkaConsumer

from load.attacks.attempt import Attempt
from load.inputs.publisher import Pace
from load.installations.installation import SHORT, gather
from load.recomputation import figures
from load.recomputation.run_findings import findings
from load.scene import LOOK_S, Bed, open_scene
from sluice.adapters.kafka.kafka_read import list_partitions
from sluice.broker import locate
from sluice.broker.local import Layout
from sluice.stream.process import EXIT_FAULT, EXIT_FENCED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from load.attacks.attempt import Extent
    from load.installations.worker_process import WorkerProcess
    from load.scene import Scene
    from sluice.broker.handle import Broker

TRANSACTIONS = "__transaction_state"
POLL_MS = 100


def forgetful(after_ms: int) -> Mapping[str, str]:
    """Properties of a broker that forgets a transactional id `after_ms` after its last transaction."""
    return {
        "transactional.id.expiration.ms": str(after_ms),
        "transaction.remove.expired.transaction.cleanup.interval.ms": "250",
    }


async def forgotten(bootstrap_servers: str, names: Collection[str], patience_s: float) -> None:
    """Return when the broker has removed all of these transactional ids. Raises TimeoutError, KafkaError."""
    parts = await list_partitions(bootstrap_servers, [TRANSACTIONS])
    remembered: dict[str, bool] = dict.fromkeys(names, True)
    async with (
        asyncio.timeout(patience_s),
        AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, enable_auto_commit=False) as consumer,
    ):
        consumer.assign(parts)
        await consumer.seek_to_beginning(*parts)
        caught_up = False
        while not caught_up or any(remembered.values()):
            for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                for record in records:
                    name = _name(record.key)
                    if name in remembered:
                        remembered[name] = record.value is not None
            ends = await consumer.end_offsets(parts)
            caught_up = all([await consumer.position(part) >= end for part, end in ends.items()])


def _name(key: bytes) -> str:
    """The key is a version and a string, of two bytes and two bytes of length."""
    return key[4:].decode()


NAME = "idle_partition"
FORGET_MS = 6000
"""More than a worker takes from its fence to its first transaction, and more than its session's time-out."""
PATIENCE_S = 60.0
FLOWS_S = 1.5
SEED = 8
HAPPENED = ("fenced", "moved")
"""What the sleeps must have brought about. How many memories are evicted, or expire instead, depends on how
long the workers slept, so it is not asked for."""
WORKERS = 2
ROUNDS: Mapping[Extent, int] = {"short": 1, "full": 4}


@dataclass(frozen=True, slots=True)
class Sleep:
    """When the broker forgets producer ids: before the worker is suspended, while it is. `met` says whether
    the new owner has work when the sleeper goes on; without, its own ids have expired as well."""

    tried: str
    before: bool
    meanwhile: bool
    met: bool


SLEEPS = (
    Sleep("a worker sleeps with expired ids, another takes over and works, it goes on", True, False, True),
    Sleep("a worker's ids expire while it sleeps, another works on new ones, it goes on", False, True, True),
    Sleep("a worker sleeps, the ids of the one that took over expire as well, it goes on", True, True, False),
)


def run(extent: Extent) -> Iterator[Attempt]:
    """Takes about a minute a round."""
    with _forgetful_broker() as (broker, folder):
        yield from asyncio.run(_attack(Bed(broker, folder, SEED, uuid.uuid4().hex[:8]), ROUNDS[extent]))


@contextmanager
def _forgetful_broker() -> Iterator[tuple[Broker, Path]]:
    folder = Path(tempfile.mkdtemp(prefix="sluice-idle-"))
    try:
        layout = Layout(folder / "kafka", folder / "kafka" / "data", locate.JARS)
        broker = locate.start_broker(layout, more=forgetful(FORGET_MS))
        try:
            yield broker, folder
        finally:
            broker.close()
    finally:
        shutil.rmtree(folder)


async def _attack(bed: Bed, rounds: int) -> list[Attempt]:
    installation = await bed.installation(NAME, with_people=False)
    attempts = []
    async with open_scene(
        installation, bed.traffic(installation, NAME, SHORT), Pace(SHORT.rate, plenty=SHORT.plenty), WORKERS
    ) as scene:
        for turn in range(rounds):
            attempts.append(await _idle(scene))
            attempts += [await _sleep(scene, turn % WORKERS, sleep) for sleep in SLEEPS]
        await scene.finish(SHORT.events)
    tally = scene.fleet.tally
    ended = figures.none("fault_stops", tally.exits[EXIT_FAULT], "workers")
    run_figures = [ended, *await findings(tally, await gather(installation), HAPPENED)]
    broken = [
        figure
        for figure in run_figures
        if not figure.holds and (figure.goal != figures.SOME or figure.name in HAPPENED)
    ]
    answer = figures.table(broken) if broken else f"{len(run_figures)} figures of the recount hold"
    return [*attempts, Attempt("after all of them, every input and session is recounted", not broken, answer)]


async def _idle(scene: Scene) -> Attempt:
    """The control: workers whose ids have expired decide what comes next."""
    before, ended = dict(scene.fleet.workers), Counter(scene.fleet.tally.exits)
    await _forget(scene)
    await _flow(scene)
    answer = _state(scene.fleet.workers.values())
    return Attempt(
        "every partition is idle until its id expires, then inputs come",
        scene.fleet.workers == before and scene.fleet.tally.exits == ended,
        answer,
        harmless=True,
    )


async def _sleep(scene: Scene, slot: int, sleep: Sleep) -> Attempt:
    await scene.wait_until(lambda: _all_decide(scene), "every worker decides for some partition")
    await (_forget if sleep.before else _quiet)(scene)
    sleeper, other = scene.fleet.stop(slot), scene.fleet.workers[1 - slot]
    await scene.wait_until(lambda: scene.fleet.list_owned() == other.partitions(), "the sleeper is suspended")
    await scene.wait_until(
        lambda: len(other.partitions()) == scene.installation.partitions, "another has taken over", LOOK_S
    )
    if sleep.meanwhile:
        await _forget(scene)
    if sleep.met:
        await _flow(scene)
        scene.publisher.resume()
    sleeper.send(signal.SIGCONT)
    await scene.wait_until(lambda: sleeper.exit_code is not None, "the sleeper has ended")
    held = sleeper.exit_code == EXIT_FENCED and other.exit_code is None
    answer = _state([sleeper, other])
    await _flow(scene)
    return Attempt(sleep.tried, held and other.exit_code is None, answer)


def _all_decide(scene: Scene) -> bool:
    return all(worker.partitions() and worker.exit_code is None for worker in scene.fleet.workers.values())


async def _quiet(scene: Scene) -> None:
    """All that was published is decided, and nothing comes."""
    await scene.publisher.pause()
    await scene.calm()


async def _forget(scene: Scene) -> None:
    await _quiet(scene)
    ids = [f"{scene.installation.app_id}-{number}" for number in range(scene.installation.partitions)]
    await forgotten(scene.installation.bootstrap_servers, ids, PATIENCE_S)


async def _flow(scene: Scene) -> None:
    """Publish for a while; return when it is decided."""
    scene.publisher.resume()
    await asyncio.sleep(FLOWS_S)
    await _quiet(scene)


def _state(workers: Iterable[WorkerProcess]) -> str:
    states = ("works" if worker.exit_code is None else f"ended with {worker.exit_code}" for worker in workers)
    return ", ".join(states)
