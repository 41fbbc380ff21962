"""Outcomes settle reservations: up always, down only once and signed."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.unit.core.scene import MINUTE, Session, kinds, only, outcome, signed, verdict_of


def reserved(rows: int = 10, **fields: Any) -> Session:
    session = Session()
    session.propose(rows_affected=rows, **fields)
    return session


def test_an_outcome_raises_the_total_by_the_difference() -> None:
    session = reserved()
    event = only(session.report(rows_affected=25), "ReservationSettled")
    assert session.rows == 25
    assert (event["reserved"], event["actual"], event["aggregateRowsAffected"]) == (10, 25, 25)
    assert (event["lowered"], event["early"], event["tenant_id"]) == (False, False, "acme")
    assert event["outcome_id"] == "outcome:gate.outcomes:3:2"


def test_an_unsigned_outcome_never_lowers() -> None:
    session = reserved()
    event = only(session.report(rows_affected=4), "ReservationSettled")
    assert (session.rows, event["lowered"]) == (10, False)


def test_a_signed_outcome_lowers_once() -> None:
    session = reserved()
    assert only(session.report_signed(rows_affected=4), "ReservationSettled")["lowered"]
    assert session.rows == 4
    assert not only(session.report_signed(rows_affected=1), "ReservationSettled")["lowered"]
    assert session.rows == 4


def test_a_failed_action_gives_its_rows_back_when_signed() -> None:
    session = reserved()
    session.report_signed(rows_affected=0, error="connection refused")
    assert (session.rows, session.actions) == (0, 1)


def test_a_later_outcome_raises_further_but_only_by_the_difference() -> None:
    session = reserved()
    for rows in (25, 20, 30):
        session.report(rows_affected=rows)
    assert session.rows == 30


@pytest.mark.parametrize(
    "record",
    [
        signed(outcome(reported_by="door", rows_affected=4), Ed25519PrivateKey.from_private_bytes(bytes(32))),
        {**signed(outcome(reported_by="door", rows_affected=9)), "rows_affected": 4},
        signed(outcome(reported_by="operator", rows_affected=4)),
        signed(outcome(reported_by="stranger", rows_affected=4)),
        outcome(reported_by="door", rows_affected=4, signature="not base64"),
        outcome(reported_by="door", rows_affected=4, signature="AAAA"),
    ],
    ids=["another key", "altered", "no enforcement point", "unknown", "no base64", "no signature"],
)
def test_what_is_not_the_points_own_signature_lowers_nothing(record: dict[str, Any]) -> None:
    session = reserved()
    decision = session.evaluate("gate.outcomes", record)
    session.state.apply(decision.transition)
    assert (session.rows, only(decision, "ReservationSettled")["lowered"]) == (10, False)


def test_a_point_speaks_for_its_own_tenant_only() -> None:
    session = Session()
    session.propose(agent_id="other", rows_affected=10)
    assert kinds(session.report_signed(rows_affected=4)) == []
    assert session.state.accounts["globex"].rows == 10


def test_a_denied_action_that_was_done_all_the_same_counts() -> None:
    session = reserved(toolName="erase")
    assert (session.rows, session.actions) == (0, 0)
    session.report(rows_affected=3)
    session.report(rows_affected=3)
    assert (session.rows, session.actions) == (3, 1)


def test_an_outcome_that_cannot_be_told_apart_counts_for_every_action_of_that_id() -> None:
    session = reserved(mode="standard")
    session.propose(rows_affected=2, mode="standard")
    session.report(rows_affected=20)
    assert session.rows == 40
    session.report_signed(rows_affected=1)
    assert session.rows == 40


@pytest.mark.parametrize("first", [{}, {"toolName": "erase"}])
def test_a_signed_outcome_of_a_shared_id_lowers_nothing(first: dict[str, Any]) -> None:
    session = reserved(**first)
    session.propose(rows_affected=2, mode="standard")
    before = session.rows
    session.report_signed(rows_affected=0, error="denied")
    assert session.rows == before


def test_an_early_outcome_waits_for_its_action() -> None:
    session = Session()
    assert kinds(session.report_signed(rows_affected=4)) == []
    decision = session.propose(rows_affected=10)
    assert kinds(decision) == ["Verdict", "ReservationSettled"]
    event = decision.records[1].body
    assert (event["early"], event["lowered"], session.rows) == (True, True, 4)
    assert event["input"]["topic"] == "gate.outcomes"
    assert verdict_of(decision)["session"]["after"]["aggregateRowsAffected"] == 10
    assert session.state.early == []


def test_early_outcomes_settle_in_the_order_of_their_coming() -> None:
    session = Session()
    session.report(rows_affected=12)
    session.report_signed(rows_affected=1)
    assert kinds(session.propose(rows_affected=10)) == ["Verdict", "ReservationSettled", "ReservationSettled"]
    assert session.rows == 12


def test_too_many_early_outcomes_are_refused_at_once() -> None:
    session = Session()
    for number in range(3):
        assert kinds(session.report(action_id=f"later-{number}")) == []
    refusal = only(session.report(action_id="later-3"), "InputRefused")
    assert (refusal["reason"], refusal["subject"]) == ("early_outcomes_full", "later-3")


def test_an_outcome_whose_action_never_comes_is_refused_by_the_next_input() -> None:
    session = Session()
    session.report(action_id="never")
    session.now += 60 * MINUTE
    decision = session.propose()
    assert kinds(decision) == ["InputRefused", "Verdict"]
    refusal = decision.records[0].body
    assert (refusal["reason"], refusal["subject"]) == ("unknown_subject", "never")
    assert refusal["refusal_id"] == "refusal:gate.outcomes:3:1"
    assert refusal["input"]["offset"] == 1


def test_an_unregistered_reporter_settles_the_action_in_every_account() -> None:
    session = reserved()
    session.propose(agent_id="other", rows_affected=10)
    decision = session.report(reported_by="stranger", rows_affected=11)
    assert [one.body["outcome_id"] for one in decision.records] == [
        "outcome:gate.outcomes:3:3",
        "outcome:gate.outcomes:3:3:2",
    ]
    assert [account.rows for account in session.state.accounts.values()] == [11, 11]


def test_rows_beyond_json_numbers_are_counted_exactly() -> None:
    session = reserved(rows=2**60)
    event = only(session.report(rows_affected=2**61), "ReservationSettled")
    assert (event["aggregateRowsAffected"], session.rows) == (str(2**61), 2**61)
