"""Tampers with audit packages, and counts what a check finds: `python -m load.packages`; with `--topics` with
the records of live topics, and counts what the verification of the ledger finds.

Without `--package` each package is of another made ledger; with it, all changes are made to that file. So it
is with `--topics` and `--export`, an export of real topics; the untouched is then read in turns at random.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from load.packages import topics
from load.packages.made_ledger import TRUST, make_ledger, write_made_package
from load.packages.speed import measure_speed
from load.packages.tamper import COMBINED, SINGLE
from sluice.adapters.archive.package_plan import Selection
from sluice.verifier.head_check import HeadSigners, HeadSources
from sluice.verifier.package_check import PackageTrust, check_package
from sluice.verifier.package_file import PackageFile
from sluice.verifier.package_manifest import NotAPackage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LEDGERS = 50
"""Made ledgers that changes are made to; each untouched package is of one of its own."""


class TamperingRun:
    """Makes packages, changes them and checks them."""

    def __init__(self, folder: Path, seed: int, package: Path | None, trust: PackageTrust) -> None:
        self._file = folder / "package.zip"
        self._rng = random.Random(seed)
        self._trust = trust
        self._package = None if package is None else package.read_bytes()
        self._made: dict[int, bytes] = {}

    def count_unseen(
        self, changes: Mapping[str, Callable[[bytes, random.Random], bytes]], times: int
    ) -> Counter[str]:
        """How many of so many changes a check did not find, by kind."""
        unseen: Counter[str] = Counter()
        kinds = sorted(changes)
        for number in range(times):
            kind = kinds[number % len(kinds)]
            data = self._get_package(self._rng.randrange(LEDGERS))
            changed = changes[kind](data, self._rng)
            if changed == data or self.is_intact(changed):
                unseen[kind] += 1
        return unseen

    def count_false(self, times: int) -> int:
        """How many of so many untouched packages a check objected to."""
        return sum(not self.is_intact(self._get_package(LEDGERS + number)) for number in range(times))

    def is_intact(self, data: bytes) -> bool:
        """What a check says of a package; one that cannot be read is not."""
        self._file.write_bytes(data)
        try:
            return check_package(PackageFile(self._file), self._trust).report.intact
        except NotAPackage:
            return False

    def _get_package(self, seed: int) -> bytes:
        if self._package is not None:
            return self._package
        if seed >= LEDGERS:
            return self._make(seed)
        if seed not in self._made:
            self._made[seed] = self._make(seed)
        return self._made[seed]

    def _make(self, seed: int) -> bytes:
        self._file.unlink(missing_ok=True)
        selection = Selection("since", 0) if seed % 2 else Selection("agent", "agent-1")
        write_made_package(make_ledger(seed), selection, self._file)
        return self._file.read_bytes()


class TopicsRun:
    """Changes the records of topics in memory and verifies them."""

    def __init__(self, folder: Path, seed: int, export: Path | None, head_keys: Sequence[str]) -> None:
        self._folder = folder
        self._rng = random.Random(seed)
        self._export = None if export is None else topics.read_export(export)
        self._signers = HeadSigners(head_keys) if head_keys else TRUST.sources.signers
        self._made: dict[int, topics.Topics] = {}

    def count_unseen(self, changes: Mapping[str, topics.Change], times: int) -> Counter[str]:
        """How many of so many changes a verification did not find, by kind."""
        unseen: Counter[str] = Counter()
        kinds = sorted(changes)
        for number in range(times):
            kind = kinds[number % len(kinds)]
            seed = self._rng.randrange(LEDGERS)
            changed = topics.copy_topics(self._get_topics(seed))
            changes[kind](changed, self._rng)
            if topics.is_intact(changed, self._get_sources(seed)):
                unseen[kind] += 1
        return unseen

    def count_false(self, times: int) -> int:
        """How many of so many untouched ledgers, read in turns at random, a verification objected to."""
        return sum(
            not topics.is_intact(self._get_topics(seed), self._get_sources(seed), self._rng)
            for seed in range(LEDGERS, LEDGERS + times)
        )

    def _get_topics(self, seed: int) -> topics.Topics:
        if self._export is not None:
            return self._export
        if seed not in self._made:
            self._made[seed] = topics.open_made(make_ledger(seed))
        return self._made[seed]

    def _get_sources(self, seed: int) -> HeadSources:
        """With the heads that were kept elsewhere."""
        stored = self._folder / f"heads-{0 if self._export is not None else seed}.jsonl"
        if not stored.exists():
            topics.keep_heads(self._get_topics(seed), stored)
        return HeadSources(self._signers, copies=[stored])


def main() -> int:
    """The exit code: 0 all changes were found and no untouched package was objected to, else 1."""
    options = _parse_options()
    trust = TRUST
    if options.package is not None:
        signers = HeadSigners(options.head_key) if options.head_key else None
        trust = PackageTrust(options.root_key, HeadSources(signers))
    if options.speed:
        if options.package is None:
            raise SystemExit("--speed needs a --package")
        print(json.dumps(measure_speed(options.package, trust)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        if options.topics:
            live = TopicsRun(Path(folder), options.seed, options.export, options.head_key)
            single = live.count_unseen(topics.SINGLE, options.single)
            combined = live.count_unseen(topics.COMBINED, options.combined)
            false = live.count_false(options.untouched)
        else:
            run = TamperingRun(Path(folder), options.seed, options.package, trust)
            single = run.count_unseen(SINGLE, options.single)
            combined = run.count_unseen(COMBINED, options.combined)
            false = run.count_false(options.untouched)
    figures = {
        "single": options.single,
        "single_unseen": single,
        "combined": options.combined,
        "combined_unseen": combined,
        "untouched": options.untouched,
        "untouched_objected_to": false,
        "seconds": round(time.monotonic() - begun, 1),
    }
    print(json.dumps(figures))
    return 1 if single or combined or false else 0


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m load.packages", description=__doc__)
    parser.add_argument("--single", type=int, default=10_000, help="single changes")
    parser.add_argument("--combined", type=int, default=500, help="combined changes")
    parser.add_argument("--untouched", type=int, default=1000, help="untouched packages")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--topics", action="store_true", help="tamper with topics, not with packages")
    parser.add_argument("--export", type=Path, help="of the topics to tamper with; it must verify")
    parser.add_argument("--speed", action="store_true", help="measure how fast a --package is checked")
    parser.add_argument("--package", type=Path, help="the package to tamper with; it must verify")
    parser.add_argument("--root-key", action="append", default=[], help="of that package's policy")
    parser.add_argument("--head-key", action="append", default=[], help="of its tree heads")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
