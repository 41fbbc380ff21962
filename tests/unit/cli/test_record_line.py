"""What `sluice watch` shows of a record."""

from __future__ import annotations

import json
from typing import Any

from rich.text import Text

from app.adapters.kafka_read import StoredRecord
from app.cli.record_line import as_json, as_line

AT_MS = 1_767_225_600_123


def _record(value: Any) -> StoredRecord:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return StoredRecord("p.gate.verdicts", 3, 42, AT_MS, b"s1", raw, ())


def _shown(value: Any) -> str:
    return Text.from_markup(as_line(_record(value), "gate.verdicts")).plain


DENIED = {
    "schema": "sluice/verdict/v1",
    "session_id": "s1",
    "action_id": "a1",
    "verdict": "denied",
    "blockReason": "forbidden target",
    "gateResults": [{"gate": "controls", "passed": True}, {"gate": "fast_reject", "passed": False}],
}


def test_a_verdict_is_one_line_with_time_session_action_gate_and_reason() -> None:
    assert _shown(DENIED) == "00:00:00.123 3/42 verdicts         s1 a1 denied fast_reject: forbidden target"


def test_a_denial_is_red() -> None:
    assert "[bold red]denied[/]" in as_line(_record(DENIED), "gate.verdicts")


def test_a_repeated_action_is_marked() -> None:
    assert "denied (again)" in _shown(DENIED | {"duplicate_of": "verdict:x:0:1"})


def test_other_records_show_their_kind_and_reason() -> None:
    folded = {"schema": "sluice/session_folded/v1", "session_id": "s1", "reason": "idle"}
    assert _shown(folded).endswith("s1 - session_folded idle")


def test_no_record_can_paint_or_break_the_line() -> None:
    shown = _shown(DENIED | {"action_id": "a\x1b[2J\n[red]x[/]"})
    assert "\x1b" not in shown
    assert "\n" not in shown
    assert "[red]x[/]" in shown


def test_what_is_no_json_object_still_shows_its_key_and_size() -> None:
    assert _shown(b"\xff\xfe").endswith("s1 not a JSON object, 2 bytes")


def test_programs_get_the_whole_value_with_its_coordinates() -> None:
    assert as_json(_record(DENIED), "gate.verdicts") == {
        "topic": "gate.verdicts",
        "partition": 3,
        "offset": 42,
        "timestamp": AT_MS,
        "key": "s1",
        "value": DENIED,
    }


QUARANTINED = {
    "schema": "sluice/memory_decision/v1",
    "session_id": "s1",
    "memory_id": "memory:w:3:17",
    "write_id": "w1",
    "action": "quarantine",
    "trustScore": {"total": 0.65},
    "reason": "unknown_parent",
}


def test_a_memory_decision_shows_id_action_trust_and_reason() -> None:
    assert _shown(QUARANTINED).endswith("s1 memory:w:3:17 quarantine trust 0.65, unknown_parent")
    assert "[yellow]quarantine[/]" in as_line(_record(QUARANTINED), "gate.memory.decisions")


def test_a_memory_without_a_score_shows_its_reason_alone() -> None:
    rejected = QUARANTINED | {"action": "reject", "trustScore": None, "reason": "quality_metadata: timestamp"}
    assert _shown(rejected).endswith("memory:w:3:17 reject quality_metadata: timestamp")


def test_a_review_of_a_memory_shows_who_and_why() -> None:
    approved = {
        "schema": "sluice/quarantine_approved/v1",
        "session_id": "s1",
        "memory_id": "memory:w:3:17",
        "approver_id": "carol",
        "justification": "read it",
    }
    assert _shown(approved).endswith("s1 memory:w:3:17 quarantine_approved carol: read it")


def test_a_memory_s_content_is_cut_and_cannot_act() -> None:
    proposed = {"session_id": "s1", "write_id": "w1", "content": "\u202e" + "x" * 200}
    line = _shown(proposed)
    assert line.endswith("x…")
    assert "\u202e" not in line
    assert len(line) < 160
