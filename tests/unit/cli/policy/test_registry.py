"""`sluice registry`: entries checked and signed."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, get_args

import pytest

from sluice.core.registry.registry_entries import Kind
from tests.unit.cli.policy.policy_files import make, sluice, write
from tests.unit.core.trust.scene import ALICE, BOB, agent, approver, tool

if TYPE_CHECKING:
    from pathlib import Path
OF_OTHER_VERBS = {
    "quality_override": "quality override",
    "agent_grant": "escalations grant",
    "model_proof": "grader prove",
    "policy_loss": "registry accept-loss",
    "mandate_revocation": "mandate revoke",
    "erasure": "erase",
}
"""Kinds of entries that are one person's word or that are measured, with the verb that writes them."""


def sign(folder: Path, *entries: dict[str, Any], options: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    make(folder, "alice")
    file = write(folder / "r.json", {"entries": list(entries)})
    keys = ("--key", folder / "alice.pem")
    found = sluice("registry", "sign", file, *keys, "--out", folder / "r.signed", *options)
    assert found.exit_code == 0, found.stderr
    envelopes = [json.loads(line) for line in (folder / "r.signed").read_bytes().splitlines()]
    return [json.loads(base64.b64decode(one["payload"])) for one in envelopes]


def test_a_new_entry_of_every_kind_is_well_as_it_is(tmp_path: Path) -> None:
    """Mend 15."""
    make(tmp_path, "mine")
    for kind in get_args(Kind):
        out = tmp_path / f"{kind}.json"
        words = (
            "registry",
            "new",
            kind,
            "agent/mine" if kind == "freeze" else "https://docs.example/a",
            out,
            "--public-key",
            tmp_path / "mine.pub",
        )
        found = sluice(*words)
        if kind in OF_OTHER_VERBS:
            assert (found.exit_code, f"`sluice {OF_OTHER_VERBS[kind]}`" in found.stderr) == (2, True)
            continue
        assert found.exit_code == 0, found.stderr
        assert sluice("registry", "check", out).exit_code == 0
        before = out.read_bytes()
        assert sluice(*words).exit_code == 2
        assert out.read_bytes() == before
    refused = sluice("registry", "new", "approver", "ann", tmp_path / "ann.json")
    assert (refused.exit_code, "sluice keys new" in refused.stderr) == (2, True)
    assert sluice("registry", "new", "agnet", "ann", tmp_path / "ann.json").exit_code == 2


@pytest.mark.parametrize("subject", ["agent/x", "session/s 1", "tenant/acme/eu", "all"])
def test_a_freeze_is_called_after_its_subject(tmp_path: Path, subject: str) -> None:
    """Mend 22.12."""
    file = tmp_path / "freeze.json"
    assert sluice("registry", "new", "freeze", subject, file).exit_code == 0
    (entry,) = json.loads(file.read_bytes())["entries"]
    kind, _, name = subject.partition("/")
    assert (entry["id"], entry["spec"]["subject"], entry["spec"]["subject_id"]) == (
        subject,
        kind,
        name or kind,
    )


@pytest.mark.parametrize("subject", ["x", "agent", "agent/", "gent/x", "all/x", ""])
def test_a_freeze_of_no_subject_is_not_written(tmp_path: Path, subject: str) -> None:
    """Mend 22.12."""
    found = sluice("registry", "new", "freeze", subject, tmp_path / "freeze.json")
    assert (found.exit_code, "agent/ID" in found.stderr) == (2, True)


def test_good_entries_are_well(tmp_path: Path) -> None:
    file = write(tmp_path / "r.json", {"entries": [agent(), tool()]})
    found = sluice("registry", "check", file, "--json")
    assert found.exit_code == 0
    assert json.loads(found.stdout) == {"entries": ["agent/reader@1", "tool/search@1"]}


@pytest.mark.parametrize(
    "wrong",
    [tool(tier="T9"), {**tool(), "revision": 0}, approver("weak", ALICE, public_key="AQ" + "A" * 41 + "=")],
    ids=["tier", "revision", "key"],
)
def test_a_wrong_entry_is_named_with_the_place(tmp_path: Path, wrong: dict[str, Any]) -> None:
    file = write(tmp_path / "r.json", {"entries": [agent(), wrong]})
    found = sluice("registry", "check", file)
    assert found.exit_code == 1
    assert "$.entries" in found.stderr


def test_two_approvers_have_two_keys(tmp_path: Path) -> None:
    entries = [approver("alice", ALICE), approver("bob", ALICE)]
    assert sluice("registry", "check", write(tmp_path / "r.json", {"entries": entries})).exit_code == 1


def test_the_entries_of_a_file_are_one_change(tmp_path: Path) -> None:
    bodies = sign(tmp_path, agent(), tool())
    assert bodies[0]["change"] == bodies[1]["change"]
    assert bodies[0]["change"]["entries"].keys() == {"agent/reader@1", "tool/search@1"}


def test_a_single_entry_is_no_change_and_neither_are_separate_ones(tmp_path: Path) -> None:
    assert "change" not in sign(tmp_path, agent())[0]


def test_entries_may_be_signed_separately(tmp_path: Path) -> None:
    assert all("change" not in body for body in sign(tmp_path, agent(), tool(), options=("--separately",)))


def test_approvers_come_first_and_alone(tmp_path: Path) -> None:
    bodies = sign(tmp_path, agent(), approver("bob", BOB), tool())
    assert [body["kind"] for body in bodies] == ["approver", "agent", "tool"]
    assert ["change" in body for body in bodies] == [False, True, True]


def test_two_revisions_of_one_entry_are_no_change(tmp_path: Path) -> None:
    make(tmp_path, "alice")
    file = write(tmp_path / "r.json", {"entries": [agent(), agent(revision=2)]})
    words = (file, "--key", tmp_path / "alice.pem", "--out", tmp_path / "r.signed")
    refused = sluice("registry", "sign", *words)
    assert refused.exit_code == 1
    assert "--separately" in refused.stderr
    assert sluice("registry", "sign", *words, "--separately").exit_code == 0
