"""Outcomes settle reservations: up always, down only once and signed.

Mend 2: a signed outcome is bound to the one action that it settles, and counts once; an unsigned one counts
up to a factor of the reservation, and what it claims beyond that escalates the session until a signed one
comes.
"""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sluice.core.state.session import SessionState
from sluice_topics.catalog import ACTIONS
from tests.unit.core.scene import MINUTE, Session, action, kinds, only, outcome, sign, verdict_of


def reserve(rows: int = 10, **fields: Any) -> Session:
    session = Session()
    session.propose(rows_affected=rows, **fields)
    return session


def test_an_outcome_raises_the_total_by_the_difference() -> None:
    session = reserve()
    event = only(session.report(rows_affected=25), "ReservationSettled")
    assert session.rows == 25
    assert (event["reserved"], event["actual"], event["aggregateRowsAffected"]) == (10, 25, 25)
    assert (event["lowered"], event["early"], event["tenant_id"]) == (False, False, "acme")
    assert event["outcome_id"] == "outcome:gate.outcomes:3:2"


def test_what_touched_no_row_and_says_so_counts_none() -> None:
    session = reserve(0)
    event = only(session.report(rows_affected=0), "ReservationSettled")
    assert (event["reserved"], event["counted"], session.rows) == (0, 0, 0)


def test_an_unsigned_outcome_never_lowers() -> None:
    session = reserve()
    event = only(session.report(rows_affected=4), "ReservationSettled")
    assert (session.rows, event["lowered"]) == (10, False)


def test_a_signed_outcome_lowers_once() -> None:
    session = reserve()
    assert only(session.report_signed(rows_affected=4), "ReservationSettled")["lowered"]
    assert session.rows == 4
    again = only(session.report_signed(rows_affected=1), "InputRefused")
    assert (again["reason"], session.rows) == ("outcome_replayed", 4)


def test_a_failed_action_gives_its_rows_back_when_signed() -> None:
    session = reserve()
    session.report_signed(rows_affected=0, error="connection refused")
    assert (session.rows, session.actions) == (0, 1)


def test_a_later_outcome_raises_further_but_only_by_the_difference() -> None:
    session = reserve()
    for rows in (25, 20, 30):
        session.report(rows_affected=rows)
    assert session.rows == 30


@pytest.mark.parametrize(
    "record",
    [
        sign(outcome(reported_by="door", rows_affected=4), Ed25519PrivateKey.from_private_bytes(bytes(32))),
        {**sign(outcome(reported_by="door", rows_affected=9)), "rows_affected": 4},
        sign(outcome(reported_by="operator", rows_affected=4)),
        sign(outcome(reported_by="stranger", rows_affected=4)),
        outcome(reported_by="door", rows_affected=4, signature="not base64"),
        outcome(reported_by="door", rows_affected=4, signature="AAAA"),
    ],
    ids=["another key", "altered", "no enforcement point", "unknown", "no base64", "no signature"],
)
def test_what_is_not_the_points_own_signature_lowers_nothing(record: dict[str, Any]) -> None:
    session = reserve()
    decision = session.evaluate("gate.outcomes", record)
    session.state.apply(decision.session)
    assert (session.rows, only(decision, "ReservationSettled")["lowered"]) == (10, False)


def test_a_point_speaks_for_its_own_tenant_only() -> None:
    session = Session()
    session.propose(agent_id="other", rows_affected=10)
    session.report_signed(rows_affected=4)
    assert session.state.accounts["globex"].rows == 10


def test_a_denied_action_that_was_done_all_the_same_counts() -> None:
    session = reserve(toolName="erase")
    assert (session.rows, session.actions) == (0, 0)
    session.report(rows_affected=3)
    session.report(rows_affected=3)
    assert (session.rows, session.actions) == (3, 1)


def test_an_outcome_that_cannot_be_told_apart_counts_for_every_action_of_that_id() -> None:
    session = reserve(mode="standard")
    session.propose(rows_affected=2, mode="standard")
    session.report(rows_affected=20)
    assert session.rows == 40
    session.report_signed(rows_affected=1)
    assert session.rows == 40


@pytest.mark.parametrize("first", [{}, {"toolName": "erase"}])
def test_a_signed_outcome_of_a_shared_id_lowers_nothing(first: dict[str, Any]) -> None:
    session = reserve(**first)
    session.propose(rows_affected=2, mode="standard")
    before = session.rows
    session.report_signed(rows_affected=0, error="denied")
    assert session.rows == before


def test_an_early_outcome_waits_for_its_action() -> None:
    session = Session()
    coming = session.input_record(ACTIONS, action(rows_affected=10))
    assert kinds(session.report_signed(rows_affected=4)) == []
    decision = session.take(coming)
    assert kinds(decision) == ["Verdict", "ReservationSettled"]
    event = decision.records[1].body
    assert (event["early"], event["lowered"], session.rows) == (True, True, 4)
    assert event["outcome_id"].count(":") == 3, (
        "outcome:topic:partition:offset, as if its action had been there"
    )
    assert event["input"]["topic"] == "gate.outcomes"
    assert verdict_of(decision)["session"]["after"]["aggregateRowsAffected"] == 10
    assert session.state.early == {}


def test_early_outcomes_settle_in_the_order_of_their_coming() -> None:
    """The signed one has the last word, since nobody vouches for the other."""
    session = Session()
    coming = session.input_record(ACTIONS, action(rows_affected=10))
    session.report(rows_affected=12)
    session.report_signed(rows_affected=1)
    assert kinds(session.take(coming)) == ["Verdict", "ReservationSettled", "ReservationSettled"]
    assert session.rows == 1


@pytest.mark.parametrize("wait", [0, 1, 60], ids=["at once", "in the window", "past the window"])
def test_a_replayed_signed_outcome_is_refused_and_settles_nothing(wait: int) -> None:
    session = reserve(400)
    once = session.sign_outcome(rows_affected=0, error="rolled back")
    assert only(session.put(once), "ReservationSettled")["lowered"]
    session.now += wait * MINUTE
    session.propose(rows_affected=400, **({} if wait == 60 else {"action_id": "act-2"}))
    refusal = only(session.put(once), "InputRefused")
    assert (refusal["reason"], refusal["subject"], session.rows) == ("outcome_replayed", "act-1", 400)


def test_a_signed_outcome_that_waited_is_refused_when_another_action_comes_under_its_id() -> None:
    session = Session()
    first = session.input_record(ACTIONS, action(rows_affected=400, reasoning="never came"))
    session.put(session.sign_outcome(first, rows_affected=0))
    decision = session.propose(rows_affected=400)
    assert kinds(decision) == ["Verdict", "InputRefused"]
    assert (decision.records[1].body["reason"], session.rows) == ("outcome_replayed", 400)
    assert session.state.early == {}


def test_the_same_early_outcome_twice_settles_once() -> None:
    session = Session()
    coming = session.input_record(ACTIONS, action(rows_affected=400))
    assert kinds(session.put(session.sign_outcome(coming, rows_affected=7))) == []
    again = session.put(session.sign_outcome(coming, rows_affected=7))
    assert only(again, "InputRefused")["reason"] == "outcome_replayed"
    assert kinds(session.take(coming)) == ["Verdict", "ReservationSettled"]
    assert session.rows == 7


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"input": None, "action_digest": None}, "outcome_unbound"),
        ({"action_digest": None}, "outcome_unbound"),
        ({"input": None}, "outcome_unbound"),
        ({"action_digest": "sha256:" + "0" * 64}, "outcome_misbound"),
        ({"partition": 4}, "outcome_misbound"),
        ({"topic": "gate.outcomes"}, "outcome_misbound"),
        ({"offset": 0}, "outcome_replayed"),
    ],
)
def test_a_signed_outcome_without_its_actions_place_is_refused(change: dict[str, Any], reason: str) -> None:
    session = reserve()
    assert session.last is not None
    bound: dict[str, Any] = {"input": session.last.coordinates(), "action_digest": session.last.digest}
    place = {name: change.pop(name) for name in ("partition", "topic", "offset") if name in change}
    bound["input"] |= place
    fields = {name: value for name, value in (bound | change).items() if value is not None}
    record = sign(outcome(reported_by="door", rows_affected=0, **fields))
    refusal = only(session.put(record), "InputRefused")
    assert (refusal["reason"], session.rows) == (reason, 10)


def test_after_a_signed_outcome_an_unsigned_one_says_nothing_more() -> None:
    session = reserve()
    session.report_signed(rows_affected=4)
    refusal = only(session.report(rows_affected=90), "InputRefused")
    assert (refusal["reason"], session.rows) == ("already_settled", 4)


def test_a_second_signature_may_raise_what_the_first_left() -> None:
    session = reserve()
    session.report_signed(rows_affected=4)
    assert only(session.report_signed(rows_affected=9), "ReservationSettled")["signed"]
    assert session.rows == 9


def test_an_unsigned_claim_counts_up_to_a_factor_of_the_reservation() -> None:
    session = reserve(10)
    decision = session.report(rows_affected=10**30)
    event, alarm = only(decision, "ReservationSettled"), only(decision, "OutcomeAlarm")
    assert (event["actual"], event["counted"], event["disputed"]) == (str(10**30), 100, True)
    assert (alarm["claimed"], alarm["counted"], alarm["subject"]) == (str(10**30), 100, "act-1")
    assert session.rows == 100
    assert "OutcomeAlarm" not in kinds(session.report(rows_affected=10**31))


@pytest.mark.parametrize("wait", [0, 90], ids=["in the window", "past the window"])
def test_a_disputed_outcome_escalates_the_session_until_a_signed_one_settles_it(wait: int) -> None:
    session = reserve(10)
    first = session.last
    session.report(rows_affected=101)
    for _ in range(2):
        session.now += wait * MINUTE // 2
        session.state = SessionState.read(session.state.key, session.state.entries())
    verdict = session.verdict(action_id="act-2")
    assert (verdict["verdict"], verdict["blockReason"].split(":")[0]) == ("needs_human", "outcome_disputed")
    assert verdict["session"]["disputed"] == "act-1"
    assert session.verdict(action_id="act-3", parameters={"c": "rm -rf /"})["verdict"] == "denied"
    session.propose(action_id="act-4", agent_id="other")
    assert session.verdict(action_id="act-5", agent_id="other")["verdict"] == "allowed", "another tenant's"
    settled = only(session.put(session.sign_outcome(first, rows_affected=12)), "ReservationSettled")
    assert (settled["reserved"], settled["counted"], session.rows) == (100, 12, 12)
    assert session.verdict(action_id="act-6")["verdict"] == "allowed"


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
    session = reserve()
    session.propose(agent_id="other", rows_affected=10)
    decision = session.report(reported_by="stranger", rows_affected=11)
    assert [one.body["outcome_id"] for one in decision.records] == [
        "outcome:gate.outcomes:3:3",
        "outcome:gate.outcomes:3:3:2",
    ]
    assert [account.rows for account in session.state.accounts.values()] == [11, 11]


def test_rows_beyond_json_numbers_are_counted_exactly() -> None:
    session = reserve(rows=2**60)
    event = only(session.report(rows_affected=2**61), "ReservationSettled")
    assert (event["aggregateRowsAffected"], session.rows) == (str(2**61), 2**61)
