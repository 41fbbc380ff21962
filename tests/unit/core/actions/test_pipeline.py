"""The pipeline: order, fail-fast, questions to the outside, and what is recorded of the answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.actions.plan import sort_stages
from sluice.core.actions.stage import StageResult
from sluice.core.actions.stages import list_shipped_stages
from sluice.core.foundation.errors import UnknownStageError
from sluice.core.foundation.requests import Answer, Request, next_request
from tests.unit.core.scene import ALL_STAGES, Session, action, kinds, point, read_record, verdict_of

if TYPE_CHECKING:
    from sluice.core.actions.stage import ActionContext, StageOutcome
    from sluice.core.actions.stage import Asking as Questions


@dataclass
class Fixed:
    """A stage that always finds the same."""

    outcome: StageOutcome
    name: str = "fixed"

    def evaluate(self, context: ActionContext) -> StageResult:
        reason = None if self.outcome == "pass" else f"fixed: {context.action.tool_name}"
        return StageResult(self.outcome, reason, {"seen": 1}, evidence=("doc-1",))


@dataclass
class Asking:
    """A stage that asks as many times as there are outcomes, and ends with what the last answer says."""

    rounds: int = 1
    name: str = "asking"
    heard: list[object] = field(default_factory=list)

    def evaluate(self, context: ActionContext) -> Questions:
        del context
        for number in range(1, self.rounds + 1):
            answer = yield Request("oracle", {"round": number}, 50)
            self.heard.append(answer.payload)
        last = self.heard[-1]
        return StageResult("pass") if last == "fine" else StageResult("block", f"oracle: {last}")


def gates(verdict: dict[str, Any]) -> list[str]:
    return [gate["gate"] for gate in verdict["gateResults"]]


def add_stage(*stages: Any, answers: tuple[Answer, ...] = ()) -> Session:
    return Session(
        point(stages=[*stages, *sort_stages(["tier_auth"], list_shipped_stages())]), answers=list(answers)
    )


def test_every_gate_is_listed_in_order_with_its_time_and_one_that_the_plan_settles_takes_none() -> None:
    ticks = count(0, 1_500_000)
    verdict = Session(point(stopwatch=lambda: next(ticks))).verdict()
    assert gates(verdict) == list(ALL_STAGES)
    took = {gate["gate"]: gate["durationMs"] for gate in verdict["gateResults"]}
    settled = {name for name, ms in took.items() if ms == 0}
    idle = {"controls", "limits", "outbound", "similarity", "causal", "destinations", "policies", "grader"}
    assert settled == idle & set(ALL_STAGES)
    assert {took[name] for name in took.keys() - settled} == {1.5}


def test_a_block_ends_the_pipeline() -> None:
    verdict = add_stage(Fixed("block")).verdict(toolName="erase")
    assert gates(verdict) == ["fixed"]
    assert (verdict["outcome"], verdict["blockReason"]) == ("BLOCK", "fixed: erase")
    assert verdict["evidence_refs"] == ["doc-1"]


def test_an_escalation_goes_straight_to_tier_auth_and_opens_once() -> None:
    decision = add_stage(Fixed("escalate"), Fixed("block", "never")).propose()
    verdict = verdict_of(decision)
    assert gates(verdict) == ["fixed", "tier_auth"]
    assert verdict["blockReason"] == "fixed: find"
    assert kinds(decision) == ["Verdict", "EscalationOpened"]
    assert decision.records[1].body["reason"] == "fixed: find"


def test_an_escalation_without_a_reason_bears_its_gates_name() -> None:
    class Silent(Fixed):
        """A stage that says nothing."""

        def evaluate(self, context: ActionContext) -> StageResult:
            return super().evaluate(context)._replace(reason=None)

    verdict = add_stage(Silent("escalate"), Fixed("block", "never")).verdict()
    assert (verdict["outcome"], verdict["blockReason"]) == ("ESCALATE", "fixed")


def test_an_answer_resumes_the_stage_and_is_recorded() -> None:
    session = add_stage(Asking(), answers=(Answer("answered", "fine"),))
    verdict = session.verdict()
    assert verdict["outcome"] == "ALLOW"
    assert session.asked == [Request("oracle", {"round": 1}, 50)]
    assert verdict["model_outputs"] == [
        {"gate": "asking", "port": "oracle", "status": "answered", "payload": "fine", "detail": ""}
    ]


def test_a_stage_may_ask_again() -> None:
    answers = (Answer("answered", {"score": 0.5}), Answer("answered", "no"))
    session = add_stage(Asking(rounds=2), answers=answers)
    verdict = session.verdict()
    assert (verdict["outcome"], verdict["blockReason"]) == ("BLOCK", "oracle: no")
    assert [one["payload"] for one in verdict["model_outputs"]] == [{"score": 0.5}, "no"]


@dataclass
class Sometimes:
    """A stage that asks about some tools alone, and blocks the others by itself."""

    name: str = "sometimes"
    ended: list[str] = field(default_factory=list)

    def evaluate(self, context: ActionContext) -> Questions:
        try:
            if context.action.tool_name == "find":
                yield Request("oracle", {}, 50)
        finally:
            self.ended.append(context.action.tool_name)
        return StageResult("block", "sometimes: no")


@pytest.mark.parametrize(("tool", "expected"), [("find", "ESCALATE"), ("change", "BLOCK")])
def test_behind_an_escalation_a_stage_that_needs_an_answer_is_left_out(tool: str, expected: str) -> None:
    """The caller's claim makes the action stricter, so that what needs no answer may still block."""
    late = Sometimes()
    session = add_stage(Fixed("escalate"), late)
    verdict = session.verdict(toolName=tool, reversible=False)
    assert verdict["outcome"] == expected
    assert ("sometimes" in gates(verdict)) == (expected == "BLOCK")
    assert session.asked == []
    assert late.ended == [tool]


@pytest.mark.parametrize(
    ("status", "mode", "outcome", "reason"),
    [
        ("overrun", "standard", "ALLOW", None),
        ("overrun", "high_stakes", "BLOCK", "budget_exceeded: asking"),
        ("unavailable", "standard", "ESCALATE", "inconclusive: asking got no answer of oracle"),
        ("unavailable", "high_stakes", "ESCALATE", "inconclusive: asking got no answer of oracle"),
    ],
)
def test_no_answer_is_never_made_up(status: Any, mode: str, outcome: str, reason: str | None) -> None:
    verdict = add_stage(Asking(), answers=(Answer(status, detail="why"),)).verdict(mode=mode)
    assert (verdict["outcome"], verdict["blockReason"]) == (outcome, reason)
    assert verdict["model_outputs"][0]["status"] == status
    assert verdict["gateResults"][0]["passed"] is False
    skipped = [one for one in verdict["advisories"] if one["source"] == "sluice.asking"]
    assert len(skipped) == (1 if (status, mode) == ("overrun", "standard") else 0)


@pytest.mark.parametrize("payload", [float("nan"), {"a": [float("inf")]}, object()])
def test_a_payload_that_is_no_json_value_is_no_answer(payload: object) -> None:
    verdict = add_stage(Asking(), answers=(Answer("answered", payload),)).verdict()
    assert verdict["verdict"] == "needs_human"
    assert verdict["model_outputs"][0]["payload"] is None


def test_a_large_integer_of_a_model_is_recorded_as_a_string() -> None:
    verdict = add_stage(Asking(), answers=(Answer("answered", 2**60),)).verdict()
    assert verdict["model_outputs"][0]["payload"] == str(2**60)


def test_an_evaluation_may_be_abandoned_at_a_question() -> None:
    session = add_stage(Asking(), answers=(Answer("answered", "fine"),))
    input_record = session.input_record("gate.actions.proposed", action())
    message = read_record(input_record.topic, input_record.value)
    evaluation = session.point.evaluate(input_record, message, session.state)
    next_request(evaluation)
    evaluation.close()
    assert session.state.gone
    assert session.verdict()["session"]["after"]["aggregateActionCount"] == 1


def test_an_unknown_stage_is_named_at_loading() -> None:
    with pytest.raises(UnknownStageError, match=r"'fast_rejct'.*controls, limits, inbound, outbound"):
        sort_stages(["controls", "fast_rejct"], list_shipped_stages())


def test_the_same_input_gives_the_same_rerun_hash_whatever_the_time_it_took() -> None:
    ticks = count(0, 7777)
    slow, fast = Session(point(stopwatch=lambda: next(ticks))).verdict(), Session().verdict()
    assert slow["gateResults"] != fast["gateResults"]
    assert slow["rerun_hash"] == fast["rerun_hash"]


@pytest.mark.parametrize(
    "changed", [{"rows_affected": 2}, {"parameters": {}}, {"mode": "standard"}, {"action_id": "other"}]
)
def test_any_other_input_gives_another_rerun_hash(changed: dict[str, Any]) -> None:
    assert Session().verdict()["rerun_hash"] != Session().verdict(**changed)["rerun_hash"]


def test_another_session_before_gives_another_rerun_hash() -> None:
    first, second = Session(), Session()
    second.propose(action_id="earlier")
    second.offset = 0
    assert first.verdict()["rerun_hash"] != second.verdict()["rerun_hash"]
