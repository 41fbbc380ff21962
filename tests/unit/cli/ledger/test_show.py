"""Mend 16: `sluice show ID` tells one decision's whole story, the reason first, from the ledger alone."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from sluice.cli.main import cli
from sluice.core.foundation.canonical import digest
from sluice.offline.story import Followed, NamedRecords
from sluice.verifier.export import Located
from sluice_topics.catalog import ESCALATIONS, MEMORY_DECISIONS, SESSION_EVENTS, VERDICTS
from tests.unit.records import ledger_records

if TYPE_CHECKING:
    from pathlib import Path

VERDICT_ID = "verdict:gate.actions.proposed:3:12"
WIDE = {"COLUMNS": "160"}


def link(kind: str, **given: Any) -> dict[str, Any]:
    """A record of this kind whose hash holds."""
    fields = {**ledger_records()[kind], **given}
    del fields["event_hash"]
    return {**fields, "event_hash": digest(fields)}


def story(**given: Any) -> list[tuple[str, dict[str, Any]]]:
    """A denied action with an escalation and a settlement, beside another session's action of the same id."""
    gates = [
        {"gate": "controls", "passed": True, "failureReason": None, "durationMs": 0.1, "detail": {}},
        {
            "gate": "fast_reject",
            "passed": False,
            "failureReason": "forbidden_pattern: shell.rm",
            "durationMs": 0.2,
            "detail": {"patterns": [{"id": "shell.rm", "reason": "deletes a system folder", "path": "$.c"}]},
        },
    ]
    verdict = link(
        "Verdict",
        verdict_id=VERDICT_ID,
        action_id="a-17",
        gateResults=gates,
        stages=["controls", "fast_reject", "tier_auth"],
        **given,
    )
    opened = link("EscalationOpened", verdict_id=VERDICT_ID, action_id="a-17", sequence=2)
    settled = link("ReservationSettled", action_id="a-17", sequence=3)
    elsewhere = link("ReservationSettled", action_id="a-17", session_id="s-2", sequence=4)
    return [
        (VERDICTS, verdict),
        (ESCALATIONS, opened),
        (SESSION_EVENTS, elsewhere),
        (SESSION_EVENTS, settled),
        (MEMORY_DECISIONS, link("MemoryDecision", sequence=5)),
    ]


def locate(records: list[tuple[str, dict[str, Any]]]) -> list[Located]:
    return [
        Located("p." + topic, record["partition"], offset, b"s-1", json.dumps(record).encode())
        for offset, (topic, record) in enumerate(records)
    ]


def lay(path: Path, records: list[tuple[str, dict[str, Any]]]) -> Path:
    """The records as an export."""
    lines = [
        {
            "topic": one.topic,
            "partition": one.partition,
            "offset": one.offset,
            "timestamp": 0,
            "key": base64.b64encode(one.key or b"").decode(),
            "value": (one.value or b"").decode(),
        }
        for one in locate(records)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def show(path: Path, *arguments: str) -> tuple[int, str]:
    ran = CliRunner().invoke(cli, ["show", *arguments, "--from", str(path)], env=WIDE)
    return ran.exit_code, ran.output


@pytest.mark.parametrize(
    "an_id", ["a-17", VERDICT_ID, "gate.actions.proposed:3:12"], ids=["action", "verdict", "coordinates"]
)
def test_a_decision_is_found_by_each_of_its_ids(an_id: str) -> None:
    named = NamedRecords(an_id)
    for one in locate(story()):
        named.take(one)
    assert VERDICT_ID in [one.fields.get("verdict_id") for one in named.events if one.is_decision]


def test_what_came_of_a_decision_is_its_own_session_s_in_the_chain_s_order() -> None:
    named = NamedRecords(VERDICT_ID)
    for one in locate(story()):
        named.take(one)
    followed = Followed([one for one in named.events if one.is_decision])
    for one in locate(story()):
        followed.take(one)
    (told,) = followed.list_stories()
    assert [one.schema for one in told.followed] == [
        "sluice/escalation_opened/v1",
        "sluice/reservation_settled/v1",
    ]
    assert {one.fields["session_id"] for one in told.followed} == {"s-1"}


def test_the_word_and_the_reason_come_first(tmp_path: Path) -> None:
    code, out = show(lay(tmp_path / "ledger", story()), "a-17")
    first, second = out.splitlines()[:2]
    assert code == 0
    assert first.startswith(f"DENIED  {VERDICT_ID}")
    assert second.split() == ["why", "fast_reject:", "forbidden_pattern:", "shell.rm"]


def test_it_tells_what_a_gate_remembered_and_calls_its_detail_as_the_gate_does(tmp_path: Path) -> None:
    violation = {"id": "secret-then-out", "reason": "no", "first": "a-9", "after_ms": 7, "undecided": False}
    detail = {"frozen_until_ms": 1, "violations": [violation]}
    failed = {"gate": "sequence", "passed": False, "failureReason": "no", "durationMs": 0, "detail": detail}
    verdict = link("Verdict", verdict_id=VERDICT_ID, gateResults=[failed])
    _, out = show(lay(tmp_path / "ledger", [(VERDICTS, verdict)]), VERDICT_ID)
    assert "frozen until (ms since 1970): 1" in out
    assert "secret-then-out: no (first a-9, after_ms 7, undecided false)" in out
    assert "seen by" in out
    assert "had read untrusted content: external 2 (last i-3)" in " ".join(out.split())
    remembered = 'sequence before: {"firsts": {"r": [[1, "a-1", true]]}, "denials": [1]}'
    assert remembered in " ".join(out.split())  # as wide as the terminal is


def test_a_gate_that_let_pass_what_it_objects_to_or_did_not_judge_is_told_apart(tmp_path: Path) -> None:
    """Mend 22.24: each of them was marked as passed."""
    objecting = {"would": "block", "objection": "semantic_violation: 0.90"}
    details = {"controls": {}, "causal": objecting, "grader": {}}
    gates = [
        {"gate": gate, "passed": True, "failureReason": None, "durationMs": 0, "detail": detail}
        for gate, detail in details.items()
    ]
    given = {"verdict_id": VERDICT_ID, "verdict": "allowed", "blockReason": None, "gateResults": gates}
    _, out = show(lay(tmp_path / "ledger", [(VERDICTS, link("Verdict", **given))]), VERDICT_ID)
    assert "no gate held it up" in out
    assert "✓ controls  0 ms" in out
    assert "○ causal  observed: would have denied  semantic_violation: 0.90" in out
    assert "- grader  did not judge: it is off, or not concerned" in out


def test_it_tells_gates_evidence_totals_what_followed_and_the_place(tmp_path: Path) -> None:
    _, out = show(lay(tmp_path / "ledger", story()), "a-17")
    for part in (
        "✓ controls",
        "✗ fast_reject",
        "shell.rm: deletes a system folder (path $.c)",
        "not reached: tier_auth",
        "rows 1 -> ",
        "escalation opened",
        "reservation settled",
        "number 1 of the partition's chain",
        "holds, after GENESIS",
        f"sluice rerun {VERDICT_ID}",
    ):
        assert part in out, part


def test_an_altered_record_is_told(tmp_path: Path) -> None:
    records = story()
    records[0][1]["verdict"] = "allowed"
    _, out = show(lay(tmp_path / "ledger", records), "a-17")
    assert "it was altered" in out


def test_an_id_that_nothing_names_is_told_from_a_fault(tmp_path: Path) -> None:
    code, out = show(lay(tmp_path / "ledger", story()), "a-99")
    assert code == 1
    assert "no record of the ledger names a-99" in " ".join(out.split())


def test_programs_get_every_record_whole(tmp_path: Path) -> None:
    code, out = show(lay(tmp_path / "ledger", story()), VERDICT_ID, "--json")
    (told,) = json.loads(out)["stories"]
    assert code == 0
    assert told["hash_holds"] is True
    assert told["record"] == story()[0][1]
    assert len(told["followed"]) == 2


def test_no_record_can_paint_the_screen(tmp_path: Path) -> None:
    records = story(agent_id="evil\x1b[2J\u202e[red]")
    _, out = show(lay(tmp_path / "ledger", records), "a-17")
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "<U+001B>" in out
    assert "[red]" in out


@pytest.mark.parametrize("kind", ["MemoryDecision", "DeadLetter"])
def test_other_decisions_have_their_story_too(tmp_path: Path, kind: str) -> None:
    record = link(kind)
    path = lay(tmp_path / "ledger", [(MEMORY_DECISIONS, record)])
    own = record.get("memory_id") or record["dead_letter_id"]
    code, out = show(path, own)
    assert code == 0
    assert own in out
    assert "holds, after" in out
