"""What waits for a person: every medium renders what one model says of its records."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from sluice.core.reports.pending_subject import (
    EVENTS,
    PendingSubject,
    collect_subjects,
    read_status,
    sort_waiting,
)
from sluice.notify.reported_subject import ReportedSubject, apply_record
from sluice_topics.catalog import ESCALATIONS, QUARANTINE
from sluice_topics.record_reading import read_ledger_record
from tests.unit import records
from tests.unit.escalation_records import ledger_records

RECORDS = ledger_records(lambda schema, **fields: {"schema": schema, **fields})
OPENED = RECORDS["EscalationOpened"]
COUNTED = {**RECORDS["ApprovalCounted"], "sequence": 7, "dropped": None, "input": {"offset": 7}}
ENDS = [RECORDS["EscalationResolved"], RECORDS["EscalationExpired"]]
BETWEEN = [RECORDS["EscalationReminded"], RECORDS["EscalationRerouted"], COUNTED]
STORIES = [
    [OPENED, *middle, *end]
    for count in range(len(BETWEEN) + 1)
    for middle in itertools.permutations(BETWEEN, count)
    for end in ([], *([end] for end in ENDS))
]


def report(story: list[dict[str, Any]]) -> ReportedSubject:
    reported = None
    for record in story:
        reported = apply_record(reported, record)
    assert reported is not None
    return reported


@pytest.mark.parametrize("story", STORIES)
def test_messages_tell_of_an_escalation_what_every_other_medium_does(story: list[dict[str, Any]]) -> None:
    subject, reported = PendingSubject.of(story), report(story)
    assert collect_subjects(story) == {reported.subject_id: subject}
    assert (subject.status, subject.digest, subject.name) == (reported.status, reported.digest, reported.name)
    assert (subject.role, subject.is_narrowed) == (reported.role, reported.is_narrowed)
    assert subject.fields.get("approved_by", []) == list(reported.approved_by)
    assert subject.groups[-1] == reported.group


def test_the_last_group_of_a_route_has_no_next_one() -> None:
    last = {**RECORDS["EscalationRerouted"], "group": "board", "next_group": None, "next_at": None}
    turn = PendingSubject.of([OPENED, last]).turn
    assert (turn["group"], turn["next_group"], turn["next_at"]) == ("board", None, None)


def test_an_answer_names_what_waits_and_leaves_out_what_is_not_said() -> None:
    answer = PendingSubject(OPENED).write_answer("deny", "ann", "no", parameters=None, remember_days=2)
    assert answer["subject_id"] == OPENED["escalation_id"]
    assert answer["digest"] == OPENED["action_digest"]
    assert "parameters" not in answer
    assert answer["remember_days"] == 2


def test_every_record_about_what_waits_has_a_status() -> None:
    every = records.ledger_records()
    about = {name: each for name, each in every.items() if each.get("schema") in EVENTS}
    assert len(about) == len(EVENTS)
    assert {read_status(each) for each in about.values()} >= {"waiting", "expired", "evicted", "rejected"}
    for each in about.values():
        assert any(read_ledger_record(base, each) for base in (ESCALATIONS, QUARANTINE))


def test_a_memory_is_answered_by_its_own_id() -> None:
    entered = records.ledger_records()["QuarantineEntered"]
    subject = PendingSubject.of([entered])
    assert (subject.subject_id, subject.name) == (entered["memory_id"], entered["write_id"])
    assert (subject.digest, subject.role) == (entered["content_digest"], "reviewer")


ENDINGS = ("QuarantineApproved", "QuarantineRejected", "QuarantineExpired", "QuarantineEvicted")


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_entered_waits_until_any_of_its_ends(ending: str) -> None:
    entered, ended = records.ledger_records()["QuarantineEntered"], records.ledger_records()[ending]
    ended = {**ended, "memory_id": entered["memory_id"]}
    assert len(sort_waiting(collect_subjects([entered]).values())) == 1
    assert sort_waiting(collect_subjects([entered, ended]).values()) == []


def test_the_oldest_comes_first_whichever_partition_wrote_it() -> None:
    entered = records.ledger_records()["QuarantineEntered"]
    late = {**entered, "memory_id": "memory:late", "entered_at": "2026-01-01T00:00:02.000Z", "partition": 0}
    early = {**entered, "memory_id": "memory:early", "entered_at": "2026-01-01T00:00:01.000Z", "partition": 7}
    waiting = sort_waiting(collect_subjects([late, early]).values())
    assert [subject.subject_id for subject in waiting] == ["memory:early", "memory:late"]
