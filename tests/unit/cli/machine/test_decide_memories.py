"""`sluice decide` on memory writes and on reviews of what they left in quarantine."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from sluice.cli.main import cli
from sluice.core.trust.signing import sign_review
from sluice_topics.audience import Audience
from tests.unit.cli.policy.policy_files import write
from tests.unit.core.rerun.reruns import REVIEWER, memory_write
from tests.unit.core.rerun.test_rerun_memory import BAD, CONTENT, GOOD, HELD, MODELS
from tests.unit.core.trust.scene import ALICE, agent, bundle_document, tool

if TYPE_CHECKING:
    from pathlib import Path

AT = "2026-01-01T00:00:00Z"
ACTION = {
    "action_id": "a1",
    "agent_id": "operator",
    "session_id": "s-1",
    "toolName": "search",
    "parameters": {},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "b.json", bundle_document(memory={"content": CONTENT}))
    write(tmp_path / "r.json", {"entries": [agent("operator"), tool(), REVIEWER]})
    return tmp_path


def decide(folder: Path, lines: list[Any], *words: str, bundle: str = "b.json") -> Result:
    text = "\n".join(json.dumps(line) for line in lines)
    policy = ["--unsigned", "--bundle", str(folder / bundle), "--registry", str(folder / "r.json")]
    return CliRunner().invoke(cli, ["decide", "-", "--at", AT, *policy, *words], input=text)


def describe(found: Result) -> list[tuple[str, str]]:
    """Of each line the kind of its record, and what was decided or which memory it is about."""
    records = [json.loads(line) for line in found.stdout.splitlines()]
    return [
        (one["schema"].split("/")[1], str(one.get("action") or one.get("reason") or one.get("memory_id")))
        for one in records
    ]


def review(line: int, content: str, decision: str = "approve", session: str = "s-1") -> dict[str, Any]:
    """A signed review of the memory that was proposed on that line."""
    said = {
        "subject_id": f"memory:gate.memory.writes.proposed:0:{line}",
        "session_id": session,
        "decision": decision,
        "approver_id": "curator",
        "digest": f"sha256:{sha256(content.encode()).hexdigest()}",
        "justification": "looked at it",
    }
    return sign_review(said, ALICE, Audience()).model_dump(exclude_unset=True)


def test_each_write_gets_its_decision_and_what_became_of_it(folder: Path) -> None:
    writes = [memory_write(write_id=str(n), content=text) for n, text in enumerate((GOOD, HELD, BAD))]
    found = decide(folder, writes)
    assert found.exit_code == 0
    assert [kind for kind, _ in describe(found)] == [
        "memory_decision",
        "admitted_memory",
        "memory_decision",
        "quarantine_entered",
        "memory_decision",
    ]
    assert [said for kind, said in describe(found) if kind == "memory_decision"] == [
        "allow",
        "quarantine",
        "reject",
    ]


def test_content_is_not_repeated(folder: Path) -> None:
    found = decide(folder, [memory_write(content=f"{GOOD}, says the canary")])
    assert "admitted_memory" in found.stdout
    assert "canary" not in found.stdout


def test_a_review_releases_what_an_earlier_line_proposed(folder: Path) -> None:
    held = memory_write(content=HELD)
    approved = decide(folder, [held, memory_write(write_id="w-2"), review(1, HELD)])
    assert [kind for kind, _ in describe(approved)][-2:] == ["quarantine_approved", "admitted_memory"]
    rejected = decide(folder, [held, review(1, HELD, "reject"), review(1, HELD)])
    assert [kind for kind, _ in describe(rejected)][-2:] == ["quarantine_rejected", "input_refused"]


def test_what_nobody_reviewed_expires_with_the_clock_beside_whatever_comes_next(folder: Path) -> None:
    later = {"at": "2026-01-01T01:00:00Z"}
    found = decide(folder, [memory_write(content=HELD), later, ACTION])
    assert [kind for kind, _ in describe(found)][-2:] == ["quarantine_expired", "verdict"]


def test_a_derived_memory_is_trusted_as_its_parents_of_other_sessions(folder: Path) -> None:
    good, held = memory_write(content=GOOD), memory_write(write_id="w-2", content=HELD)
    derived = [
        memory_write(
            session_id="s-2",
            write_id=str(line),
            derived_from=[f"memory:gate.memory.writes.proposed:0:{line}"],
        )
        for line in (1, 2, 77)
    ]
    found = decide(folder, [good, held, *derived, review(2, HELD), {**derived[1], "write_id": "again"}])
    decisions = [said for kind, said in describe(found) if kind == "memory_decision"]
    assert decisions == ["allow", "quarantine", "allow", "quarantine", "quarantine", "allow"]


def test_without_a_model_the_record_says_so(folder: Path) -> None:
    write(folder / "models.json", bundle_document(memory=json.loads(MODELS)["memory"]))
    found = decide(folder, [memory_write()], bundle="models.json")
    first = json.loads(found.stdout.splitlines()[0])
    assert (first["similarity"]["status"], first["analysis"]["status"]) == ("inconclusive", "off")
    assert first["action"] == "quarantine"


def test_the_same_in_words(folder: Path) -> None:
    assert "quarantine" in decide(folder, [memory_write(content=HELD)], "--text").stdout
