"""A second verifier of packages, in Go and from docs/audit-package.md: both say the same of each package."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from load.packages.made_ledger import HEADS, ROOT, START_MS, TRUST, make_ledger, write_made_package
from load.packages.tamper import COMBINED, SINGLE
from sluice.adapters.archive.package_plan import Selection
from sluice.verifier.package_check import check_package
from sluice.verifier.package_file import PackageFile
from sluice.verifier.package_manifest import NotAPackage
from tests.documents.blocks import ROOT as TREE

if TYPE_CHECKING:
    from pathlib import Path

SELECTIONS = (
    Selection("since", 0),
    Selection("agent", "agent-1"),
    Selection("session", "s-1-2"),
    Selection("since", START_MS + 60),
)
SEEDS = range(2)
UNTOUCHED = "untouched"


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program."""
    if shutil.which("go") is None:
        pytest.skip("there is no go")
    program = tmp_path_factory.mktemp("go") / "sluice-audit"
    folder = TREE / "docs" / "examples" / "go-audit"
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=folder, check=True)
    return program


def write_packages(folder: Path) -> list[Path]:
    """Each package, untouched and with each change."""
    packages = []
    for seed in SEEDS:
        for number, selection in enumerate(SELECTIONS):
            file = folder / f"{UNTOUCHED}-{seed}-{number}.zip"
            write_made_package(make_ledger(seed), selection, file)
            packages.append(file)
            for kind, change in {**SINGLE, **COMBINED}.items():
                changed = folder / f"{kind}-{seed}-{number}.zip"
                changed.write_bytes(change(file.read_bytes(), random.Random(seed)))  # noqa: S311 - seeded
                packages.append(changed)
    return packages


def is_intact(file: Path) -> bool:
    try:
        return check_package(PackageFile(file), TRUST).report.intact
    except NotAPackage:
        return False


def test_both_find_every_change_and_nothing_in_untouched_packages(second: Path, tmp_path: Path) -> None:
    packages = write_packages(tmp_path)
    keys = ("--root-key", ROOT.public.text, "--head-key", HEADS.public.text)
    checked = subprocess.run(
        [second, *keys, *packages], capture_output=True, text=True, check=False, timeout=120
    )
    results = [json.loads(line) for line in checked.stdout.splitlines()]
    assert [result["file"] for result in results] == list(map(str, packages)), checked.stderr
    assert len(packages) == len(SEEDS) * len(SELECTIONS) * (1 + len(SINGLE) + len(COMBINED))
    for file, result in zip(packages, results, strict=True):
        expected = file.name.startswith(UNTOUCHED)
        assert (result["intact"], is_intact(file)) == (expected, expected), (file.name, result["findings"])
