"""Answers to escalated actions: who may say what, of which action, until when, and what comes of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.state.book import Book
from sluice.core.state.escalation import TRANSITIONS
from sluice_topics.catalog import ACTIONS, OUTCOMES, REVIEWS
from tests.unit.core.actions.escalation_scene import APPROVERS, KEYS, TTL_MS, Office, answer_to
from tests.unit.core.scene import LIMITS, START, action, entry, kinds, only, outcome, public_key, sign

if TYPE_CHECKING:
    from sluice.core.state.decision import Decision
    from sluice.core.state.escalation import Escalation

OTHER_DIGEST = "sha256:" + "1" * 64


def refusal(decision: Decision) -> str:
    """Why an answer did not count."""
    assert kinds(decision) == ["InputRefused"]
    return str(only(decision, "InputRefused")["reason"])


def test_an_approved_action_is_allowed_once_and_its_rows_are_reserved_only_then() -> None:
    office = Office()
    opened = office.open_escalation()
    assert (office.rows(), opened["required_role"]) == (0, "approver")
    approved = office.answer(opened, "ann")
    assert kinds(approved) == ["ResolvedVerdict", "EscalationResolved"]
    verdict, ended = only(approved, "ResolvedVerdict"), only(approved, "EscalationResolved")
    assert (verdict["outcome"], verdict["rows_reserved"], office.rows()) == ("ALLOW", 3, 3)
    assert (verdict["resolves"], verdict["action"]["digest"]) == (
        opened["verdict_id"],
        opened["action_digest"],
    )
    assert [one["approver_id"] for one in verdict["approvals"]] == ["ann"]
    assert verdict["registry_hashes"].keys() >= {"approver/ann@1", "agent/operator@1"}
    assert (ended["outcome"], ended["resolved_verdict_id"]) == ("ALLOW", verdict["verdict_id"])
    repeat = only(office.propose(), "Verdict")
    assert (repeat["outcome"], repeat["duplicate_of"], office.rows()) == ("ALLOW", opened["verdict_id"], 3)
    assert refusal(office.answer(opened, "vera")) == "already_ended"


def test_a_denial_ends_it_and_a_later_answer_is_told_how() -> None:
    office = Office()
    opened = office.open_escalation()
    denied = only(office.answer(opened, "ann", "deny"), "EscalationResolved")
    assert (denied["decision"], denied["outcome"], denied["resolved_verdict_id"]) == ("deny", "BLOCK", None)
    later = only(office.answer(opened, "vera"), "InputRefused")
    assert later["reason"] == "already_ended"
    assert later["message"].startswith("it ended DENIED at 2025-11-21T13:00:02.000Z")
    assert office.rows() == 0


@pytest.mark.parametrize(
    ("by", "changed", "reason"),
    [
        ("ann", {"subject_id": "escalation:gate.actions.proposed:3:99"}, "unknown_subject"),
        ("ann", {"session_id": "s-2"}, "unknown_subject"),
        ("ann", {"decision": "reject"}, "wrong_decision"),
        ("ann", {"digest": OTHER_DIGEST}, "wrong_digest"),
        ("ann", {"key": "mallory"}, "wrong_signature"),
        ("vera", {"approver_id": "ann"}, "wrong_signature"),
        ("mallory", {}, "not_an_approver"),
        ("late", {}, "not_an_approver"),
        ("gone", {}, "not_an_approver"),
        ("elsewhere", {}, "not_an_approver"),
        ("finder", {}, "not_an_approver"),
        ("auditor", {}, "wrong_role"),
    ],
)
@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_an_answer_that_does_not_count_is_refused_and_changes_nothing(
    by: str, decision: str, changed: dict[str, str], reason: str
) -> None:
    office = Office()
    opened = office.open_escalation()
    assert refusal(office.answer(opened, by, **{"decision": decision, **changed})) == reason
    assert (office.rows(), len(office.replay.book.open)) == (0, 1)
    assert "EscalationResolved" in kinds(office.answer(opened, "ann"))


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_neither_the_agent_nor_its_owner_answers(decision: str) -> None:
    office = Office((approver_named("operator", "mallory"),))
    assert (
        refusal(office.answer(office.open_escalation("a-1"), "operator", decision, key="mallory"))
        == "own_action"
    )
    owned = office.open_escalation("a-2", agent_id="owned")
    assert refusal(office.answer(owned, "boss", decision)) == "own_action"
    assert kinds(office.answer(office.open_escalation("a-3"), "boss", "deny")) == ["EscalationResolved"]


def approver_named(name: str, key: str) -> dict[str, Any]:
    """An approver whose id is an agent's."""
    found = next(one for one in APPROVERS if one["id"] == "ann")
    return {**found, "id": name, "spec": {**found["spec"], "public_key": public_key(KEYS[key])}}


def test_a_payment_of_the_highest_tier_needs_a_vp() -> None:
    office = Office()
    opened = office.open_escalation(toolName="pay")
    assert (opened["tier"], opened["required_role"]) == ("T4", "vp")
    assert refusal(office.answer(opened, "ann")) == "wrong_role"
    assert only(office.answer(opened, "vera"), "ResolvedVerdict")["outcome"] == "ALLOW"


def test_a_quorum_counts_each_approver_once_and_one_denial_ends_it() -> None:
    office = Office(policy={"approvals": {"quorum": {"T3": 2}}})
    opened = office.open_escalation()
    assert opened["quorum"] == 2
    first = office.answer(opened, "ann")
    assert kinds(first) == ["ApprovalCounted"]
    assert (only(first, "ApprovalCounted")["approvals"], office.rows()) == (1, 0)
    assert refusal(office.answer(opened, "ann")) == "already_counted"
    last = office.answer(opened, "ben")
    votes = only(last, "ResolvedVerdict")
    assert [one["approver_id"] for one in votes["approvals"]] == ["ann", "ben"]
    assert [one["approver_id"] for one in votes["escalation"]["votes"]] == ["ann"]
    assert office.rows() == 3
    other = office.open_escalation("a-2")
    office.answer(other, "ann")
    assert only(office.answer(other, "ben", "deny"), "EscalationResolved")["outcome"] == "BLOCK"


def test_an_approval_counts_only_while_its_approver_is_in_force() -> None:
    office = Office(policy={"approvals": {"quorum": {"T3": 2}}})
    opened = office.open_escalation()
    office.answer(opened, "ann")
    (ann,) = [one for one in APPROVERS if one["id"] == "ann"]
    revoked = {**ann, "revision": 2, "spec": {**ann["spec"], "active": False}}
    office.replay.point = office.point(revoked)
    counted = only(office.answer(opened, "ben"), "ApprovalCounted")
    assert (counted["approvals"], counted["dropped"], counted["dropped_because"]) == (
        1,
        ["ann"],
        "not_entitled",
    )
    assert office.rows() == 0
    assert only(office.answer(opened, "vera"), "ResolvedVerdict")["outcome"] == "ALLOW"


def test_time_ends_it_by_a_timer_and_by_the_answer_that_comes_too_late() -> None:
    office = Office()
    opened = office.open_escalation()
    office.now = START + 1000 + TTL_MS - 1
    late = office.take(REVIEWS, answer_to(opened, "ann"))
    assert kinds(late) == ["EscalationExpired", "InputRefused"]
    assert only(late, "InputRefused")["reason"] == "already_ended"
    timed = Office()
    opened = timed.open_escalation()
    point, book = timed.point(), timed.replay.book
    assert point.expire_held(book, START + 999 + TTL_MS, 10) is None
    expired = point.expire_held(book, START + 1000 + TTL_MS, 10)
    assert expired is not None
    assert [one.kind for one in expired.records] == ["EscalationExpired"]
    assert expired.records[0].body["input"] is None


def test_an_answer_that_waited_beside_the_timer_finds_it_expired() -> None:
    office = Office()
    opened = office.open_escalation()
    office.now += TTL_MS
    input_record = office.input_record(REVIEWS, answer_to(opened, "ann"))
    decision = office.replay._decide(input_record)  # noqa: SLF001 - as where the timer has not run yet
    assert kinds(decision) == ["EscalationExpired", "InputRefused"]
    assert only(decision, "EscalationExpired")["input"]["topic"] == REVIEWS


def test_a_block_that_came_while_it_waited_stays_one() -> None:
    office = Office()
    opened = office.open_escalation()
    office.replay.point = office.point(
        entry("freeze", "stop", subject="agent", subject_id="operator", reason="an incident")
    )
    resolved = office.answer(opened, "ann")
    verdict, ended = only(resolved, "ResolvedVerdict"), only(resolved, "EscalationResolved")
    assert (verdict["outcome"], verdict["blockReason"]) == ("BLOCK", "frozen_agent: an incident")
    assert (ended["decision"], ended["outcome"], office.rows()) == ("approve", "BLOCK", 0)
    assert only(office.propose(), "Verdict")["outcome"] == "BLOCK"


def test_gates_that_the_first_verdict_did_not_reach_run_before_it_is_allowed() -> None:
    """A rule asks a person; behind it stands the gate that forbids what the rule lets a person decide."""
    office = Office()
    first = office.propose(toolName="erase")
    assert [one["gate"] for one in only(first, "Verdict")["gateResults"]][-1] == "tier_auth"
    resolved = only(office.answer(only(first, "EscalationOpened"), "ann"), "ResolvedVerdict")
    assert [one["gate"] for one in resolved["gateResults"]] == [*resolved["stages"]]
    (tier,) = [one for one in resolved["gateResults"] if one["gate"] == "tier_auth"]
    assert (tier["passed"], tier["detail"]["required_role"]) == (False, "approver")


def test_narrower_parameters_are_judged_again_and_may_be_denied() -> None:
    office = Office()
    opened = office.open_escalation()
    verdict = only(office.answer(opened, "ann", parameters={"q": "one order"}), "ResolvedVerdict")
    assert (verdict["outcome"], verdict["narrowed"][:7]) == ("ALLOW", "sha256:")
    other = office.open_escalation("a-2")
    worse = {"statement": "DROP TABLE accounts"}
    verdict = only(office.answer(other, "ann", parameters=worse), "ResolvedVerdict")
    assert (verdict["outcome"], office.rows()) == ("BLOCK", 3)
    third = office.open_escalation("a-3")
    assert refusal(office.answer(third, "ann", "deny", parameters={})) == "wrong_decision"


def test_an_action_that_can_no_longer_be_read_stays_open() -> None:
    office = Office()
    opened = office.open_escalation()
    place = (ACTIONS, 3, opened["input"]["offset"])
    kept = office.inputs[place]
    for lost in (None, kept.replace(b"open", b"shut")):
        del office.inputs[place]
        if lost is not None:
            office.inputs[place] = lost
        assert refusal(office.answer(opened, "ann")) == "content_unavailable"
        office.inputs[place] = kept
    assert only(office.answer(opened, "ann"), "ResolvedVerdict")["outcome"] == "ALLOW"


def test_an_outcome_settles_what_an_approval_reserved() -> None:
    office = Office()
    opened = office.open_escalation()
    office.answer(opened, "ann")
    bound = {"action_digest": opened["action_digest"], "input": opened["input"]}
    told = sign(outcome(action_id="a-1", reported_by="door", rows_affected=1, **bound))
    settled = only(office.take(OUTCOMES, told), "ReservationSettled")
    assert (settled["reserved"], settled["aggregateRowsAffected"], settled["lowered"]) == (3, 1, True)


def test_what_was_carried_out_without_leave_is_not_counted_again() -> None:
    office = Office()
    opened = office.open_escalation()
    office.take(OUTCOMES, outcome(action_id="a-1", rows_affected=3))
    assert office.rows() == 3
    resolved = only(office.answer(opened, "ann"), "ResolvedVerdict")
    assert (resolved["escalation"]["counted"], resolved["rows_reserved"], office.rows()) == (True, 0, 3)


def test_an_approval_after_the_window_still_counts_the_action() -> None:
    office = Office(policy={"escalation_ttl_ms": 10 * LIMITS.action_window_ms})
    opened = office.open_escalation()
    office.now += LIMITS.action_window_ms + 1
    resolved = only(office.answer(opened, "ann"), "ResolvedVerdict")
    assert (resolved["outcome"], resolved["session"]["known"], office.rows()) == ("ALLOW", None, 3)


def test_where_too_many_are_open_the_busiest_agent_gives_up_its_oldest() -> None:
    office = Office(limits=replace(LIMITS, max_escalations=2))
    first = office.open_escalation("a-1")
    office.open_escalation("a-2", agent_id="chief", toolName="pay")
    third = office.propose("a-3")
    assert kinds(third) == ["Verdict", "EscalationOpened", "EscalationExpired"]
    assert only(third, "EscalationExpired")["escalation_id"] == first["escalation_id"]
    assert refusal(office.answer(first, "ann")) == "already_ended"


@pytest.mark.parametrize("fields", [{"mode": "standard"}, {"agent_id": "trial"}])
def test_nothing_opens_where_nobody_waits(fields: dict[str, Any]) -> None:
    office = Office()
    taken = office.take(ACTIONS, action(toolName="erase", **fields))
    assert kinds(taken) == ["Verdict"]
    assert len(office.replay.book.open) == 0


def open_escalation() -> Escalation:
    """One that is open."""
    office = Office()
    office.open_escalation()
    (found,) = office.replay.book.open.oldest_first()
    return found


def test_the_table_of_transitions_is_the_whole_of_it() -> None:
    escalation = open_escalation()
    statuses = ("PENDING", "APPROVED", "DENIED", "EXPIRED")
    events = ("approval", "last_approval", "denial", "time", "eviction")
    for status, event in product(statuses, events):
        known = TRANSITIONS.get((status, event))  # type: ignore[arg-type]
        one = escalation._replace(status=status)  # type: ignore[arg-type]
        if known is None:
            with pytest.raises(ValueError, match="is too late"):
                one.advance(event, 5)  # type: ignore[arg-type]
        else:
            after = one.advance(event, 5)  # type: ignore[arg-type]
            assert (after.status, after.ended_ms) == (known, 0 if known == "PENDING" else 5)


def test_the_table_gives_back_what_it_keeps() -> None:
    office = Office(policy={"approvals": {"quorum": {"T3": 2}}})
    one, two = office.open_escalation("a-1"), office.open_escalation("a-2")
    office.answer(one, "ann")
    office.answer(two, "ben", "deny")
    book = office.replay.book
    again = Book({key: value for key, value in book.flush().items() if value is not None})
    for opened in (one, two):
        named = opened["escalation_id"]
        assert again.escalation(named) == book.escalation(named)
    assert (len(again.open), again.next_due_ms()) == (1, START + 1000 + TTL_MS)
