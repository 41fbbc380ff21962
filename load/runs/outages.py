"""The broker is stopped, and killed, for some seconds under load, and started again on the same data."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from load.inputs.publisher import Pace
from load.results import figures
from load.results.findings import findings
from load.runs.scene import open_scene
from load.sites.ledger_read import gather

if TYPE_CHECKING:
    from collections.abc import Callable

    from load.results.figures import Figure
    from load.runs.bed import Bed
    from load.runs.scene import Scene
    from load.sites.scale import Scale

WORKERS = 2


async def outages(bed: Bed, scale: Scale) -> list[Figure]:
    """Stops and kills in turn. The broker must be one that this run may end."""
    name = "outages"
    site = await bed.site(name)
    bitten = 0
    async with open_scene(site, bed.traffic(site, name, scale), Pace(scale.rate), WORKERS) as scene:
        for end in [bed.broker.stop, bed.broker.kill] * scale.outages:
            await scene.calm()
            bitten += await _outage(scene, end, bed.broker.start, scale.outage_s)
        await scene.calm()
        await scene.finish(scale.events)
    return [
        figures.exactly("outages_in_flight", bitten, 2 * scale.outages, "outages"),
        *await findings(scene.fleet.tally, await gather(site), (), broker_away=True),
    ]


async def _outage(scene: Scene, end: Callable[[], None], start: Callable[[], None], seconds: float) -> bool:
    """Whether inputs were in flight when the broker went away."""
    await scene.busy(0)
    in_flight = scene.in_flight() > 0
    await asyncio.to_thread(end)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(start)
    return in_flight
