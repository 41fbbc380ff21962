"""A policy out of files that hold policy and quality bundles in any order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sluice.core.policy.policy import DEFAULT_QUALITY
from sluice.offline.policy_files import (
    PolicyFileError,
    PolicyFiles,
    read_signed_policy,
    read_unsigned_bundle,
    read_unsigned_policy,
)
from tests.unit.cli.policy.policy_files import write
from tests.unit.core.trust.quality_scene import SIGNS, org, quality_document, quality_value
from tests.unit.core.trust.scene import (
    ALICE,
    BOB,
    ROOT_KEY,
    ROOTS,
    START,
    approver,
    bundle_document,
    bundle_value,
    entry_value,
)

if TYPE_CHECKING:
    from pathlib import Path


def lines(path: Path, *values: bytes) -> Path:
    path.write_bytes(b"\n".join(values))
    return path


def registry(folder: Path, *more: bytes) -> Path:
    approvers = [
        entry_value(approver(name, key, signs=SIGNS), ROOT_KEY)
        for name, key in (("alice", ALICE), ("bob", BOB))
    ]
    return lines(folder / "registry.jsonl", *approvers, *more)


def test_signed_files_give_the_first_of_each_kind_as_the_default(tmp_path: Path) -> None:
    bundles = [
        lines(tmp_path / "quality.json", quality_value(quality_document(), ALICE)),
        lines(tmp_path / "policy.json", bundle_value(bundle_document(), ALICE)),
    ]
    entry = entry_value(org(quality_bundle_id="q"), ALICE, BOB)
    policy = read_signed_policy(PolicyFiles(bundles[1:], [registry(tmp_path)]), ROOTS, START)
    assert (policy.default_bundle, policy.default_quality, dict(policy.quality)) == (
        "small",
        DEFAULT_QUALITY,
        {},
    )
    policy = read_signed_policy(PolicyFiles(bundles[:], [registry(tmp_path)]), ROOTS, START)
    assert (policy.default_bundle, policy.default_quality) == ("small", "q")
    both = lines(tmp_path / "q2.json", quality_value(quality_document(), ALICE, BOB))
    policy = read_signed_policy(PolicyFiles([bundles[1], both], [registry(tmp_path, entry)]), ROOTS, START)
    assert policy.find_quality(policy.registry.orgs["acme"])[0] == "q"


def test_a_second_approver_is_missed_in_files_too(tmp_path: Path) -> None:
    bundles = [
        lines(tmp_path / "policy.json", bundle_value(bundle_document(), ALICE)),
        lines(tmp_path / "q1.json", quality_value(quality_document(), ALICE)),
        lines(tmp_path / "q2.json", quality_value(quality_document(2, ttl=1e9), ALICE)),
    ]
    with pytest.raises(PolicyFileError, match=r"q2\.json: line 1: second_approver_missing"):
        read_signed_policy(PolicyFiles(bundles, [registry(tmp_path)]), ROOTS, START)


def test_sources_may_hold_both_kinds(tmp_path: Path) -> None:
    quality = write(tmp_path / "q.json", quality_document())
    small = write(tmp_path / "p.json", bundle_document())
    entries = write(tmp_path / "r.json", {"entries": []})
    policy = read_unsigned_policy(PolicyFiles([quality, small], [entries]))
    assert (policy.default_bundle, policy.default_quality) == ("small", "q")
    assert policy.quality["q"].revision == 1


def test_a_quality_bundle_alone_decides_nothing(tmp_path: Path) -> None:
    quality = write(tmp_path / "q.json", quality_document())
    entries = lines(tmp_path / "r.json", json.dumps({"entries": []}).encode())
    with pytest.raises(PolicyFileError, match="no policy bundle"):
        read_unsigned_policy(PolicyFiles([quality], [entries]))
    with pytest.raises(PolicyFileError, match="not a policy bundle"):
        read_unsigned_bundle(quality)
