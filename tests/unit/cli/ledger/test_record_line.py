"""What `sluice watch` shows of a record."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.text import Text

from sluice.adapters.kafka.kafka_read import StoredRecord
from sluice.cli.ledger.record_line import LONGEST_LINE, build_json, write_columns, write_heading, write_line
from sluice.cli.ledger.watch import RecordFilter

AT_MS = 1_767_225_600_123


def _record(value: Any) -> StoredRecord:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return StoredRecord("p.gate.verdicts", 3, 42, AT_MS, b"s1", raw, ())


def _show_value(value: Any) -> str:
    return Text.from_markup(write_line(_record(value), "gate.verdicts")).plain


DENIED = {
    "schema": "sluice/verdict/v1",
    "session_id": "s1",
    "action_id": "a1",
    "verdict": "denied",
    "blockReason": "forbidden target",
    "gateResults": [{"gate": "controls", "passed": True}, {"gate": "fast_reject", "passed": False}],
}


def test_a_verdict_is_one_line_with_time_session_action_gate_and_reason() -> None:
    assert (
        _show_value(DENIED) == "00:00:00.123 3/42 verdicts         s1 a1 denied fast_reject: forbidden target"
    )


def test_a_denial_is_red() -> None:
    assert "[bold red]denied[/]" in write_line(_record(DENIED), "gate.verdicts")


def test_a_repeated_action_is_marked() -> None:
    assert "denied (again)" in _show_value(DENIED | {"duplicate_of": "verdict:x:0:1"})


def test_other_records_show_their_kind_and_reason() -> None:
    folded = {"schema": "sluice/session_folded/v1", "session_id": "s1", "reason": "idle"}
    assert _show_value(folded).endswith("s1 - session_folded idle")


def test_no_record_can_paint_or_break_the_line() -> None:
    shown = _show_value(DENIED | {"action_id": "a\x1b[2J\n[red]x[/]"})
    assert "\x1b" not in shown
    assert "\n" not in shown
    assert "[red]x[/]" in shown


def test_what_is_no_json_object_still_shows_its_key_and_size() -> None:
    assert _show_value(b"\xff\xfe").endswith("s1 not a JSON object, 2 bytes")


def test_programs_get_the_whole_value_with_its_coordinates() -> None:
    assert build_json(_record(DENIED), "gate.verdicts") == {
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
    assert _show_value(QUARANTINED).endswith("s1 memory:w:3:17 quarantine trust 0.65, unknown_parent")
    assert "[yellow]quarantine[/]" in write_line(_record(QUARANTINED), "gate.memory.decisions")


def test_a_memory_without_a_score_shows_its_reason_alone() -> None:
    rejected = QUARANTINED | {"action": "reject", "trustScore": None, "reason": "quality_metadata: timestamp"}
    assert _show_value(rejected).endswith("memory:w:3:17 reject quality_metadata: timestamp")


def test_a_review_of_a_memory_shows_who_and_why() -> None:
    approved = {
        "schema": "sluice/quarantine_approved/v1",
        "session_id": "s1",
        "memory_id": "memory:w:3:17",
        "approver_id": "carol",
        "justification": "read it",
    }
    assert _show_value(approved).endswith("s1 memory:w:3:17 quarantine_approved carol: read it")


def test_a_memory_s_content_is_cut_and_cannot_act() -> None:
    proposed = {"session_id": "s1", "write_id": "w1", "content": "\u202e" + "x" * 200}
    line = _show_value(proposed)
    assert line.endswith("x…")
    assert "\u202e" not in line
    assert len(line) < 160


ITEM = {
    "schema": "sluice/quality_decision/v1",
    "session_id": "s1",
    "request_id": "r1",
    "item_id": "i1",
    "outcome": "flag",
    "flags_set": ["stale", "low_confidence"],
    "reason": "freshness: 9 s old",
    "would_have_been": "deny",
    "override": None,
}


def test_a_decision_on_an_item_shows_outcome_flags_reason_and_what_flag_only_hides() -> None:
    said = "s1 i1 flag stale, low_confidence; freshness: 9 s old; would have been deny"
    assert _show_value(ITEM).endswith(said)
    assert "[yellow]flag[/]" in write_line(_record(ITEM), "gate.memory.quality_decision")


def test_an_override_is_named_by_who_signed_it() -> None:
    overridden = ITEM | {"would_have_been": None, "override": {"approver_id": "carol"}}
    assert _show_value(overridden).endswith("freshness: 9 s old; override of carol")


def test_a_passed_item_is_green_and_has_nothing_more_to_say() -> None:
    passed = ITEM | {"outcome": "pass", "flags_set": [], "reason": None, "would_have_been": "pass"}
    assert _show_value(passed).endswith("s1 i1 pass")
    assert "[green]pass[/]" in write_line(_record(passed), "t")


def test_what_was_served_is_counted_and_its_bodies_are_not_shown() -> None:
    served = {
        "schema": "sluice/served_retrieval/v1",
        "session_id": "s1",
        "request_id": "r1",
        "items": [{"item_id": "i1", "outcome": "pass", "body": "canary"}],
        "withheld": [{"item_id": "i2"}, {"item_id": "i3"}],
    }
    assert _show_value(served).endswith("s1 r1 served 1 of 3 items: 1 pass; withheld: i2, i3")


def test_a_store_s_report_shows_what_nobody_decided_on() -> None:
    reported = {
        "schema": "sluice/retrieval_reported/v1",
        "session_id": "s1",
        "report_id": "p1",
        "reported_by": "store",
        "reported": 3,
        "covered": 2,
        "uncovered": ["i9"],
    }
    said = "s1 p1 uncovered store: 2 of 3 items have a decision; without one: i9"
    assert _show_value(reported).endswith(said)
    assert " covered store" in _show_value(reported | {"covered": 3, "uncovered": []})


def test_an_escalation_of_items_shows_category_reason_and_what_waits() -> None:
    opened = {
        "schema": "sluice/retrieval_escalation_opened/v1",
        "session_id": "s1",
        "request_id": "r1",
        "tool_category": "payment",
        "reason": "freshness: 9 s old",
        "items": [{"item_id": "i1"}],
    }
    assert _show_value(opened).endswith("payment: freshness: 9 s old; waiting: i1")


def test_an_alarm_shows_how_severe_it_is_and_whom_it_is_for() -> None:
    alarm = {
        "schema": "sluice/alarm/v1",
        "severity": "critical",
        "subject": "product_pricing",
        "recipient": "dq@operator.example",
        "message": "too long",
    }
    assert _show_value(alarm).endswith("- product_pricing critical to dq@operator.example: too long")
    assert "[bold red]critical[/]" in write_line(_record(alarm), "gate.alarms")


def test_a_proposed_retrieval_names_its_first_items_and_no_body() -> None:
    items = [{"item_id": f"i{number}", "body": "canary"} for number in range(7)]
    line = _show_value({"session_id": "s1", "request_id": "r1", "items": items})
    assert line.endswith("7 items: i0, i1, i2, i3, i4 and 2 more")


def test_a_proposed_report_names_the_store_and_the_request() -> None:
    said = {"session_id": "s1", "report_id": "p1", "request_id": "r1", "reported_by": "store"}
    assert _show_value(said | {"items": ["i1"]}).endswith("store: 1 of request r1: i1")


@pytest.mark.parametrize("odd", [5, None, "x", [3], {"a": 1}])
def test_a_record_that_is_not_as_it_should_be_still_makes_a_line(odd: Any) -> None:
    for name in ("flags_set", "override", "outcome", "reason"):
        assert "s1 i1" in _show_value(ITEM | {name: odd})
    for name in ("items", "withheld"):
        assert "served" in _show_value({"schema": "sluice/served_retrieval/v1", name: odd})


@pytest.mark.parametrize("width", [80, 100, 160])
def test_columns_hold_in_the_terminal_and_begin_at_the_same_places(width: int) -> None:
    """Mend 16: long ids pushed the verdict out of sight."""
    long = DENIED | {"session_id": "s" * 200, "action_id": "a" * 200, "blockReason": "r" * 200}
    lines = [write_columns(_record(one), "gate.verdicts", width).plain for one in (DENIED, long)]
    names = write_heading(width).plain
    assert [len(line) <= width for line in lines] == [True, True]
    for name, value in (("decided", "denied"), ("why", "fast_reject")):
        assert [line.index(value) for line in lines] == [names.index(name)] * 2
    assert "…" in lines[1]


def test_a_column_cannot_be_painted_by_a_record() -> None:
    line = write_columns(_record(DENIED | {"action_id": "\x1b[2J[red]"}), "gate.verdicts", 160)
    assert "\x1b" not in line.plain
    assert "[red]" in line.plain


def test_a_line_for_programs_is_cut_unless_it_is_wanted_whole() -> None:
    huge = DENIED | {"detail": "x" * 1_000_000, "list": ["y" * 300] * 10}
    cut = build_json(_record(huge), "t", whole=False)
    assert len(json.dumps(cut)) < LONGEST_LINE + 1000
    assert cut["cut"] is True
    assert cut["value"]["verdict"] == "denied"
    assert build_json(_record(huge), "t")["value"] == huge
    assert "cut" not in build_json(_record(DENIED), "t", whole=False)


def test_a_record_of_many_small_parts_is_cut_to_its_plain_fields() -> None:
    cut = build_json(_record(DENIED | {"items": [{"n": n} for n in range(10_000)]}), "t", whole=False)
    assert len(json.dumps(cut)) < LONGEST_LINE
    assert cut["value"]["action_id"] == "a1"


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        (RecordFilter(None, None, "denied"), True),
        (RecordFilter(None, None, "allowed"), False),
        (RecordFilter(None, None, "BLOCK"), True),
        (RecordFilter("g", "s1", None), True),
        (RecordFilter("other", None, None), False),
        (RecordFilter(None, "s2", None), False),
    ],
)
def test_only_what_is_wanted_is_shown(wanted: RecordFilter, shown: bool) -> None:
    record = _record(DENIED | {"agent_id": "g", "outcome": "BLOCK"})
    assert wanted.is_match(record, "gate.verdicts") == shown


def test_the_policy_in_force_is_told_in_numbers_with_the_first_entries_and_who_accepted_a_loss() -> None:
    """Mend 22.8."""
    nothing: dict[str, Any] = {"total": 0, "named": []}
    fields = {
        "schema": "sluice/policy_in_force/v1",
        "trigger": "start",
        "digest": "sha256:0123456789abcdef",
        "entries": 9,
        "added": nothing,
        "replaced": nothing,
        "lowered": {
            "total": 4,
            "named": [{"entry": f"tool/{name}", "before": 2, "now": 1} for name in "abc"],
        },
        "gone": {"total": 1, "named": [{"entry": "freeze/all", "before": 1, "now": None}]},
        "accepted": [{"entry": "policy_loss/x@1", "approvers": ["bob", "ann"]}],
    }
    line = _show_value(fields)
    assert "policy_in_force start: 9 entries, sha256:0123456789ab: 1 gone (freeze/all 1→)" in line
    assert "4 older (tool/a 2→1, tool/b 2→1, tool/c 2→1, …); the loss accepted by ann and bob" in line
    assert _show_value({**fields, "lowered": 7, "gone": None, "accepted": "x"}).endswith("unchanged")
