"""An input that kills whoever evaluates it: denied unread after exactly three crashes, neighbours as ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from load import figures
from load.answers import account
from load.findings import bites, integrity
from load.ledger_read import gather
from load.publisher import Pace
from load.reruns import executed_again
from load.scene import open_scene
from load.traffic import POISON

if TYPE_CHECKING:
    from load.answers import Account
    from load.bed import Bed
    from load.figures import Figure
    from load.scale import Scale

CRASHES = 3
SLOW = 0.03
CALMER = 3  # fewer inputs: after the second crash all suspects of all partitions are tried one by one


async def poison(bed: Bed, scale: Scale) -> list[Figure]:
    """One poisonous action in the middle of ordinary traffic."""
    name = "poison"
    site = await bed.site(name)
    traffic = bed.traffic(name, scale, slow=SLOW)
    async with open_scene(site, traffic, Pace(scale.rate / CALMER), 1) as scene:
        await scene.busy(0)
        await scene.publisher.insert(traffic.poison())
        await scene.until(lambda: scene.fleet.tally.killed >= CRASHES, f"{CRASHES} crashes are seen")
        await scene.calm()
        await scene.finish(scale.events // CALMER)
    evidence = await gather(site)
    found = account(evidence)
    return [
        figures.exactly("crashes", scene.fleet.tally.killed, CRASHES, "workers"),
        figures.exactly("poison_denied_unread", _denied(found), 1, "inputs"),
        *integrity(evidence, found, denied_unread=1),
        *bites(scene.fleet.tally, evidence, ("kills_in_flight",)),
        *await executed_again(evidence),
    ]


def _denied(found: Account) -> int:
    """Poisonous inputs with one unread denial and one dead letter."""
    return sum(
        one.kind == POISON
        and one.unread
        and len(one.letters) == 1
        and [each["outcome"] for each in one.decisions] == ["BLOCK"]
        for one in found.inputs.values()
    )
