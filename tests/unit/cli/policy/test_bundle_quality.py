"""`sluice bundle` with quality bundles, as who keeps them uses it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sluice.cli.machine.evaluate import SHIPPED
from sluice.core.actions.stages import load_bundle
from sluice.core.cases.cases import run_cases
from sluice.core.quality_bundle.quality_bundle import load_quality_bundle
from sluice.core.trust.dsse import Envelope, find_valid_keys, read_envelope
from sluice.core.trust.signed_entries import QUALITY_BUNDLE_TYPE
from sluice.offline.bundle_source import read_whole_bundle
from tests.quality_ledger import decision, lay
from tests.unit.cli.policy.policy_files import make, sluice, write
from tests.unit.core.trust.quality_scene import DAY_S, org, quality_document
from tests.unit.core.trust.scene import bundle_document

if TYPE_CHECKING:
    from pathlib import Path

CASE = {
    "name": "a price of last week is stale",
    "item": {"content_class": "product_pricing", "freshness_age_seconds": 604800, "confidence_score": 1},
    "tier": "sandbox",
    "expect": {"outcome": "flag"},
}
FAILING = {**CASE, "name": "it passes", "expect": {"outcome": "pass"}}


def sign(folder: Path, document: dict[str, Any], *names: str) -> Path:
    for name in names:
        make(folder, name)
    keys = [word for name in names for word in ("--key", folder / f"{name}.pem")]
    file, out = write(folder / "q.json", document), folder / "q.signed"
    assert sluice("bundle", "sign", file, *keys, "--out", out).exit_code == 0
    return out


def envelope_in(file: Path) -> Envelope:
    envelope = read_envelope(file.read_bytes())
    assert isinstance(envelope, Envelope)
    return envelope


def test_a_quality_bundle_is_told_apart_and_checked_with_its_cases(tmp_path: Path) -> None:
    file = write(tmp_path / "q.json", quality_document(cases=[CASE]))
    found = sluice("bundle", "check", file, "--json")
    assert found.exit_code == 0
    assert {"bundle": "q@1", "cases": 1, "failures": []}.items() <= json.loads(found.stdout).items()


def test_one_that_fails_a_case_is_not_well(tmp_path: Path) -> None:
    file = write(tmp_path / "q.json", quality_document(cases=[CASE, FAILING]))
    assert sluice("bundle", "check", file).exit_code == 1
    found = sluice("bundle", "test", file, "--json")
    assert found.exit_code == 1
    (difference,) = json.loads(found.stdout)["differences"]
    assert (difference["case"], difference["expected"], difference["actual"]) == ("it passes", "pass", "flag")


def test_one_that_does_not_validate_is_named_with_the_place(tmp_path: Path) -> None:
    file = write(tmp_path / "q.json", quality_document(rationale="short"))
    found = sluice("bundle", "check", file)
    assert found.exit_code == 1
    assert "$.rationale" in found.stderr


def test_one_without_a_case_of_its_own_does_not_pass_its_check(tmp_path: Path) -> None:
    """Mend 22.14: nobody would notice what a revision of it changes. Signing, which publishing needs, and
    every worker refuse it likewise."""
    file = write(tmp_path / "q.json", quality_document(cases=[]))
    make(tmp_path, "alice")
    key, out = tmp_path / "alice.pem", tmp_path / "out.json"
    for words in (("check", file), ("test", file), ("sign", file, "--key", key, "--out", out)):
        found = sluice("bundle", *words)
        assert found.exit_code != 0
        assert "$.cases" in found.stderr
    assert not out.exists()


def test_it_is_signed_as_what_it_is_by_several_at_once(tmp_path: Path) -> None:
    envelope = envelope_in(sign(tmp_path, quality_document(), "alice", "bob"))
    assert envelope.payload_type == QUALITY_BUNDLE_TYPE
    assert load_quality_bundle(envelope.payload).key == "q@1"
    assert len({one.keyid for one in envelope.signatures}) == 2


def test_a_second_approver_signs_later_what_the_first_signed(tmp_path: Path) -> None:
    file, bob = sign(tmp_path, quality_document(), "alice"), make(tmp_path, "bob")
    before = envelope_in(file)
    found = sluice("bundle", "cosign", file, "--key", tmp_path / "bob.pem")
    assert found.exit_code == 0
    assert "2 signatures" in found.stdout
    after = envelope_in(file)
    assert after.signatures[0] == before.signatures[0]
    assert after.payload == before.payload
    assert find_valid_keys(after, [bob.public]) == {bob.keyid}


def test_who_signs_again_is_there_once(tmp_path: Path) -> None:
    file = sign(tmp_path, quality_document(), "alice")
    before = file.read_bytes()
    assert sluice("bundle", "cosign", file, "--key", tmp_path / "alice.pem").exit_code == 0
    assert file.read_bytes() == before


def test_entries_are_cosigned_too(tmp_path: Path) -> None:
    for name in ("alice", "bob"):
        make(tmp_path, name)
    entries = write(tmp_path / "r.json", {"entries": [org(quality_bundle_id="q"), org(tenant="globex")]})
    file, other = tmp_path / "r.signed", tmp_path / "both.signed"
    assert sluice("registry", "sign", entries, "--key", tmp_path / "alice.pem", "--out", file).exit_code == 0
    words = ("cosign", file, "--key", tmp_path / "bob.pem", "--out", other)
    assert sluice("registry", *words).exit_code == 0
    lines = other.read_bytes().splitlines()
    assert [len(json.loads(line)["signatures"]) for line in lines] == [2, 2]


@pytest.mark.parametrize(
    "content",
    [b"{}", b"not json", b'{"payload":"e30=","payloadType":"text/plain","signatures":[]}'],
    ids=["no envelope", "no JSON", "of another kind"],
)
def test_what_is_no_envelope_of_ours_is_not_cosigned(tmp_path: Path, content: bytes) -> None:
    make(tmp_path, "bob")
    file = tmp_path / "x.signed"
    file.write_bytes(content)
    assert sluice("bundle", "cosign", file, "--key", tmp_path / "bob.pem").exit_code == 1
    assert file.read_bytes() == content


def test_a_new_quality_bundle_is_well_as_it_stands(tmp_path: Path) -> None:
    out = tmp_path / "new.json"
    assert sluice("bundle", "new", "acme.quality", out, "--quality").exit_code == 0
    found = sluice("bundle", "check", out, "--json")
    assert found.exit_code == 0
    assert json.loads(found.stdout)["bundle"] == "acme.quality@1"
    assert json.loads(out.read_bytes())["rationale"].startswith("The first revision of acme.quality")


def test_a_new_policy_bundle_is_the_shipped_one_but_for_what_it_says_itself(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "new.json"
    out.parent.mkdir()
    assert sluice("bundle", "new", "acme.rules", out).exit_code == 0
    own, whole = json.loads(out.read_bytes()), json.loads(read_whole_bundle(out))
    assert own.pop("extends") == "shipped:default.json"
    shipped = json.loads(read_whole_bundle(SHIPPED))
    assert whole == {**shipped, **own, "cases": [*shipped["cases"], *own["cases"]]}
    without_texts = {**whole, "patterns": {}, "memory": {}, "cases": own["cases"]}
    assert run_cases(load_bundle(json.dumps(without_texts).encode())) == ()


def test_a_new_bundle_overwrites_nothing(tmp_path: Path) -> None:
    file = write(tmp_path / "mine.json", {"mine": 1})
    assert sluice("bundle", "new", "acme.rules", file).exit_code == 2
    assert json.loads(file.read_text()) == {"mine": 1}


def diff(folder: Path, before: dict[str, Any], after: dict[str, Any], *words: str) -> Any:
    files = write(folder / "a.json", before), write(folder / "b.json", after)
    return sluice("bundle", "diff", *files, *words)


def test_the_difference_says_what_is_relaxed(tmp_path: Path) -> None:
    found = diff(tmp_path, quality_document(), quality_document(2, ttl=2 * DAY_S), "--json")
    assert found.exit_code == 1
    told = json.loads(found.stdout)
    assert (told["before"]["bundle"], told["after"]["bundle"]) == ("q@1", "q@2")
    loose = [one["path"] for one in told["changes"] if one["relaxed"]]
    assert loose == ["$.ttl_by_class.product_pricing"]
    assert told["relaxations"] == ["the time to live of product_pricing grows from 86400 s to 172800 s"]


def test_a_stricter_bundle_has_differences_and_relaxes_nothing(tmp_path: Path) -> None:
    found = diff(tmp_path, quality_document(), quality_document(2, ttl=DAY_S / 2))
    assert found.exit_code == 0
    assert "nothing is relaxed" in found.stdout
    assert "ttl_by_class.product_pricing" in found.stdout


def test_what_was_signed_is_compared_with_a_source(tmp_path: Path) -> None:
    file = sign(tmp_path, quality_document(2, ttl=2 * DAY_S), "alice")
    before = write(tmp_path / "before.json", quality_document())
    assert sluice("bundle", "diff", before, file).exit_code == 1
    assert sluice("bundle", "diff", file, file).exit_code == 0


def test_policy_bundles_are_compared_field_by_field(tmp_path: Path) -> None:
    found = diff(tmp_path, bundle_document(), bundle_document(2, escalation_ttl_ms=5), "--json")
    assert found.exit_code == 0
    assert [one["path"] for one in json.loads(found.stdout)["changes"]] == [
        "$.escalation_ttl_ms",
        "$.revision",
    ]


def test_a_policy_bundle_is_relaxed_where_a_gate_takes_less(tmp_path: Path) -> None:
    longer = bundle_document(2, topology={"max_chain_depth": 9})
    found = diff(tmp_path, bundle_document(), longer, "--json")
    told = json.loads(found.stdout)
    assert found.exit_code == 1
    assert told["relaxations"] == ["a chain may hold 9 delegations, not 3"]
    assert [one["path"] for one in told["changes"] if one["relaxed"]] == ["$.topology.max_chain_depth"]
    default = {name: one for name, one in bundle_document().items() if name != "topology"}
    left_out = json.loads(diff(tmp_path, default, longer, "--json").stdout)
    assert [one["path"] for one in left_out["changes"] if one["relaxed"]] == ["$.topology.max_chain_depth"]
    shorter = diff(tmp_path, longer, bundle_document(3, topology={"max_chain_depth": 2}))
    assert (shorter.exit_code, "nothing is relaxed" in shorter.stdout) == (0, True)


def test_a_policy_bundle_is_not_compared_with_one_of_quality(tmp_path: Path) -> None:
    found = diff(tmp_path, bundle_document(), quality_document())
    assert found.exit_code == 2


def test_a_name_that_is_no_file_is_asked_of_the_broker(tmp_path: Path) -> None:
    file = write(tmp_path / "a.json", quality_document())
    found = sluice("bundle", "diff", file, "nobody@3")
    assert found.exit_code == 2
    assert "root_keys" in found.stderr
    assert "a.json is no file" not in found.stderr
    both = sluice("bundle", "diff", "nobody@3", "no-file.json")
    assert both.exit_code == 2
    for name in ("nobody@3", "no-file.json"):
        assert f"{name} is no file: looked for on the broker" in both.stderr


def test_check_warns_of_classes_that_a_ledger_has_seen_and_the_bundle_does_not_name(tmp_path: Path) -> None:
    """Mend 9."""
    file = write(tmp_path / "q.json", quality_document(cases=[CASE]))
    events = [decision(0), decision(0, "product_prices"), decision(1, "product_prices")]
    export = lay(tmp_path / "ledger", events)
    found = sluice("bundle", "check", file, "--from", export, "--json")
    assert (found.exit_code, json.loads(found.stdout)["unnamed_classes"]["product_prices"]) == (0, 2)
    told = sluice("bundle", "check", file, "--from", export)
    assert "product_prices: seen in 2 decisions, not named by the bundle" in told.stderr
    assert "unnamed_classes" not in json.loads(sluice("bundle", "check", file, "--json").stdout)
