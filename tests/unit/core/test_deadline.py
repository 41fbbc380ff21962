"""Mend 1: a caller's deadline that has passed is never answered with an allowance."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sluice.core.actions.stages import list_shipped_stages
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.decide.replay import decide
from sluice.core.foundation.input_record import InputRecord
from sluice.core.state.session import SessionState, session_key
from sluice_topics.catalog import ACTIONS
from tests.unit.core.callers_scene import POINT, verdict
from tests.unit.core.scene import LIMITS, START, verdict_of


@pytest.mark.parametrize(
    ("waited_ms", "mode", "outcome"),
    [
        (999, "high_stakes", "ALLOW"),
        (1000, "high_stakes", "BLOCK"),
        (1000, "standard", "ESCALATE"),
        (10**6, "standard", "ESCALATE"),
    ],
)
def test_an_elapsed_deadline_is_never_allowed(waited_ms: int, mode: str, outcome: str) -> None:
    base = {"agent_id": "example-operator", "mode": mode, "toolName": "search_records", "parameters": {}}
    found = verdict({**base, "deadline_ms": 1000}, waited_ms)
    assert (found["outcome"], found["waited_ms"]) == (outcome, waited_ms)
    if outcome != "ALLOW":
        assert found["blockReason"] == f"deadline_elapsed: after {waited_ms} ms, the caller waits 1000 ms"
        assert found["gateResults"][-1]["gate"] == "deadline"
    assert verdict(base, waited_ms)["outcome"] == "ALLOW"
    assert "waited_ms" not in verdict(base, waited_ms)


def test_the_time_that_the_stages_take_counts_towards_the_deadline() -> None:
    ticks = iter(range(0, 10**12, 400_000_000))
    slow = DecisionPoint(
        POINT.policy, list_shipped_stages(), LIMITS, stopwatch=lambda: next(ticks), environment="test"
    )
    fields = {"action_id": "a", "session_id": "s", "agent_id": "example-operator", "mode": "high_stakes"}
    call = {"toolName": "search_records", "parameters": {}, "deadline_ms": 1000}
    input_record = InputRecord(ACTIONS, 0, 1, START, b"s", json.dumps({**fields, **call}).encode())
    found = verdict_of(decide(slow, input_record, SessionState(session_key("s"))))
    assert (found["outcome"], found["waited_ms"] >= 1000) == ("BLOCK", True)
    again = verdict_of(
        decide(POINT, replace(input_record, waited_ms=found["waited_ms"]), SessionState(session_key("s")))
    )
    assert again["rerun_hash"] == found["rerun_hash"]


@pytest.mark.parametrize(("mode", "outcome"), [("high_stakes", "BLOCK"), ("standard", "ESCALATE")])
def test_a_repeat_that_comes_too_late_is_not_allowed_and_counts_nothing(mode: str, outcome: str) -> None:
    fields = {"action_id": "a", "session_id": "s", "agent_id": "example-operator", "mode": mode}
    raw = json.dumps({**fields, "toolName": "search_records", "parameters": {}, "deadline_ms": 50}).encode()
    state = SessionState(session_key("s"))
    first = decide(POINT, InputRecord(ACTIONS, 0, 1, START, b"s", raw), state)
    state.apply(first.session)
    late = verdict_of(decide(POINT, InputRecord(ACTIONS, 0, 2, START, b"s", raw, waited_ms=50), state))
    assert (verdict_of(first)["outcome"], late["outcome"]) == ("ALLOW", outcome)
    assert late["duplicate_of"] == verdict_of(first)["verdict_id"]
    assert late["session"]["after"] == late["session"]["before"]
