"""kill -9 of one worker, or of either of two, under load; also between produce and commit."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from load.inputs.publisher import Pace
from load.results import figures
from load.results.findings import findings
from load.runs.scene import open_scene
from load.sites.ledger_read import gather

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from load.results.figures import Figure
    from load.runs.bed import Bed
    from load.runs.scene import Scene
    from load.sites.scale import Scale

WANDER_S = 0.8  # a kill comes at a random moment within this time


async def kill_one(bed: Bed, scale: Scale) -> list[Figure]:
    """One worker, killed again and again."""
    return await _run(bed, scale, "kill_one", 1)


async def kill_two(bed: Bed, scale: Scale) -> list[Figure]:
    """Two workers, one of them killed each time."""
    return await _run(bed, scale, "kill_two", 2)


async def _run(bed: Bed, scale: Scale, name: str, workers: int) -> list[Figure]:
    site, rng = await bed.site(name), bed.rng(name)
    async with open_scene(site, bed.traffic(site, name, scale), Pace(scale.rate), workers) as scene:
        kills = await kill_again_and_again(scene, rng, scale, lambda: rng.randrange(workers))
        await scene.finish(scale.events)
    tally = scene.fleet.tally
    required = ("kills_in_flight", "rolled_back", "moved")
    found = await findings(tally, await gather(site), required)
    return [figures.at_least("kills", tally.killed, kills, "workers"), *found]


async def kill_again_and_again(
    scene: Scene, rng: random.Random, scale: Scale, victim: Callable[[], int]
) -> int:
    """All the kills of the scale in some order, of the slots that `victim` names; how many there were."""
    faults = [_kill] * scale.kills + [_kill_mid_commit] * scale.mid_commit_kills
    rng.shuffle(faults)
    for fault in faults:
        await scene.calm()
        await asyncio.sleep(rng.uniform(0, WANDER_S))
        await fault(scene, victim())
    await scene.calm()
    return len(faults)


async def _kill(scene: Scene, slot: int) -> None:
    worker = await scene.busy(slot)
    scene.fleet.kill(slot)
    await scene.until(lambda: worker.exit_code is not None, "the worker is dead")


async def _kill_mid_commit(scene: Scene, slot: int) -> None:
    await scene.busy(slot)
    worker = scene.fleet.set_trap(slot, signal.SIGKILL)
    await scene.until(lambda: worker.exit_code is not None, "the trap has killed the worker")
