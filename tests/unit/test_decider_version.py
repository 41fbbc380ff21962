"""Mend 5: every record names the code that decided it, by a name that is the same wherever the tree lies."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.core.foundation.chain import Chain
from sluice.decider_version import compute_decider_version, digest_sources

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[2]
DECIDING = {
    "sluice.core": ROOT / "app/sluice/core",
    "sluice.detection": ROOT / "app/sluice/detection",
    "sluice.text": ROOT / "app/sluice/text",
    "sluice_topics": ROOT / "topics/sluice_topics",
}


def test_it_is_the_version_and_a_digest_of_the_sources() -> None:
    version, _, digest = compute_decider_version().partition("+")
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert digest == digest_sources(DECIDING)[:16]


def test_a_copy_of_the_tree_has_the_same_and_a_changed_one_another(tmp_path: Path) -> None:
    copies = {package: tmp_path / package for package in DECIDING}
    for package, folder in DECIDING.items():
        shutil.copytree(folder, copies[package], ignore=shutil.ignore_patterns("__pycache__"))
    here = digest_sources(DECIDING)
    assert digest_sources(copies) == here
    changed = copies["sluice.core"] / "state" / "session.py"
    changed.write_bytes(changed.read_bytes() + b"\n")
    assert digest_sources(copies) != here
    changed.rename(changed.with_name("other.py"))
    assert digest_sources(copies) != here


def test_it_does_not_depend_on_where_the_process_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    compute_decider_version.cache_clear()
    assert compute_decider_version().endswith(digest_sources(DECIDING)[:16])


def test_a_chain_writes_it_into_every_record_under_the_hash() -> None:
    told, silent = Chain(0, decider_version="1+a"), Chain(0)
    body = {"schema": "x", "input": None}
    assert b'"decider_version":"1+a"' in told.link(dict(body))
    assert b"decider_version" not in silent.link(dict(body))
    assert told.head != silent.head
