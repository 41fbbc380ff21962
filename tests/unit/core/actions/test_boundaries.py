"""Every bound of the deterministic core one below it, at it and one above it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sluice.core.actions.authority import Controls, TierAuth
from sluice.core.actions.fast_reject import FastReject
from sluice_topics.catalog import ACTIONS
from tests.unit.core.scene import (
    LIMITS,
    START,
    Session,
    action,
    bundle,
    entry,
    kinds,
    make_counted,
    only,
    point,
)

PLAIN = bundle(patterns={})
GATES = (Controls(), FastReject(), TierAuth())
WINDOW, IDLE = LIMITS.action_window_ms, LIMITS.idle_timeout_ms


def scene(*entries: dict[str, Any], **limits: int) -> Session:
    return Session(point(*entries, policy=PLAIN, stages=GATES, limits=replace(LIMITS, **limits)))


def threshold_of_acme(rows: int) -> dict[str, Any]:
    return entry("org", "acme", irreversible_row_threshold=rows)


@pytest.mark.parametrize("threshold", [0, 1, 500, 2**53 - 1])
@pytest.mark.parametrize("step", [-1, 0, 1])
@pytest.mark.parametrize("reversible", [True, False, None])
def test_irreversible_rows_are_blocked_above_the_threshold(
    threshold: int, step: int, reversible: bool | None
) -> None:
    tool = make_counted("it", action_type="CODE_EXECUTION", reversible=reversible)
    verdict = scene(threshold_of_acme(threshold), tool).verdict(
        toolName="it", rows_affected=max(threshold + step, 0)
    )
    blocked = reversible is not True and step == 1
    assert (verdict["outcome"] == "BLOCK") is blocked
    if blocked:
        assert verdict["blockReason"] == f"irreversible_rows: {threshold + 1} above {threshold}"


@pytest.mark.parametrize(("threshold", "outcome"), [(99, "BLOCK"), (100, "ESCALATE"), (101, "ESCALATE")])
def test_rows_that_nobody_told_count_as_the_types_upper_bound(threshold: int, outcome: str) -> None:
    fields = {"toolName": "anything", "action_type": "CODE_EXECUTION", "rows_affected": None}
    assert PLAIN.action_types["CODE_EXECUTION"].rows_upper_bound == 100
    assert scene(threshold_of_acme(threshold)).verdict(**fields)["outcome"] == outcome


@pytest.mark.parametrize(("step", "repeated"), [(-1, True), (0, False), (1, False)])
def test_an_action_id_is_known_until_its_window_ends(step: int, repeated: bool) -> None:
    session = scene()
    session.propose()
    session.now += WINDOW + step
    assert (session.verdict()["duplicate_of"] is not None) is repeated
    assert session.actions == (1 if repeated else 2)


@pytest.mark.parametrize(("step", "kept"), [(-1, True), (0, False), (1, False)])
@pytest.mark.parametrize("by_timer", [True, False])
def test_a_session_keeps_its_totals_until_it_was_idle_for_the_timeout(
    step: int, kept: bool, by_timer: bool
) -> None:
    session = scene()
    session.propose(rows_affected=7)
    session.now += IDLE + step
    if by_timer:
        decision = session.point.expire(session.state.key, session.state, session.now)
        assert (decision is None) is kept
        session.state.apply(decision.session if decision else ())
    assert session.verdict(action_id="act-2")["session"]["before"]["aggregateRowsAffected"] == (
        7 if kept else 0
    )


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_the_last_action_that_a_session_can_remember_is_judged_and_the_next_denied(limit: int) -> None:
    session = scene(max_recent_actions=limit)
    reasons = [session.verdict(action_id=f"act-{number}")["blockReason"] for number in range(limit + 1)]
    assert reasons == [None] * limit + ["session_capacity"]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_the_last_outcome_that_can_wait_is_kept_and_the_next_refused(limit: int) -> None:
    session = scene(max_early_outcomes=limit)
    found = [kinds(session.report(action_id=f"act-{number}")) for number in range(limit + 1)]
    assert found == [[]] * limit + [["InputRefused"]]


@pytest.mark.parametrize(("step", "settles"), [(-1, True), (0, False), (1, False)])
def test_an_outcome_waits_for_its_action_as_long_as_the_window(step: int, settles: bool) -> None:
    session = scene()
    session.report(rows_affected=9)
    session.now += WINDOW + step
    assert ("ReservationSettled" in kinds(session.propose())) is settles
    assert session.rows == (9 if settles else 1)


@pytest.mark.parametrize(("step", "found"), [(-1, []), (0, ["InputRefused"]), (1, ["InputRefused"])])
def test_a_signed_outcome_waits_for_an_action_of_the_last_window_alone(step: int, found: list[str]) -> None:
    session = scene()
    late = session.sign_outcome(session.input_record(ACTIONS, action()), rows_affected=9)
    session.now += WINDOW + step
    assert kinds(session.put(late)) == found


@pytest.mark.parametrize(("ttl_ms", "expires"), [(1, "13:00:00.001Z"), (60_000, "13:01:00.000Z")])
def test_an_escalation_expires_after_the_bundles_time(ttl_ms: int, expires: str) -> None:
    session = Session(point(policy=bundle(patterns={}, escalation_ttl_ms=ttl_ms), stages=GATES))
    assert session.now == START
    opened = only(session.propose(toolName="erase"), "EscalationOpened")
    assert (opened["opened_at"], opened["expires_at"]) == (
        "2025-11-21T13:00:00.000Z",
        f"2025-11-21T{expires}",
    )


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize(
    ("subject", "name", "meant"),
    [
        ("tenant", "acme", True),
        ("agent", "operator", True),
        ("session", "s-1", True),
        ("tenant", "globex", False),
        ("agent", "chief", False),
        ("session", "s-2", False),
        ("agent", "acme", False),
        ("tenant", "operator", False),
    ],
)
def test_a_freeze_stops_what_it_names_and_nothing_else(
    subject: str, name: str, meant: bool, active: bool
) -> None:
    freeze = entry("freeze", "f", subject=subject, subject_id=name, reason="stop", active=active)
    reason = f"frozen_{subject}: stop" if meant and active else None
    assert scene(freeze).verdict()["blockReason"] == reason
