"""`python -m load.mutation`: how many small faults in ten files of the core the unit tests find.

Each mutant changes one place in a function: a comparison, a condition, a number, a statement. The tests that
enter the function run against it, the quickest first, until one fails. Nothing is written to the tree: the
changed function lives in a forked process alone. A mutant that survives is tried once more in a process that
imports the changed module anew, since a test may keep what the unchanged code gave.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from load.mutation.mutants import places
from load.mutation.trials import (
    KILLED,
    SURVIVED,
    affordable,
    find_entering,
    get_ready,
    record_reach,
    run_in_child,
    try_all,
    try_anew,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from load.mutation.mutants import Mutant
    from load.mutation.trials import Reach

FILES = tuple(
    f"app/sluice/core/{name}.py"
    for name in (
        "actions/pipeline",
        "actions/verdict",
        "actions/outcomes",
        "actions/consequence",
        "state/reservations",
        "state/session",
        "foundation/chain",
        "trust/reduction",
        "memory/gate",
        "retrieval/judgement",
    )
)


def _choose(rng: random.Random, count: int) -> list[Mutant]:
    """As many of each file as there are, or its share of `count`."""
    share = -(-count // len(FILES))
    mutants = []
    for file in FILES:
        candidates = places(file)
        mutants += sorted(rng.sample(candidates, min(share, len(candidates))), key=lambda mutant: mutant.at)
    return mutants[:count]


def _describe(mutant: Mutant) -> str:
    return f"{mutant.file}:{mutant.line} {mutant.function}: {mutant.was}  →  {mutant.now}"


def main() -> None:
    """Print killed and survived by file, then the survivors. Exit status 1 when the tests fail unchanged."""
    parser = argparse.ArgumentParser(prog="python -m load.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--reach", type=Path, help="which test enters what, kept from one run for the next")
    options = parser.parse_args()
    get_ready()
    mutants = _choose(random.Random(options.seed), options.mutants)
    with tempfile.TemporaryDirectory() as folder:
        reach_path, result = options.reach or Path(folder) / "reach.json", Path(folder) / "result.json"
        if not reach_path.exists() and run_in_child(lambda: record_reach(FILES, reach_path)) != 0:
            raise SystemExit("the tests fail on the unchanged code")
        reach: Reach = json.loads(reach_path.read_bytes())
        run_in_child(lambda: try_all(mutants, reach, result))
        fates = json.loads(result.read_bytes())
    tried = [
        try_anew(mutant, affordable(reach, mutant)) if fate == SURVIVED else fate
        for mutant, fate in zip(mutants, fates, strict=True)
    ]
    _report(mutants, tried, reach)


def _report(mutants: Sequence[Mutant], fates: Sequence[str], reach: Reach) -> None:
    by_file: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant, fate in zip(mutants, fates, strict=True):
        by_file[mutant.file][fate] += 1
    for file, counted in by_file.items():
        print(f"{counted[KILLED]:4} of {counted.total():4} killed  {file}")
    print(f"{fates.count(KILLED):4} of {len(fates):4} killed")
    for mutant, fate in zip(mutants, fates, strict=True):
        if fate == SURVIVED:
            print(f"{_describe(mutant)}  ({len(find_entering(reach, mutant))} tests)")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} s of processor time")


if __name__ == "__main__":
    main()
