"""`python -m load.attacks [NAME…] [--short]`: print what was tried; status 1 if anything got through."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from load.attacks.attack_list import ATTACKS

if TYPE_CHECKING:
    from load.attacks.attempt import Attack, Attempt, Extent


def main() -> int:
    """Run the chosen attacks; 0 when every guarantee held."""
    parser = argparse.ArgumentParser(prog="python -m load.attacks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: every attack")
    parser.add_argument("--short", action="store_true", help="fewer attempts of each, as in the tests")
    parser.add_argument("--all", action="store_true", help="list the attempts that were repelled as well")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - {attack.name for attack in ATTACKS}
    if unknown:
        names = ", ".join(attack.name for attack in ATTACKS)
        parser.error(f"no attack is called {', '.join(sorted(unknown))}: {names}")
    extent: Extent = "short" if chosen.short else "full"
    selected = [attack for attack in ATTACKS if not chosen.names or attack.name in chosen.names]
    broken = [attempt for attack in selected for attempt in _report(attack, extent, list_all=chosen.all)]
    through = f"{len(broken)} attempts" if broken else "nothing"
    print(f"{len(selected)} attacks: {through} got through")
    return 1 if broken else 0


def _report(attack: Attack, extent: Extent, *, list_all: bool) -> list[Attempt]:
    attempts = list(attack.run(extent))
    broken = [attempt for attempt in attempts if not attempt.held and not attempt.known_limit]
    controls = sum(attempt.harmless for attempt in attempts)
    print(f"{attack.point}. {attack.name}: {attack.aim}")
    print(f"   {len(attempts) - controls} attempts, {controls} controls, {len(broken)} not as they must be")
    for attempt in attempts:
        if list_all or not attempt.held:
            print(f"   {_word(attempt)}: {attempt.tried}: {attempt.answer}")
    return broken


def _word(attempt: Attempt) -> str:
    if attempt.held:
        return "held"
    return "known limit" if attempt.known_limit else "GOT THROUGH"


if __name__ == "__main__":
    sys.exit(main())
