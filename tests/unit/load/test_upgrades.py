"""The earlier version of the upgrade run comes from the history, and where there is none it says so."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from load import ROOT
from load.installations.forked_process import list_paths
from load.upgrades import EARLIER, HistoryAbsent, extract

if TYPE_CHECKING:
    from pathlib import Path


def test_a_commit_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(HistoryAbsent, match="git archive 0123abcd: no such commit in this checkout"):
        extract("0123abcd", tmp_path / "earlier")


def test_the_earlier_tree_has_the_worker_and_its_packages_come_before_ours(tmp_path: Path) -> None:
    known = subprocess.run(
        ["git", "-C", str(ROOT), "cat-file", "-e", EARLIER], capture_output=True, check=False
    )
    if known.returncode:
        pytest.skip(f"this checkout has no history with {EARLIER}")
    tree = extract(EARLIER, tmp_path / "earlier")
    assert (tree / "load" / "installations" / "faulty_worker.py").is_file()
    assert list_paths(tree)["PYTHONPATH"].split(":")[1:] == [str(tree / "app"), str(tree / "topics")]
    assert list_paths(ROOT) == {}
