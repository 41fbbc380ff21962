"""`sluice bundle`, as a policy's CI runs it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sluice.core.actions.stages import load_bundle
from sluice.core.trust.dsse import Envelope, find_valid_keys, read_envelope
from tests.unit.cli.policy.policy_files import make, sluice, write
from tests.unit.core.trust.scene import bundle_document

if TYPE_CHECKING:
    from pathlib import Path

PASSING = {
    "name": "reads pass",
    "action": {"toolName": "read", "parameters": {}},
    "expect": {"outcome": "ALLOW"},
}
FREEZE = {
    "kind": "freeze",
    "id": "all",
    "revision": 1,
    "spec": {"subject": "tenant", "subject_id": "case", "reason": "an incident"},
}
FAILING = {**PASSING, "name": "reads do not pass", "expect": {"outcome": "BLOCK"}}


def test_a_good_bundle_is_well(tmp_path: Path) -> None:
    file = write(tmp_path / "b.json", bundle_document(cases=[PASSING]))
    found = sluice("bundle", "check", file, "--json")
    assert found.exit_code == 0
    assert json.loads(found.stdout)["bundle"] == "small@1"
    assert json.loads(found.stdout)["failures"] == []


def test_a_bundle_that_does_not_validate_is_named_with_the_place(tmp_path: Path) -> None:
    file = write(tmp_path / "b.json", bundle_document(escalation_ttl_ms=0))
    found = sluice("bundle", "check", file)
    assert found.exit_code == 1
    assert "$.escalation_ttl_ms" in found.stderr


def test_a_bundle_that_fails_a_case_is_not_well(tmp_path: Path) -> None:
    file = write(tmp_path / "b.json", bundle_document(cases=[PASSING, FAILING]))
    found = sluice("bundle", "check", file)
    assert found.exit_code == 1
    assert "reads do not pass" in found.stderr


def test_a_check_counts_cases_not_differences_and_says_what_decided(tmp_path: Path) -> None:
    """Mend 13. Two cases of one name; the first differs in two fields."""
    twice = {
        **PASSING,
        "action": {"toolName": "drop", "parameters": {"sql": "x"}},
        "expect": {"outcome": "BLOCK", "gate": "fast_reject"},
    }
    file = write(tmp_path / "b.json", bundle_document(cases=[twice, {**FAILING, "name": "reads pass"}]))
    found = sluice("bundle", "check", file)
    assert "2 cases: 2 fail" in found.stdout
    assert len(found.stderr.splitlines()) == 3
    blocked = {**PASSING, "registry": [FREEZE]}
    one = sluice("bundle", "check", write(tmp_path / "c.json", bundle_document(cases=[blocked])))
    assert 'got "BLOCK" (BLOCK by controls: frozen_tenant: an incident' in one.stderr
    told = sluice("bundle", "test", tmp_path / "c.json", "--json")
    assert json.loads(told.stdout)["differences"][0]["decided"].startswith("BLOCK by controls: frozen_tenant")


def test_publishing_what_nobody_signed_says_in_one_line_to_sign_it(tmp_path: Path) -> None:
    """Mend 13: a pretty-printed bundle gave a refusal for each of its lines."""
    file = tmp_path / "pretty.json"
    file.write_text(json.dumps(bundle_document(), indent=2))
    entries = tmp_path / "entries.json"
    entries.write_text(json.dumps({"entries": []}, indent=2))
    for verb in ("publish", "cosign"):
        key = [] if verb == "publish" else ["--key", make_key(tmp_path, verb)]
        for name in (file, entries):
            refused = sluice("bundle", verb, name, *key)
            assert refused.exit_code == 1
            noun = "registry" if name == entries else "bundle"
            assert refused.stderr.count("\n") == 1
            assert f"{name} is not signed" in refused.stderr
            assert f"sluice {noun} sign {name} --key PEM" in refused.stderr


def make_key(folder: Path, name: str) -> Path:
    make(folder, name)
    return folder / f"{name}.pem"


def test_a_file_that_is_not_there_is_another_matter(tmp_path: Path) -> None:
    assert sluice("bundle", "check", tmp_path / "none.json").exit_code == 2
    assert sluice("bundle", "publish", tmp_path / "none.json").exit_code == 2


def test_what_is_signed_is_the_whole_bundle(tmp_path: Path) -> None:
    alice, bob = make(tmp_path, "alice"), make(tmp_path, "bob")
    write(tmp_path / "more.json", {"text": []})
    file = write(tmp_path / "b.json", bundle_document(include=["more.json"]))
    keys = ("--key", tmp_path / "alice.pem", "--key", tmp_path / "bob.pem")
    assert sluice("bundle", "sign", file, *keys, "--out", tmp_path / "b.signed").exit_code == 0
    envelope = read_envelope((tmp_path / "b.signed").read_bytes())
    assert isinstance(envelope, Envelope)
    assert find_valid_keys(envelope, [alice.public, bob.public]) == {alice.keyid, bob.keyid}
    assert load_bundle(envelope.payload).id == "small"
    assert b"include" not in envelope.payload


def test_an_invalid_bundle_is_not_signed(tmp_path: Path) -> None:
    make(tmp_path, "alice")
    file = write(tmp_path / "b.json", bundle_document(revision=0))
    out = tmp_path / "b.signed"
    assert sluice("bundle", "sign", file, "--key", tmp_path / "alice.pem", "--out", out).exit_code == 1
    assert not out.exists()


def test_without_root_keys_nothing_can_be_published(tmp_path: Path) -> None:
    signed = {"payload": "e30=", "payloadType": "x", "signatures": []}
    found = sluice("bundle", "publish", write(tmp_path / "b.signed", signed))
    assert found.exit_code == 2
    assert "root_keys" in found.stderr


RULE = {
    "id": "no_drop",
    "type": "forbidden",
    "reason": "nothing is dropped",
    "condition": "action.tool == 'drop'",
}


def test_what_an_extending_bundle_removes_is_said_when_it_is_checked_and_signed(tmp_path: Path) -> None:
    """Mend 22.11: a rule and a case were gone, and nobody said so."""
    make(tmp_path, "alice")
    base = bundle_document(rules=[RULE], cases=[PASSING], stages=["controls", "rules", "tier_auth"])
    write(tmp_path / "base.json", base)
    removed = {"rules": ["no_drop"], "cases": ["reads pass"]}
    own = {"extends": "base.json", "id": "own", "revision": 1, "cases": [{**PASSING, "name": "mine"}]}
    file = write(tmp_path / "own.json", {**own, "remove": removed})
    found = sluice("bundle", "check", file, "--json")
    told = json.loads(found.stdout)["relaxations"]
    assert found.exit_code == 0
    assert any("no_drop" in one for one in told)
    assert "of what it extends: the case 'reads pass' is gone" in told
    out = tmp_path / "own.signed"
    found = sluice("bundle", "sign", file, "--key", tmp_path / "alice.pem", "--out", out)
    assert (found.exit_code, "no_drop" in found.stderr, "reads pass" in found.stderr) == (0, True, True)
    kept = write(tmp_path / "kept.json", own)
    assert json.loads(sluice("bundle", "check", kept, "--json").stdout)["relaxations"] == []
    found = sluice("bundle", "diff", tmp_path / "base.json", file)
    assert (found.exit_code, "the case 'reads pass' is gone" in found.stdout) == (1, True)
