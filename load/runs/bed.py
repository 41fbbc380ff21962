"""What a run is given: a broker, a folder, and the seed from which everything random in it is drawn."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from load.inputs.traffic import Mix, Traffic
from load.sites.policy import MOST_HELD
from load.sites.site import prepare

if TYPE_CHECKING:
    from pathlib import Path

    from app.broker.handle import Broker
    from load.sites.scale import Scale
    from load.sites.site import Site

SLOW = 0.1


@dataclass(frozen=True, slots=True)
class Bed:
    """`salt` makes names and contents unique on the broker, `seed` makes the run repeatable."""

    broker: Broker
    folder: Path
    seed: int
    salt: str

    async def site(self, run: str) -> Site:
        """Topics of this run's own."""
        name = f"faults-{run.replace('_', '-')}-{self.salt}"
        folder = self.folder / run
        folder.mkdir(parents=True)
        site = await prepare(self.broker.bootstrap_servers, folder, name)
        site.settings["SLUICE_MEMORY__MAX_QUARANTINE_SIZE"] = str(MOST_HELD)
        return site

    def rng(self, run: str) -> random.Random:
        """The run's randomness."""
        return random.Random(f"{self.seed}:{run}")

    def traffic(self, site: Site, run: str, scale: Scale, slow: float = SLOW) -> Traffic:
        """Ordinary traffic of the run; `slow` is the share of actions and writes that ask the slow port."""
        mix = Mix(sessions=scale.sessions, slow=slow)
        return Traffic(self.rng(f"{run}:traffic"), f"{run}-{self.salt}", mix, site.trust.reviewer)
