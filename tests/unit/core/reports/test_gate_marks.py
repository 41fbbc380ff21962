"""Mend 22.24: a gate that did not judge, or whose objection holds nothing up, is not marked as passed."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.reports.gate_marks import describe_passing, mark_gate
from tests.unit.core.actions.judging_scene import LISTED, extraction, judge, judgement

NO_ANSWER = {"port": "grader", "budget_ms": 9, "status": "timeout"}
OFF = "- did not judge: it is off, or not concerned"


def _result(gate: str, detail: Any, *, passed: bool = True, reason: str | None = None) -> dict[str, Any]:
    return {"gate": gate, "passed": passed, "failureReason": reason, "detail": detail}


@pytest.mark.parametrize(
    ("result", "mark"),
    [
        (_result("controls", {}), "✓ passed"),
        (_result("fast_reject", {"patterns": []}, passed=False, reason="x"), "✗ did not pass"),
        (_result("grader", NO_ANSWER, passed=False, reason="budget_exceeded: grader"), "✗ did not pass"),
        (
            _result("grader", NO_ANSWER, passed=False, reason="budget_exceeded"),
            "- did not judge: no answer in time",
        ),
        (_result("causal", NO_ANSWER), "- did not judge: no answer (timeout)"),
        (_result("causal", {}), OFF),
        (_result("inbound", {}), OFF),
        (_result("outbound", {}), OFF),
        (_result("outbound", {"back": "pass"}), "✓ passed"),
        (_result("inbound", {"front": "pass"}), "✓ passed"),
        (_result("inbound", {"front": "observed", "findings": [{}]}), "○ observed: would hold it up"),
        (_result("outbound", {"back": "nudged", "findings": [{}]}), "○ nudged: would hold it up"),
        (_result("inbound", {"front": "observed", "unjudged": "x"}), "○ observed: not judged to its end"),
        (_result("causal", {"would": "block", "objection": "x"}), "○ observed: would have denied"),
        (_result("grader", {"would": "escalate", "guidance": "x"}), "○ nudged: would have asked a person"),
        (
            _result("causal", {"constraints": 0, "extracted": True}),
            "- did not judge: the agent has no constraints",
        ),
        (_result("causal", {"unasked": "no doubt"}), "- did not judge: no doubt"),
        (_result("similarity", {"band": "abstained"}), "- did not judge: it resembles nothing that is known"),
        (_result("similarity", {"band": "pass"}), "✓ passed"),
        (_result("unheard_of", None), "✓ passed"),
        ({}, "✗ did not pass"),
    ],
)
def test_each_way_of_letting_an_action_pass_has_its_own_sign_and_words(
    result: dict[str, Any], mark: str
) -> None:
    assert str(mark_gate(result)) == mark


def test_every_gate_passed_is_said_only_where_each_judged() -> None:
    judged = _result("controls", {})
    assert describe_passing([judged]) == "every gate passed"
    assert describe_passing([judged, _result("causal", {})]) == "no gate held it up"


def test_a_verdict_s_own_record_tells_what_its_gates_did() -> None:
    """By the whole pipeline, whose gate `causal` observes, judges, and has nobody to judge for."""
    objects = judge(extraction(*LISTED), judgement(0.9, 2), mode="observe").verdict(agent_id="clerk")
    assert _marks(objects)["causal"] == "○ observed: would have denied"
    assert _marks(objects)["controls"] == "✓ passed"
    agrees = judge(extraction(*LISTED), judgement(0.0, 0), mode="observe").verdict(agent_id="clerk")
    assert _marks(agrees)["causal"] == "✓ passed"
    nobody = judge(mode="observe").verdict()
    assert _marks(nobody)["causal"] == OFF


def _marks(verdict: dict[str, Any]) -> dict[str, str]:
    return {one["gate"]: str(mark_gate(one)) for one in verdict["gateResults"]}
