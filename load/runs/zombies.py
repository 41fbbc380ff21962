"""Zombies: a worker is suspended past its session time-out, its partitions taken over, then it goes on."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from load.inputs.publisher import Pace
from load.results import figures
from load.results.findings import findings
from load.runs.scene import LOOK_S, open_scene
from load.sites.ledger_read import gather

if TYPE_CHECKING:
    from load.results.figures import Figure
    from load.runs.bed import Bed
    from load.runs.scene import Scene
    from load.sites.process import WorkerProcess
    from load.sites.scale import Scale

WORKERS = 2
LINGERS_S = 1.0  # both the zombie and the new owner have work for this time


async def zombies(bed: Bed, scale: Scale) -> list[Figure]:
    """Suspended anywhere, and between produce and commit; the other worker must take over each time."""
    name = "zombies"
    site, rng = await bed.site(name), bed.rng(name)
    async with open_scene(site, bed.traffic(site, name, scale), Pace(scale.rate), WORKERS) as scene:
        faults = [_stop] * scale.stops + [_stop_mid_commit] * scale.mid_commit_stops
        rng.shuffle(faults)
        for fault in faults:
            await scene.calm()
            await _revive(scene, await fault(scene, rng.randrange(WORKERS)))
        await scene.calm()
        await scene.finish(scale.events)
    required = ("kills_in_flight", "rolled_back", "fenced", "moved")
    stopped = figures.at_least("zombies", scene.fleet.tally.suspended, len(faults), "workers")
    return [stopped, *await findings(scene.fleet.tally, await gather(site), required)]


async def _stop(scene: Scene, slot: int) -> WorkerProcess:
    await scene.busy(slot)
    return scene.fleet.stop(slot)


async def _stop_mid_commit(scene: Scene, slot: int) -> WorkerProcess:
    await scene.busy(slot)
    return scene.fleet.set_trap(slot, signal.SIGSTOP)


async def _revive(scene: Scene, zombie: WorkerProcess) -> None:
    await scene.until(zombie.stopped, "the worker is suspended")
    lost = zombie.partitions()
    await scene.until(lambda: lost <= scene.fleet.owned(), "the other worker has taken over", LOOK_S)
    await asyncio.sleep(LINGERS_S)
    zombie.send(signal.SIGCONT)
    await scene.until(
        lambda: zombie.exit_code is not None or zombie.partitions() != lost, "the zombie knows that it is one"
    )
