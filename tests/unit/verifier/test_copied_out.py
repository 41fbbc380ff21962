"""Mend 13: the verifier runs when it is copied out of the tree, with nothing but Python."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.verifier import __main__ as command
from sluice.verifier.export import write_line
from tests.unit.verifier.ledgers import genuine_ledger

FOLDER = Path(command.__file__).parent


@pytest.fixture
def export(tmp_path: Path) -> Path:
    file = tmp_path / "ledger.jsonl"
    file.write_text("".join(write_line(one, 1) + "\n" for one in genuine_ledger(1, 40)))
    return file


def run_copied(tmp_path: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """`-S`: no packages but the standard library; and no environment at all."""
    shutil.copytree(FOLDER, tmp_path / "verifier", dirs_exist_ok=True)
    call = [sys.executable, "-S", "-m", "verifier", *map(str, words)]
    return subprocess.run(call, cwd=tmp_path, env={}, capture_output=True, text=True, check=False)


def test_an_intact_export_is_said_to_be_intact(tmp_path: Path, export: Path) -> None:
    told = run_copied(tmp_path, export)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.splitlines()[-1].endswith("records: intact")
    assert json.loads(run_copied(tmp_path, export, "--json").stdout)["intact"] is True


def test_an_altered_record_is_found_and_told_with_its_place(tmp_path: Path, export: Path) -> None:
    lines = export.read_text().splitlines(keepends=True)
    lines[1] = lines[1].replace("sha256:", "sha256:0", 1)
    export.write_text("".join(lines))
    told = run_copied(tmp_path, export)
    assert told.returncode == 1
    assert "altered in chain" in told.stdout
    assert "NOT INTACT" in told.stdout


def test_what_is_no_export_is_another_matter(tmp_path: Path, export: Path) -> None:
    export.write_text("no\n")
    assert run_copied(tmp_path, export).returncode == 2
    assert run_copied(tmp_path, tmp_path / "none").returncode == 2
