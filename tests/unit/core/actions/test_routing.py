"""Where an escalation goes: which group may answer when, and what time writes of it, once each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.foundation.clock import rfc3339
from sluice.core.state.book import Book
from sluice.core.state.escalation import Escalation, Route
from sluice_topics.catalog import REVIEWS
from tests.unit.core.actions.escalation_scene import TTL_MS, Office, answer_to, approver, grant_request
from tests.unit.core.scene import kinds, only

if TYPE_CHECKING:
    from sluice.core.state.decision import Decision

MINUTE = 60_000
GROUPS = ("desk", "leads", "board")
ROUTE = {"tiers": ["T3"], "groups": ["desk", "leads"], "remind_after_ms": MINUTE, "next_after_ms": 2 * MINUTE}
OF_GROUPS = (
    approver("ann", "approver", groups=["desk"]),
    approver("ben", "approver", groups=["leads"]),
    approver("vera", "vp", groups=["board"]),
)


def office(*routing: dict[str, Any], **approvals: Any) -> Office:
    """People of groups, and these routes; without one the route of T3."""
    policy = {"routing": list(routing or (ROUTE,)), **approvals}
    return Office(OF_GROUPS, policy={"approvals": policy})


def timer(at: Office, ms: int) -> list[dict[str, Any]]:
    """What the timer writes so many ms after the start of the scene; the partition keeps it."""
    decision = at.point(*at.more).expire_held(at.replay.book, at.now + ms, 10)
    at.replay.book.apply(() if decision is None else decision.book)
    return [] if decision is None else [one.body for one in decision.records]


def schemas(bodies: list[dict[str, Any]]) -> list[str]:
    """The words of their schemas."""
    return [one["schema"].split("/")[1].removeprefix("escalation_") for one in bodies]


def refusal(decision: Decision) -> str:
    """Why an answer did not count."""
    assert kinds(decision) == ["InputRefused"]
    return str(only(decision, "InputRefused")["reason"])


def test_the_opening_names_the_group_and_when_it_is_reminded_and_passed_on() -> None:
    at = office()
    opened = at.open_escalation()
    assert [opened[name] for name in ("group", "next_group")] == ["desk", "leads"]
    assert [opened[name] for name in ("remind_at", "next_at")] == [
        rfc3339(at.now + MINUTE),
        rfc3339(at.now + 2 * MINUTE),
    ]
    assert (
        not {"group", "remind_at", "next_group", "next_at"} & at.open_escalation("a-2", toolName="pay").keys()
    )


def test_time_reminds_each_group_and_passes_the_escalation_on() -> None:
    at = office()
    opened = at.open_escalation()
    assert timer(at, MINUTE - 1) == []
    (reminded,) = timer(at, MINUTE)
    assert (reminded["schema"], reminded["group"]) == ("sluice/escalation_reminded/v1", "desk")
    assert (reminded["due_at"], reminded["input"]) == (opened["remind_at"], None)
    assert timer(at, 2 * MINUTE - 1) == []
    assert at.replay.book.next_due_ms() == at.now + 2 * MINUTE
    (rerouted,) = timer(at, 2 * MINUTE + 500)
    assert [rerouted[name] for name in ("from_group", "group", "next_group")] == ["desk", "leads", None]
    assert rerouted["due_at"] == opened["next_at"]
    assert rerouted["decided_at"] == rfc3339(at.now + 2 * MINUTE + 500)
    assert rerouted["remind_at"] == rfc3339(at.now + 3 * MINUTE)
    assert schemas(timer(at, 3 * MINUTE)) == ["reminded"]
    assert timer(at, TTL_MS - 1) == []
    assert schemas(timer(at, TTL_MS)) == ["expired"]


def test_the_state_keeps_the_route() -> None:
    at = office()
    at.open_escalation()
    (waiting,) = at.replay.book.open.oldest_first()
    assert waiting.route is not None
    assert Escalation.decode(waiting.encode()) == waiting


def test_a_timer_that_comes_late_writes_every_step_and_then_the_end() -> None:
    at = office()
    at.open_escalation()
    late = timer(at, TTL_MS + MINUTE)
    assert schemas(late) == ["reminded", "rerouted", "reminded", "expired"]
    assert timer(at, 2 * TTL_MS) == []


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_only_the_groups_that_have_it_answer_and_earlier_ones_keep_the_right(decision: str) -> None:
    at = office()
    opened, second = at.open_escalation(), at.open_escalation("a-2")
    assert refusal(at.answer(opened, "ben", decision)) == "wrong_group"
    at.now += 2 * MINUTE
    assert "EscalationResolved" in kinds(at.answer(opened, "ben", decision))
    assert "EscalationResolved" in kinds(at.answer(second, "ann", decision))


def test_an_answer_to_the_millisecond_of_the_handover_counts() -> None:
    for early, expected in ((1, "InputRefused"), (0, "EscalationResolved")):
        at = office()
        opened = at.open_escalation()
        at.now += 2 * MINUTE - 1000 - early
        assert kinds(at.answer(opened, "ben"))[-1] == expected


def test_an_answer_that_comes_before_the_timer_writes_what_was_due_first() -> None:
    at = office(quorum={"T3": 2})
    opened = at.open_escalation()
    at.now += 2 * MINUTE
    first = at.replay._decide(at.input_record(REVIEWS, answer_to(opened, "ann")))  # noqa: SLF001 - no timer has run
    assert kinds(first) == ["EscalationReminded", "EscalationRerouted", "ApprovalCounted"]
    assert {one.body["input"]["topic"] for one in first.records} == {REVIEWS}
    assert timer(at, 0) == []
    at.now += MINUTE
    last = at.replay._decide(at.input_record(REVIEWS, answer_to(opened, "ben")))  # noqa: SLF001 - likewise
    assert kinds(last) == ["EscalationReminded", "ResolvedVerdict", "EscalationResolved"]
    assert only(last, "EscalationReminded")["approvals"] == 1
    resolved = only(last, "ResolvedVerdict")["escalation"]
    assert resolved["route"] == {name: value for name, value in ROUTE.items() if name != "tiers"}


def test_an_answer_that_is_refused_writes_no_step() -> None:
    at = office()
    opened = at.open_escalation()
    at.now += MINUTE
    refused = at.replay._decide(at.input_record(REVIEWS, answer_to(opened, "ben")))  # noqa: SLF001 - no timer has run
    assert refusal(refused) == "wrong_group"
    assert schemas(timer(at, 0)) == ["reminded"]


def test_an_approval_counts_only_while_its_approver_is_still_of_a_group() -> None:
    at = office(quorum={"T3": 2})
    opened = at.open_escalation()
    at.answer(opened, "ann")
    moved = approver("ann", "approver", groups=["archive"])
    at.replay.point = at.point(*OF_GROUPS, moved)
    at.now += 2 * MINUTE
    timer(at, 1000)
    counted = only(at.answer(opened, "ben"), "ApprovalCounted")
    assert (counted["approvals"], counted["dropped"]) == (1, ["ann"])


def test_the_highest_tier_needs_a_vp_of_the_group() -> None:
    at = office({"groups": ["desk", "board"], "next_after_ms": MINUTE})
    opened = at.open_escalation(toolName="pay")
    assert (opened["tier"], opened["group"]) == ("T4", "desk")
    assert refusal(at.answer(opened, "ann")) == "wrong_role"
    assert refusal(at.answer(opened, "vera")) == "wrong_group"
    at.now += MINUTE
    assert only(at.answer(opened, "vera"), "ResolvedVerdict")["outcome"] == "ALLOW"


@pytest.mark.parametrize(
    ("route", "group"),
    [
        ({"tools": ["ER*"]}, "desk"),
        ({"tools": ["find", "e?ase"]}, "desk"),
        ({"tools": ["find*"]}, "leads"),
        ({"tenants": ["acme"]}, "desk"),
        ({"tenants": ["globex"]}, "leads"),
        ({"tiers": ["T4"]}, "leads"),
        ({"tiers": ["T2", "T3"], "tools": ["erase"], "tenants": ["acme"]}, "desk"),
    ],
)
def test_the_first_route_that_matches_counts(route: dict[str, Any], group: str) -> None:
    at = office({"groups": ["desk"], **route}, {"groups": ["leads"]})
    assert at.open_escalation()["group"] == group


def test_a_grant_s_signer_must_be_of_the_group_that_the_route_asks_for() -> None:
    at = office({"groups": ["desk"]})
    at.answer(at.open_escalation(), "ann", grant=grant_request(uses=5))
    assert only(at.propose("a-2"), "Verdict")["outcome"] == "ALLOW"
    at.replay.point = at.point(*OF_GROUPS, approvals={"routing": [{"groups": ["leads"]}]})
    assert at.open_escalation("a-3")["group"] == "leads"


ROUTES = st.builds(
    lambda count, remind, after: Route(
        GROUPS[:count], remind if remind is None else min(remind, after - 1), after if count > 1 else None
    ),
    st.integers(1, 3),
    st.none() | st.integers(1, 100),
    st.integers(2, 100),
)


@given(ROUTES, st.integers(0, 10**13), st.integers(0, 400))
def test_steps_come_in_order_once_each_and_say_who_may_answer(route: Route, opened: int, after: int) -> None:
    steps = route.steps(opened)
    assert [one.at_ms for one in steps] == sorted(one.at_ms for one in steps)
    assert len({(one.event, one.position) for one in steps}) == len(steps)
    reminders = 0 if route.remind_after_ms is None else len(route.groups)
    assert len(steps) == reminders + len(route.groups) - 1
    reroutes = sum(one.event == "reroute" and one.at_ms <= opened + after for one in steps)
    assert route.list_reached(opened, opened + after) == route.groups[: 1 + reroutes]


MOMENTS = st.lists(st.integers(1, TTL_MS // 1000), min_size=1, max_size=12)


@given(MOMENTS, st.sampled_from(["ann", "ben", "vera", None]), st.data())
def test_what_time_writes_depends_on_neither_timers_nor_restarts(
    moments: list[int], by: str | None, data: st.DataObject
) -> None:
    """Timers run, partitions change hands and somebody may answer at any moment: the steps up to the end are
    there once each, with the times of the route."""
    at = office({"groups": list(GROUPS), "remind_after_ms": 70_000, "next_after_ms": 130_000})
    opened = at.open_escalation()
    (waiting,) = at.replay.book.open.oldest_first()
    began, table, written = at.now, dict[bytes, bytes | None](), list[dict[str, Any]]()
    answered_ms = data.draw(st.sampled_from(moments)) * 1000 if by is not None else TTL_MS
    for second in [*sorted(moments), TTL_MS // 1000]:
        at.now = began + second * 1000
        if data.draw(st.booleans()) or second * 1000 == TTL_MS:
            written += timer(at, 0)
        if by is not None and second * 1000 == answered_ms:
            answer = at.replay._decide(at.input_record(REVIEWS, answer_to(opened, by)))  # noqa: SLF001 - no timer
            written += [one.body for one in answer.records]
        if data.draw(st.booleans()):
            table |= at.replay.book.flush()
            at.replay.book = Book({key: value for key, value in table.items() if value is not None})
    ends = [one for one in written if one["schema"].endswith(("_resolved/v1", "_expired/v1"))]
    assert len(ends) == 1
    counted = ends[0]["schema"].endswith("_resolved/v1")
    assert waiting.route is not None
    due = waiting.route.steps(began)
    until = began + (answered_ms if counted else TTL_MS)
    assert [one["due_at"] for one in written if "due_at" in one] == [
        rfc3339(one.at_ms) for one in due if one.at_ms <= until
    ]
    groups = {name: one.groups for name, one in at.point(*OF_GROUPS).policy.registry.approvers.items()}
    may = by is not None and waiting.has_reached(groups[by], began + answered_ms)
    assert counted == (may and answered_ms < TTL_MS)
