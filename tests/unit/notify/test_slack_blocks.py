"""Messages and forms: what agents wrote is shown, cut, and never markup; folding twice changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.reports.value_words import add_texts
from sluice.notify.reported_subject import ReportedSubject, apply_record
from sluice.notify.slack_blocks import (
    FORM_CHARS,
    MOST_VALUES,
    build_form,
    build_message,
    escape,
    shorten,
)
from tests.unit import memory_records
from tests.unit.escalation_records import ledger_records
from tests.unit.records import ledger_records as every_record

RECORDS = ledger_records(lambda schema, **fields: {"schema": schema, **fields})
OPENED = RECORDS["EscalationOpened"]
LEDGER = every_record()
COUNTED = {**RECORDS["ApprovalCounted"], "sequence": 7, "input": {"topic": "gate.reviews", "partition": 3}}
STORY = [OPENED, RECORDS["EscalationReminded"], RECORDS["EscalationRerouted"], COUNTED]


def describe(*records: dict[str, Any]) -> ReportedSubject:
    found = None
    for one in records:
        found = apply_record(found, one)
    assert found is not None
    return found


@given(st.text(max_size=400), st.integers(20, 200))
def test_no_text_can_mention_link_or_hide_anything(text: str, most: int) -> None:
    escaped = escape(text, most)
    assert "<" not in escaped
    assert ">" not in escaped
    assert all(part.startswith(("amp;", "lt;", "gt;")) for part in escaped.split("&")[1:])
    assert all(one == "\n" or one.isprintable() for one in escaped)
    assert len(shorten(text, most)) <= most


@pytest.mark.parametrize("end", ["EscalationResolved", "EscalationExpired"])
def test_the_story_of_an_escalation_is_told_and_telling_it_twice_changes_nothing(end: str) -> None:
    whole = describe(*STORY, RECORDS[end])
    assert describe(*STORY, *STORY[1:], RECORDS[end]) == whole
    assert ReportedSubject.read(json.loads(json.dumps(whole.write_fields()))) == whole
    assert whole.groups == ("leads",)
    assert whole.approvals == 1
    assert whole.status == ("approved" if end == "EscalationResolved" else "expired")
    assert not [one for one in build_message(whole)["blocks"] if one["type"] == "actions"]


def test_an_alarm_is_told_as_it_is_and_telling_it_twice_changes_nothing() -> None:
    """Mend 22.15: both kinds of alarms, to the recipient whom the bundle names."""
    for kind in ("Alarm", "OutcomeAlarm"):
        record = LEDGER[kind]
        alarm = describe(record)
        assert describe(record, record) == alarm
        assert ReportedSubject.read(json.loads(json.dumps(alarm.write_fields()))) == alarm
        assert (alarm.kind, alarm.groups, alarm.status) == ("alarm", (record["recipient"],), "raised")
        written = json.dumps(build_message(alarm))
        assert record["message"] in written
        assert "waits" not in written


def test_where_the_own_key_is_demanded_there_are_no_buttons_but_words() -> None:
    kinds = [one["type"] for one in build_message(describe(OPENED))["blocks"]]
    own = build_message(describe({**OPENED, "own_key": True}))["blocks"]
    assert "actions" in kinds
    assert "actions" not in [one["type"] for one in own]
    assert "the approver's own key" in json.dumps(own)


def test_a_message_leads_to_the_review_page_where_there_is_one() -> None:
    def buttons(**more: Any) -> list[dict[str, Any]]:
        blocks = build_message(
            describe({**OPENED, **more}), "https://gate.example.com/review/escalations/e-1"
        )["blocks"]
        return [one for block in blocks if block["type"] == "actions" for one in block["elements"]]

    assert [one.get("value") for one in buttons()] == ["e-1", "e-1", None]
    (page,) = buttons(own_key=True)
    assert page["url"] == "https://gate.example.com/review/escalations/e-1"


def test_the_end_names_the_person_and_the_channel() -> None:
    delegate = {"id": "gateway", "channel": "slack"}
    ended = describe(OPENED, {**RECORDS["EscalationResolved"], "delegate": delegate})
    assert "Approved by p-1 (slack) at" in json.dumps(build_message(ended))
    blocked = {**RECORDS["EscalationResolved"], "outcome": "BLOCK", "blockReason": "frozen"}
    text = json.dumps(build_message(describe(OPENED, blocked)))
    assert "and blocked all the same" in text
    assert "A gate blocked it: frozen" in text


def test_it_says_what_exactly_the_approvals_so_far_are_for() -> None:
    """Mend 22.1: a message and a form show the parameters that the votes so far are for."""
    opened = {**OPENED, "own_key": False}
    first = {**COUNTED, "approver_id": "ann", "dropped": None, "own_key": None}
    assert "Approved so far by ann: exactly what waits" in json.dumps(build_message(describe(opened, first)))
    other = {**first, "approver_id": "ben", "dropped": ["ann"], "sequence": 8}
    other["approved_parameters"] = "sha256:" + "1" * 64
    narrowed = describe(opened, first, other)
    assert (narrowed.approvals, narrowed.approved_by, narrowed.is_narrowed) == (1, ("ben",), True)
    assert apply_record(narrowed, first) == narrowed
    shown = replace(narrowed, narrowed='{"amount": 1}')
    for text in (build_message(shown), build_form("approve", shown, "{}", {})):
        assert "Approved so far by ben: other parameters" in json.dumps(text)
        assert json.dumps('{"amount": 1}') in json.dumps(text)


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ("QuarantineApproved", "Approved by"),
        ("QuarantineRejected", "Rejected by"),
        ("QuarantineExpired", "Expired at"),
        ("QuarantineEvicted", "Evicted at"),
    ],
)
def test_a_held_memory_is_told_with_its_source_until_it_leaves(end: str, says: str) -> None:
    memories = memory_records.ledger_records(lambda schema, **fields: {"schema": schema, **fields})
    held = {**memories["QuarantineEntered"], "decided_at": "2026-11-21T10:00:00.000Z"}
    waits = describe(held)
    assert (waits.kind, waits.role, waits.subject_id) == ("memory", "reviewer", held["memory_id"])
    text = json.dumps(build_message(waits))
    assert f"Source: {held['source_id']}" in text
    assert "sluice quarantine review" in text
    assert says in json.dumps(
        build_message(describe(held, {**memories[end], "decided_at": held["decided_at"]}))
    )


def test_what_opened_before_is_unknown_until_its_opening_is_read() -> None:
    assert apply_record(None, RECORDS["EscalationExpired"]) is None


@given(st.text(max_size=3000))
def test_a_form_shows_the_whole_action_within_slacks_bounds(text: str) -> None:
    form = build_form("approve", describe(OPENED), text[:FORM_CHARS], {"escalation_id": "e-1"})
    assert len(form["title"]["text"]) <= 24
    pieces = [one for one in form["blocks"] if one["type"] == "rich_text"]
    shown = "".join(one["elements"][0]["elements"][0]["text"] for one in pieces)
    assert shown == text[:FORM_CHARS]
    assert len(form["private_metadata"]) <= 3000
    assert len(form["blocks"]) <= 100


def test_looked_up_values_are_said_in_plain_text_and_their_texts_only_where_they_were_added() -> None:
    source = "<!channel> *invoice* \u202e"
    looked_up = {"path": "$.iban", "role": "destination", "kind": "iban", "origin": "untrusted_read"}
    values = [{**looked_up, "source": source, "seen_before_ms": 3000}, *[looked_up] * MOST_VALUES]
    subject = describe({**OPENED, "values": values})
    assert ReportedSubject.read(json.loads(json.dumps(subject.write_fields()))) == subject
    added = tuple(add_texts(subject.values, {"iban": "<@U0ANN> GB82"}))
    for shown in (subject, replace(subject, values=added)):
        for blocks in (build_message(shown)["blocks"], build_form("approve", shown, "{}", {})["blocks"]):
            said = [one["text"] for one in blocks if "the account at $.iban" in json.dumps(one)]
            assert len(said) == MOST_VALUES
            assert {one["type"] for one in said} == {"plain_text"}
            assert "in <!channel> *invoice* <U+202E>, 3 s before" in said[0]["text"]
            assert ("<@U0ANN> GB82" in said[0]["text"]) is (shown is not subject)
            assert "and 1 other value" in json.dumps(blocks)


@pytest.mark.parametrize(
    ("decision", "changed", "asked"),
    [
        ("approve", {}, True),
        ("deny", {}, False),
        ("approve", {"tier": "T4"}, False),
        ("approve", {"quorum": 2}, False),
        ("approve", {"values": None}, False),
    ],
)
def test_days_are_asked_for_where_an_answer_may_last(
    decision: str, changed: dict[str, Any], asked: bool
) -> None:
    looked_up = {"path": "$.iban", "role": "destination", "kind": "iban", "origin": "nowhere"}
    subject = describe({**OPENED, "tier": "T3", "quorum": None, "values": [looked_up], **changed})
    blocks = build_form(decision, subject, "{}", {})["blocks"]
    assert ("remember_days" in [one.get("block_id") for one in blocks]) is asked
