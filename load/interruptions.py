"""Workers and the broker are interrupted under load, and everything goes on where it was.

Kills: kill -9 of one worker, or of either of two, also between produce and commit. Outages: the broker is
stopped, and killed, for some seconds, and started again on the same data. Scaling: a worker is added and
removed, again and again: partitions go there and come back. Zombies: a worker is suspended past its session
time-out, its partitions are taken over, then it goes on.
"""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

from load.inputs.people import people_of
from load.inputs.publisher import Pace
from load.installations.fleet import Fleet, RunFailed
from load.installations.installation import PARTITIONS, gather
from load.recomputation import figures
from load.recomputation.approval_recount import approval_figures
from load.recomputation.reruns import execute_again
from load.recomputation.run_findings import bites, chain_errors, findings
from load.scene import LOOK_S, SLOW_S, STALL_S, open_scene, wait_until_decided

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from load.installations.installation import RunScale
    from load.installations.worker_process import WorkerProcess
    from load.recomputation.figures import RunFigure
    from load.scene import Bed, Scene

WANDER_S = 0.8  # a kill comes at a random moment within this time


async def kill_one(bed: Bed, scale: RunScale) -> list[RunFigure]:
    """One worker, killed again and again."""
    return await _run(bed, scale, "kill_one", 1)


async def kill_two(bed: Bed, scale: RunScale) -> list[RunFigure]:
    """Two workers, one of them killed each time."""
    return await _run(bed, scale, "kill_two", 2)


async def _run(bed: Bed, scale: RunScale, name: str, workers: int) -> list[RunFigure]:
    installation, rng = await bed.installation(name), bed.rng(name)
    async with open_scene(
        installation, bed.traffic(installation, name, scale), Pace(scale.rate, plenty=scale.plenty), workers
    ) as scene:
        kills = await kill_again_and_again(scene, rng, scale, lambda: rng.randrange(workers))
        await scene.finish(scale.events)
    tally = scene.fleet.tally
    required = ("kills_in_flight", "rolled_back", "moved")
    run_figures = await findings(tally, await gather(installation), required)
    return [figures.require_at_least("kills", tally.killed, kills, "workers"), *run_figures]


async def kill_again_and_again(
    scene: Scene, rng: random.Random, scale: RunScale, victim: Callable[[], int]
) -> int:
    """All the kills of the scale in some order, of the slots that `victim` names; how many there were."""
    faults = [kill_busy] * scale.kills + [kill_mid_commit] * scale.mid_commit_kills
    rng.shuffle(faults)
    for fault in faults:
        await scene.calm()
        await asyncio.sleep(rng.uniform(0, WANDER_S))
        await fault(scene, victim())
    await scene.calm()
    return len(faults)


async def kill_busy(scene: Scene, slot: int) -> None:
    """Kill a worker that has work in flight, and wait until it is dead."""
    worker = await scene.busy(slot)
    scene.fleet.kill(slot)
    await scene.wait_until(lambda: worker.exit_code is not None, "the worker is dead")


async def kill_mid_commit(scene: Scene, slot: int) -> None:
    """Have a worker killed between produce and commit, and wait until it is dead."""
    await scene.busy(slot)
    worker = scene.fleet.set_trap(slot, signal.SIGKILL)
    await scene.wait_until(lambda: worker.exit_code is not None, "the trap has killed the worker")


WORKERS = 2


async def outages(bed: Bed, scale: RunScale) -> list[RunFigure]:
    """Stops and kills in turn. The broker must be one that this run may end."""
    name = "outages"
    installation = await bed.installation(name, broker_leaves=True)
    bitten = 0
    async with open_scene(
        installation, bed.traffic(installation, name, scale), Pace(scale.rate, plenty=scale.plenty), WORKERS
    ) as scene:
        for end in [bed.broker.stop, bed.broker.kill] * scale.outages:
            await scene.calm()
            bitten += await _outage(scene, end, bed.broker.start, scale.outage_s)
        await scene.calm()
        await scene.finish(scale.events)
    return [
        figures.exactly("outages_in_flight", bitten, 2 * scale.outages, "outages"),
        *await findings(scene.fleet.tally, await gather(installation), (), broker_away=True),
    ]


async def _outage(scene: Scene, end: Callable[[], None], start: Callable[[], None], seconds: float) -> bool:
    """Whether inputs were in flight when the broker went away."""
    await scene.busy(0)
    in_flight = scene.count_in_flight() > 0
    await asyncio.to_thread(end)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(start)
    return in_flight


ADDED = 1


async def scaling(bed: Bed, scale: RunScale) -> list[RunFigure]:
    """No fault at all: nobody may be fenced or crash, and partitions must move."""
    name = "scaling"
    installation = await bed.installation(name)
    async with open_scene(
        installation, bed.traffic(installation, name, scale), Pace(scale.rate, plenty=scale.plenty), 1
    ) as scene:
        for _ in range(scale.changes):
            await scene.calm()
            await scene.busy(0)
            scene.fleet.spawn(ADDED)
            await scene.wait_until(
                lambda: bool(scene.fleet.workers[ADDED].partitions()), "the new worker decides"
            )
            await scene.calm()
            await scene.busy(ADDED)
            await scene.fleet.remove(ADDED)
        await scene.calm()
        await scene.finish(scale.events)
    return await findings(scene.fleet.tally, await gather(installation), ("moved",))


LINGERS_S = 1.0  # both the zombie and the new owner have work for this time


async def zombies(bed: Bed, scale: RunScale) -> list[RunFigure]:
    """Suspended anywhere, and between produce and commit; the other worker must take over each time."""
    name = "zombies"
    installation, rng = await bed.installation(name), bed.rng(name)
    async with open_scene(
        installation, bed.traffic(installation, name, scale), Pace(scale.rate, plenty=scale.plenty), WORKERS
    ) as scene:
        faults = [_stop] * scale.stops + [_stop_mid_commit] * scale.mid_commit_stops
        rng.shuffle(faults)
        for fault in faults:
            await scene.calm()
            await _revive(scene, await fault(scene, rng.randrange(WORKERS)))
        await scene.calm()
        await scene.finish(scale.events)
    required = ("kills_in_flight", "rolled_back", "fenced", "moved")
    stopped = figures.require_at_least("zombies", scene.fleet.tally.suspended, len(faults), "workers")
    return [stopped, *await findings(scene.fleet.tally, await gather(installation), required)]


async def _stop(scene: Scene, slot: int) -> WorkerProcess:
    await scene.busy(slot)
    return scene.fleet.stop(slot)


async def _stop_mid_commit(scene: Scene, slot: int) -> WorkerProcess:
    await scene.busy(slot)
    return scene.fleet.set_trap(slot, signal.SIGSTOP)


async def _revive(scene: Scene, zombie: WorkerProcess) -> None:
    await scene.wait_until(zombie.is_stopped, "the worker is suspended")
    lost = zombie.partitions()
    await scene.wait_until(
        lambda: lost <= scene.fleet.list_owned(), "the other worker has taken over", LOOK_S
    )
    await asyncio.sleep(LINGERS_S)
    zombie.send(signal.SIGCONT)
    await scene.wait_until(
        lambda: zombie.exit_code is not None or zombie.partitions() != lost, "the zombie knows that it is one"
    )


LEAST_SHARE = 36


async def approvals(bed: Bed, scale: RunScale) -> list[RunFigure]:
    """Half of the actions are escalated, and answered at once, twice, forged, swapped, too late or never.

    Each fault comes while what was just proposed is decided. What was there before it is decided before the
    next one: else an answer that is in flight at three of them in a row would be denied unread, as it must.
    """
    installation, rng = await bed.installation("approvals"), bed.rng("approvals")
    fleet = Fleet(installation, SLOW_S)
    watching = asyncio.create_task(fleet.watch())
    try:
        for slot in range(WORKERS):
            fleet.spawn(slot)
        await wait_until(fleet, lambda: both_decide(fleet), "every partition is owned")
        async with people_of(installation, proposing=False) as people:
            for fault in (*[kill_idle] * scale.kills, *[suspend] * scale.stops, None):
                await people.propose(max(LEAST_SHARE, scale.events // 100))
                if fault is not None:
                    await wait_until(fleet, lambda: both_decide(fleet), "both workers decide")
                    await fault(fleet, rng.randrange(WORKERS))
                    await wait_until_decided(installation, people.ends, fleet, fleet.check)
            await people.finish(fleet.check, STALL_S)
        await wait_until(fleet, lambda: both_decide(fleet), "none is still starting")
        await fleet.close()
        fleet.check()
    finally:
        watching.cancel()
        fleet.kill_all()
    evidence = await gather(installation)
    return [
        *approval_figures(evidence),
        chain_errors(evidence),
        *bites(fleet.tally, evidence, ("moved",)),
        *await execute_again(evidence),
    ]


def both_decide(fleet: Fleet) -> bool:
    """Whether both workers decide, and every partition has its owner."""
    deciding = [
        worker for worker in fleet.workers.values() if worker.exit_code is None and worker.partitions()
    ]
    return len(deciding) == WORKERS and len(fleet.list_owned()) == PARTITIONS


async def kill_idle(fleet: Fleet, slot: int) -> None:
    """Kill a worker, and wait until its successor decides."""
    worker = fleet.workers[slot]
    fleet.kill(slot)
    await wait_until(fleet, lambda: worker.exit_code is not None, "the worker is dead")
    await wait_until(fleet, lambda: bool(fleet.workers[slot].partitions()), "its successor decides")


async def suspend(fleet: Fleet, slot: int) -> None:
    """Suspend a worker until the other has taken over, then let it go on."""
    worker = fleet.stop(slot)
    await wait_until(fleet, worker.is_stopped, "the worker is suspended")
    lost = worker.partitions()
    await wait_until(fleet, lambda: lost <= fleet.list_owned(), "the other has taken over")
    worker.send(signal.SIGCONT)
    await wait_until(
        fleet, lambda: worker.exit_code is not None or worker.partitions() != lost, "it knows that it is one"
    )


async def wait_until(fleet: Fleet, holds: Callable[[], bool], what: str) -> None:
    """Wait for something. Raises RunFailed after `STALL_S`, or when a worker ended as none should."""
    end = time.monotonic() + STALL_S
    while not holds():
        fleet.check()
        if time.monotonic() > end:
            where = await asyncio.to_thread(fleet.where)
            raise RunFailed(f"waited {STALL_S:.0f} s in vain until {what}\n{where}")
        await asyncio.sleep(LOOK_S)
