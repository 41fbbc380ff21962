"""The policy changes all the time, partly by records that must be refused, while workers are killed."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from load.inputs.policy_publisher import changing
from load.inputs.publisher import Pace
from load.recounts.answers import account
from load.results import figures
from load.results.findings import bites, integrity
from load.results.policy_findings import LETTERS_PARTITION, policy_figures
from load.results.reruns import executed_again
from load.runs.kills import kill_again_and_again
from load.runs.scene import STALL_S, open_scene
from load.sites.fleet import RunFailed
from load.sites.ledger_read import gather, policy_refusals
from load.sites.policy import TENANT
from load.sites.quality_policy import standing

if TYPE_CHECKING:
    from load.inputs.policy_publisher import PolicyPublisher
    from load.results.figures import Figure
    from load.runs.bed import Bed
    from load.runs.scene import Scene
    from load.sites.scale import Scale
    from load.sites.site import Site

WORKERS = 2
REFRESH_S = 0.1
PAUSE_S = 0.1
LOOK_S = 0.5


async def reload(bed: Bed, scale: Scale) -> list[Figure]:
    """Two workers; it is the owner of partition 0, who enters the refusals, that is killed each time."""
    name = "reload"
    site, rng = await bed.site(name), bed.rng(name)
    site.settings["SLUICE_POLICY__REFRESH_S"] = str(REFRESH_S)
    async with (
        open_scene(site, bed.traffic(site, name, scale), Pace(scale.rate), WORKERS) as scene,
        changing(site, bed.rng(f"{name}:policy"), PAUSE_S) as changes,
    ):
        kills = await kill_again_and_again(scene, rng, scale, lambda: _keeper(scene))
        await scene.publisher.finish(scale.events)
        await changes.finish()
        await _all_entered(site, scene, changes)
        await scene.finish(scale.events)
    tally, evidence = scene.fleet.tally, await gather(site)
    found = account(evidence)
    return [
        figures.at_least("kills", tally.killed, kills, "workers"),
        figures.some("moves_of_partition_0", tally.moves[LETTERS_PARTITION], "moves"),
        *policy_figures(found, changes.placed, standing(site.trust, TENANT, site.began_ms)),
        *integrity(evidence, found, policy_refused=changes.due),
        *bites(tally, evidence, ("kills_in_flight", "rolled_back", "moved")),
        *await executed_again(evidence),
    ]


def _keeper(scene: Scene) -> int:
    """The slot of the worker that decides for partition 0; called when every partition is owned."""
    owners = (slot for slot, one in scene.fleet.workers.items() if LETTERS_PARTITION in one.partitions())
    return next(owners, 0)


async def _all_entered(site: Site, scene: Scene, changes: PolicyPublisher) -> None:
    end = time.monotonic() + STALL_S
    while (entered := await policy_refusals(site)) < changes.due:
        scene.check()
        if time.monotonic() > end:
            raise RunFailed(f"of {changes.due} refused policy records {entered} are in the ledger")
        await asyncio.sleep(LOOK_S)
