"""`sluice bundle`, as a policy's CI runs it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from app.core.bundles import load_bundle
from app.core.trust.dsse import Envelope, read_envelope, verified
from tests.unit.cli.policy_files import made, sluice, written
from tests.unit.core.trust.scene import bundle_document

if TYPE_CHECKING:
    from pathlib import Path

PASSING = {
    "name": "reads pass",
    "action": {"toolName": "read", "parameters": {}},
    "expect": {"outcome": "ALLOW"},
}
FAILING = {**PASSING, "name": "reads do not pass", "expect": {"outcome": "BLOCK"}}


def test_a_good_bundle_is_well(tmp_path: Path) -> None:
    file = written(tmp_path / "b.json", bundle_document(cases=[PASSING]))
    found = sluice("bundle", "check", file, "--json")
    assert found.exit_code == 0
    assert json.loads(found.stdout)["bundle"] == "small@1"
    assert json.loads(found.stdout)["failures"] == []


def test_a_bundle_that_does_not_validate_is_named_with_the_place(tmp_path: Path) -> None:
    file = written(tmp_path / "b.json", bundle_document(escalation_ttl_ms=0))
    found = sluice("bundle", "check", file)
    assert found.exit_code == 1
    assert "$.escalation_ttl_ms" in found.stderr


def test_a_bundle_that_fails_a_case_is_not_well(tmp_path: Path) -> None:
    file = written(tmp_path / "b.json", bundle_document(cases=[PASSING, FAILING]))
    found = sluice("bundle", "check", file)
    assert found.exit_code == 1
    assert "reads do not pass" in found.stderr


def test_a_file_that_is_not_there_is_another_matter(tmp_path: Path) -> None:
    assert sluice("bundle", "check", tmp_path / "none.json").exit_code == 2
    assert sluice("bundle", "publish", tmp_path / "none.json").exit_code == 2


def test_what_is_signed_is_the_whole_bundle(tmp_path: Path) -> None:
    alice, bob = made(tmp_path, "alice"), made(tmp_path, "bob")
    written(tmp_path / "more.json", {"text": []})
    file = written(tmp_path / "b.json", bundle_document(include=["more.json"]))
    keys = ("--key", tmp_path / "alice.pem", "--key", tmp_path / "bob.pem")
    assert sluice("bundle", "sign", file, *keys, "--out", tmp_path / "b.signed").exit_code == 0
    envelope = read_envelope((tmp_path / "b.signed").read_bytes())
    assert isinstance(envelope, Envelope)
    assert verified(envelope, [alice.public, bob.public]) == {alice.keyid, bob.keyid}
    assert load_bundle(envelope.payload).id == "small"
    assert b"include" not in envelope.payload


def test_an_invalid_bundle_is_not_signed(tmp_path: Path) -> None:
    made(tmp_path, "alice")
    file = written(tmp_path / "b.json", bundle_document(revision=0))
    out = tmp_path / "b.signed"
    assert sluice("bundle", "sign", file, "--key", tmp_path / "alice.pem", "--out", out).exit_code == 1
    assert not out.exists()


def test_without_root_keys_nothing_can_be_published(tmp_path: Path) -> None:
    found = sluice("bundle", "publish", written(tmp_path / "b.signed", {}))
    assert found.exit_code == 2
    assert "root_keys" in found.stderr
