"""Answers are held against inputs by coordinates: what has none, or two, is noticed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sluice.adapters.kafka.kafka_read import StoredRecord
from sluice.client.kafka_writing import PublishedAt
from sluice_demo.answers import NO_GATE, DemoAnswers, read_cause, tally_sessions
from sluice_topics.catalog import ACTIONS, ESCALATIONS, VERDICTS

if TYPE_CHECKING:
    from sluice_demo.material import Material, Planned

PREFIX = "demo-test."
GATE = {"gate": "consequence", "passed": False, "failureReason": "consequence_score: 790 per mille"}
OPENED = {"gate": "tier_auth", "passed": False, "failureReason": "consequence_score: 790 per mille"}


def test_an_input_without_an_answer_is_named(material: Material) -> None:
    answers, (first, second) = _publish(material)
    answers.take([_verdict(0, 1, 10)])
    assert (answers.published, answers.answered) == (2, 1)
    assert answers.unanswered == [second]
    assert [one.planned for one in answers.iterate(VERDICTS)] == [first]


def test_a_second_answer_to_one_input_is_counted(material: Material) -> None:
    answers, _ = _publish(material)
    answers.take([_verdict(0, 1, 10), _verdict(0, 2, 10)])
    assert answers.answered_twice == 1


def test_an_escalation_is_no_answer(material: Material) -> None:
    answers, _ = _publish(material)
    answers.take(
        [
            _record(
                ESCALATIONS,
                {"schema": "sluice/escalation_opened/v1", "input": _input(0), "reason": "tier_T3"},
            )
        ]
    )
    assert (answers.answered, len(answers.escalations)) == (0, 1)


def test_a_session_s_totals_are_those_of_its_last_record(material: Material) -> None:
    answers, _ = _publish(material)
    answers.take([_verdict(1, 8, 30), _verdict(0, 7, 10)])
    (session,) = tally_sessions(answers)
    assert (session.rows, session.verdicts["allowed"]) == (30, 2)


def test_an_escalation_keeps_the_gate_that_asked_for_it() -> None:
    cause = read_cause(
        {"verdict": "needs_human", "gateResults": [{"gate": "controls", "passed": True}, GATE, OPENED]}
    )
    assert (cause.gate, cause.kind) == ("consequence", "consequence_score")


def test_a_duplicate_and_a_conflict_have_no_gate() -> None:
    again = read_cause({"verdict": "allowed", "gateResults": [], "duplicate_of": "verdict:t:0:0"})
    other = read_cause({"verdict": "denied", "gateResults": [], "blockReason": "action_id_conflict"})
    assert (again.gate, again.kind) == (NO_GATE, "duplicate")
    assert (other.gate, other.kind) == (NO_GATE, "action_id_conflict")


def _publish(material: Material) -> tuple[DemoAnswers, list[Planned]]:
    """Answers that expect two inputs of one session, at offsets 0 and 1."""
    session = material.sessions[0].id
    planned = [one for one in material.plan if (one.session_id, one.role) == (session, "action")][:2]
    answers = DemoAnswers(PREFIX)
    answers.expect(planned, [PublishedAt(ACTIONS, 0, offset, 0) for offset in range(2)])
    return answers, planned


def _verdict(offset: int, sequence: int, rows: int) -> StoredRecord:
    totals = {"aggregateRowsAffected": rows, "aggregateActionCount": offset + 1}
    body = {"verdict": "allowed", "gateResults": [], "session": {"after": totals}, "sequence": sequence}
    return _record(VERDICTS, {**body, "input": _input(offset)})


def _input(offset: int) -> dict[str, Any]:
    return {"topic": ACTIONS, "partition": 0, "offset": offset}


def _record(topic: str, body: dict[str, Any]) -> StoredRecord:
    return StoredRecord(f"{PREFIX}{topic}", 0, 0, 0, None, json.dumps(body).encode(), ())
