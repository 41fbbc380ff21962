"""A worker is added and removed under load, again and again: partitions go there and come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from load.inputs.publisher import Pace
from load.results.findings import findings
from load.runs.scene import open_scene
from load.sites.ledger_read import gather

if TYPE_CHECKING:
    from load.results.figures import Figure
    from load.runs.bed import Bed
    from load.sites.scale import Scale

ADDED = 1


async def scaling(bed: Bed, scale: Scale) -> list[Figure]:
    """No fault at all: nobody may be fenced or crash, and partitions must move."""
    name = "scaling"
    site = await bed.site(name)
    async with open_scene(site, bed.traffic(site, name, scale), Pace(scale.rate), 1) as scene:
        for _ in range(scale.changes):
            await scene.calm()
            await scene.busy(0)
            scene.fleet.spawn(ADDED)
            await scene.until(lambda: bool(scene.fleet.workers[ADDED].partitions()), "the new worker decides")
            await scene.calm()
            await scene.busy(ADDED)
            await scene.fleet.remove(ADDED)
        await scene.calm()
        await scene.finish(scale.events)
    return await findings(scene.fleet.tally, await gather(site), ("moved",))
