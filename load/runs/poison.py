"""An input that kills whoever evaluates it: denied unread after exactly three crashes, neighbours as ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from load.inputs.publisher import Pace
from load.recounts.answers import account
from load.results import figures
from load.results.findings import bites, integrity
from load.results.reruns import executed_again
from load.runs.scene import open_scene
from load.sites.events import POISON
from load.sites.ledger_read import gather
from topics.catalog import ACTIONS, MEMORY_WRITES

if TYPE_CHECKING:
    from load.recounts.answers import Account
    from load.results.figures import Figure
    from load.runs.bed import Bed
    from load.runs.scene import Scene
    from load.sites.events import Event
    from load.sites.scale import Scale

CRASHES = 3
POISONS = 2
MOST_HELD = 2  # with the fewer inputs, or nothing would be evicted
DENIED = {ACTIONS: "BLOCK", MEMORY_WRITES: "reject"}
SLOW = 0.03
CALMER = 3  # fewer inputs: after the second crash all suspects of all partitions are tried one by one


async def poison(bed: Bed, scale: Scale) -> list[Figure]:
    """A poisonous action, then a poisonous memory write, in the middle of ordinary traffic."""
    name = "poison"
    site = await bed.site(name)
    site.settings["SLUICE_MEMORY__MAX_QUARANTINE_SIZE"] = str(MOST_HELD)
    traffic = bed.traffic(site, name, scale, slow=SLOW)
    async with open_scene(site, traffic, Pace(scale.rate / CALMER), 1) as scene:
        for crashes, event in enumerate((traffic.poison(), traffic.poisonous_write()), 1):
            await _take(scene, event, crashes * CRASHES)
        await scene.finish(scale.events // CALMER)
    evidence = await gather(site)
    found = account(evidence)
    return [
        figures.exactly("crashes", scene.fleet.tally.killed, POISONS * CRASHES, "workers"),
        figures.exactly("poison_denied_unread", _denied(found), POISONS, "inputs"),
        *integrity(evidence, found, denied_unread=POISONS),
        *bites(scene.fleet.tally, evidence, ("kills_in_flight",)),
        *await executed_again(evidence),
    ]


async def _take(scene: Scene, event: Event, crashes: int) -> None:
    """Publish a poisonous input and return when the workers have got over it, with so many crashes in all."""
    await scene.busy(0)
    await scene.publisher.insert(event)
    await scene.until(lambda: scene.fleet.tally.killed >= crashes, f"{crashes} crashes are seen")
    await scene.calm()


def _denied(found: Account) -> int:
    """Poisonous inputs with one unread denial and one dead letter."""
    return sum(
        one.kind == POISON
        and one.unread
        and len(one.letters) == 1
        and [each.get("outcome") or each.get("action") for each in one.decisions] == [DENIED[one.topic]]
        for one in found.inputs.values()
    )
