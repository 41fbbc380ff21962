"""`sluice decide`, as a policy's CI runs it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from sluice.cli.main import cli
from tests.unit.cli.policy.policy_files import make, sluice, write
from tests.unit.core.trust.scene import agent, approver, bundle_document, tool

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.core.registry.keys import SigningKey

AT = ("--at", "2026-01-01T00:00:00Z")
ACTION = {
    "action_id": "a1",
    "agent_id": "reader",
    "session_id": "s1",
    "toolName": "search",
    "parameters": {},
    "mode": "high_stakes",
    "rows_affected": 5,
}
OUTCOME = {"action_id": "a1", "session_id": "s1", "rows_affected": 9, "reported_by": "reader"}


def decide(lines: list[Any], *words: object, **env: str) -> Result:
    """The command on some lines of standard input."""
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return CliRunner().invoke(cli, ["decide", "-", *AT, *map(str, words)], input=text, env=env)


@pytest.fixture
def unsigned(tmp_path: Path) -> list[object]:
    bundle = write(tmp_path / "b.json", bundle_document())
    registry = write(tmp_path / "r.json", {"entries": [agent(), tool(trusts_row_claims=True)]})
    return ["--unsigned", "--bundle", bundle, "--registry", registry]


def records(found: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.stdout.splitlines()]


def test_every_action_gets_one_verdict_line_with_its_session_s_totals(unsigned: list[object]) -> None:
    found = decide([ACTION, {**ACTION, "action_id": "a2"}], *unsigned)
    assert found.exit_code == 0
    assert [one["verdict_id"] for one in records(found)] == [
        "verdict:gate.actions.proposed:0:1",
        "verdict:gate.actions.proposed:0:2",
    ]
    assert [one["session"]["after"]["aggregateRowsAffected"] for one in records(found)] == [5, 10]


def test_an_outcome_settles_what_was_reserved(unsigned: list[object]) -> None:
    settled, verdict = records(decide([ACTION, OUTCOME, {**ACTION, "action_id": "a2"}], *unsigned))[1:]
    assert (settled["schema"], settled["actual"]) == ("sluice/reservation_settled/v1", 9)
    assert verdict["session"]["before"]["aggregateRowsAffected"] == 9


def test_time_passes_by_a_line_that_says_so(unsigned: list[object]) -> None:
    first, again, anew = records(decide([ACTION, ACTION, {"at": "2026-01-01T02:00:00Z"}, ACTION], *unsigned))
    assert (again["duplicate_of"], anew["duplicate_of"]) == (first["verdict_id"], None)
    assert anew["decided_at"] == "2026-01-01T02:00:00.000Z"


def test_a_denial_is_no_failure_of_the_command(unsigned: list[object]) -> None:
    found = decide([{**ACTION, "agent_id": "nobody"}], *unsigned)
    assert (found.exit_code, records(found)[0]["outcome"]) == (0, "BLOCK")


def test_an_unreadable_line_gives_its_dead_letter_and_the_others_their_verdicts(
    unsigned: list[object],
) -> None:
    found = decide(["nonsense", ACTION], *unsigned)
    letter, verdict = records(found)
    assert (found.exit_code, letter["code"], verdict["outcome"]) == (1, "not_json", "ALLOW")


def test_the_same_lines_give_the_same_output(unsigned: list[object]) -> None:
    assert decide([ACTION, OUTCOME], *unsigned).stdout == decide([ACTION, OUTCOME], *unsigned).stdout


def test_the_same_in_words(unsigned: list[object]) -> None:
    assert "allowed" in decide([ACTION], *unsigned, "--text").stdout


def test_several_bundles_are_chosen_by_id_the_first_by_default(
    tmp_path: Path, unsigned: list[object]
) -> None:
    second = write(tmp_path / "b2.json", {**bundle_document(), "id": "second"})
    lines = [ACTION, {**ACTION, "action_id": "a2", "policy_bundle_id": "second"}]
    found = records(decide(lines, *unsigned, "--bundle", second))
    assert [one["policy_bundle_id"] for one in found] == ["small", "second"]


@pytest.mark.parametrize("words", [("--at", "noon"), ("--registry", "none.json"), ("--bundle", "none.json")])
def test_what_cannot_be_done_is_said(words: tuple[str, str], unsigned: list[object]) -> None:
    assert decide([ACTION], *unsigned, *words).exit_code == 2


class Signed:
    """A signed bundle, signed entries and their approver, as `bundle sign` and `registry sign` write them."""

    def __init__(self, folder: Path) -> None:
        self.root, self.owner = make(folder, "root"), make(folder, "owner")
        self.folder = folder
        self.approvers = self._sign(approver("owner", self.owner), "root")
        self.entries = self._sign({"entries": [agent(), tool(trusts_row_claims=True)]}, "owner")
        self.bundle = self._sign(bundle_document(), "owner")

    def decide(self, root: SigningKey, *words: object) -> Result:
        keys = json.dumps([root.public.text])
        return decide([ACTION], *words, SLUICE_POLICY__ROOT_KEYS=keys)

    def _sign(self, document: dict[str, Any], key: str) -> Path:
        noun = "bundle" if "action_types" in document else "registry"
        entries = document if noun == "bundle" or "entries" in document else {"entries": [document]}
        file = write(self.folder / "source.json", entries)
        out = self.folder / f"{noun}.{key}.signed"
        done = sluice(noun, "sign", file, "--key", self.folder / f"{key}.pem", "--out", out)
        assert done.exit_code == 0, done.stderr
        return out


def test_a_signed_policy_counts_from_the_root_keys_on(tmp_path: Path) -> None:
    signed = Signed(tmp_path)
    files = ("--bundle", signed.bundle, "--registry", signed.approvers, "--registry", signed.entries)
    (verdict,) = records(signed.decide(signed.root, *files))
    assert verdict["outcome"] == "ALLOW"
    assert set(verdict["registry_hashes"]) == {"agent/reader@1", "tool/search@1"}


def test_a_policy_of_another_root_is_refused_with_its_place(tmp_path: Path) -> None:
    signed = Signed(tmp_path)
    files = ("--bundle", signed.bundle, "--registry", signed.approvers, "--registry", signed.entries)
    found = signed.decide(signed.owner, *files)
    assert found.exit_code == 2
    assert "unknown_key" in found.stderr
    assert "line 1" in found.stderr


def test_a_file_that_nobody_signed_needs_to_be_asked_for(tmp_path: Path, unsigned: list[object]) -> None:
    found = decide([ACTION], *unsigned[1:])
    assert found.exit_code == 2
    assert "--unsigned" in found.stderr
