"""What several approvals count for together: one text, and what the policy demands when the last one comes.

Mend 22.1: votes count together only for the same parameters; others start the count again.
Mend 22.4: a tier that rises while an action waits is approved by those who fulfil the higher one.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.actions.escalation_scene import Office, grant_request
from tests.unit.core.actions.test_approvals import refusal
from tests.unit.core.scene import entry, kinds, only

QUORUM = {"approvals": {"quorum": {"T3": 2}}}
LESS = {"amount": 1, "to": "ann"}
SAME_LESS = {"to": "ann", "amount": 1.0}
MORE = {"amount": 99_999, "to": "ann"}


def office(**more: Any) -> tuple[Office, dict[str, Any]]:
    """One escalation that needs two."""
    made = Office(policy=QUORUM, **more)
    return made, made.open_escalation(parameters={"amount": 500, "to": "ann"})


def test_the_last_approver_replaces_nothing_that_the_first_one_signed() -> None:
    at, opened = office()
    first = only(at.answer(opened, "ann", parameters=LESS), "ApprovalCounted")
    assert (first["approvals"], first["approved_parameters"] != opened["parameters_digest"]) == (1, True)
    other = at.answer(opened, "ben", parameters=MORE)
    assert kinds(other) == ["ApprovalCounted"]
    again = only(other, "ApprovalCounted")
    assert (again["approvals"], again["dropped"], again["dropped_because"]) == (
        1,
        ["ann"],
        "other_parameters",
    )
    assert at.rows() == 0
    resolved = only(at.answer(opened, "ann", parameters=MORE), "ResolvedVerdict")
    assert [one["approver_id"] for one in resolved["approvals"]] == ["ben", "ann"]
    assert resolved["narrowed"] == again["approved_parameters"] == resolved["escalation"]["votes_for"]


def test_an_approval_as_proposed_does_not_complete_a_narrowing() -> None:
    at, opened = office()
    at.answer(opened, "ann", parameters=LESS)
    counted = only(at.answer(opened, "ben"), "ApprovalCounted")
    assert (counted["dropped"], counted["approved_parameters"]) == (["ann"], opened["parameters_digest"])
    resolved = only(at.answer(opened, "vera"), "ResolvedVerdict")
    assert (resolved["outcome"], "narrowed" in resolved) == ("ALLOW", False)


@pytest.mark.parametrize(
    ("one", "two"),
    [(LESS, SAME_LESS), (None, {"to": "ann", "amount": 500}), ({"to": "ann", "amount": 500.0}, None)],
)
def test_the_same_parameters_count_together_however_they_are_written(
    one: dict[str, Any] | None, two: dict[str, Any] | None
) -> None:
    at, opened = office()
    first: dict[str, Any] = {} if one is None else {"parameters": one}
    second: dict[str, Any] = {} if two is None else {"parameters": two}
    at.answer(opened, "ann", **first)
    last = at.answer(opened, "ben", **second)
    assert only(last, "ResolvedVerdict")["outcome"] == "ALLOW"


def test_who_approved_may_approve_other_parameters_and_still_counts_once() -> None:
    at, opened = office()
    at.answer(opened, "ann")
    narrowed = only(at.answer(opened, "ann", parameters=LESS), "ApprovalCounted")
    assert (narrowed["approvals"], narrowed["dropped"]) == (1, ["ann"])
    assert refusal(at.answer(opened, "ann", parameters=SAME_LESS)) == "already_counted"
    assert only(at.answer(opened, "ben", parameters=LESS), "ResolvedVerdict")["outcome"] == "ALLOW"


ERASES = entry("tool", "erase", tier="T4", action_type="DATABASE_WRITE", reversible=False)
RISEN = {**ERASES, "revision": 2}


def rise(at: Office, *more: dict[str, Any], **policy: Any) -> None:
    """The registry or the bundle changes while it waits."""
    at.replay.point = at.point(*more, **policy)


HIGHER = {"approvals": {"quorum": {"T3": 1, "T4": 2}}}


def test_a_tier_that_rises_while_it_waits_needs_the_higher_tiers_approvals() -> None:
    at = Office(policy=HIGHER)
    opened = at.open_escalation()
    rise(at, RISEN)
    assert refusal(at.answer(opened, "ann")) == "wrong_role"
    counted = only(at.answer(opened, "vera"), "ApprovalCounted")
    assert (counted["approvals"], counted["quorum"], counted["tier"], counted["required_role"]) == (
        1,
        2,
        "T4",
        "vp",
    )
    assert at.rows() == 0
    assert refusal(at.answer(opened, "ann")) == "wrong_role"
    assert refusal(at.answer(opened, "vera")) == "already_counted"
    resolved = only(at.answer(opened, "boss"), "ResolvedVerdict")
    assert (resolved["outcome"], [one["approver_id"] for one in resolved["approvals"]]) == (
        "ALLOW",
        ["vera", "boss"],
    )
    assert (resolved["escalation"]["tier"], resolved["escalation"]["quorum"]) == ("T4", 2)


def test_approvals_below_the_role_of_the_new_tier_count_no_more() -> None:
    at = Office(policy={"approvals": {"quorum": {"T3": 2, "T4": 2}}})
    opened = at.open_escalation()
    at.answer(opened, "ann")
    rise(at, RISEN)
    counted = only(at.answer(opened, "vera"), "ApprovalCounted")
    assert (counted["approvals"], counted["dropped"], counted["dropped_because"]) == (
        1,
        ["ann"],
        "not_entitled",
    )
    assert only(at.answer(opened, "boss"), "ResolvedVerdict")["outcome"] == "ALLOW"


def test_a_quorum_that_rises_counts_and_one_that_falls_does_not() -> None:
    at = Office()
    opened, second = at.open_escalation(), at.open_escalation("a-2")
    rise(at, **QUORUM)
    assert only(at.answer(opened, "ann"), "ApprovalCounted")["quorum"] == 2
    rise(at)
    assert only(at.answer(opened, "ben"), "ResolvedVerdict")["outcome"] == "ALLOW"
    assert only(at.answer(second, "ann"), "ResolvedVerdict")["outcome"] == "ALLOW"


def test_a_grant_is_not_given_for_a_tier_that_rose_to_the_highest() -> None:
    at = Office()
    opened = at.open_escalation()
    rise(at, RISEN)
    assert refusal(at.answer(opened, "vera", grant=grant_request())) == "wrong_grant"
