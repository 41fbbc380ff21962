"""The checkpoint `integrity`: what an objection comes to under each mode, and whom a model is asked about."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.actions.causal import CausalPolicy
from sluice.core.actions.grader import GraderPolicy
from sluice.core.foundation.requests import Answer
from sluice_topics.checkpoints import find_aip_verdict
from sluice_topics.relaxations import find_relaxations
from tests.unit.core.actions.judging_scene import (
    LISTED,
    POLITE,
    UNPROVED,
    extraction,
    grade,
    judge,
    judgement,
    make_in_doubt,
    make_score,
)
from tests.unit.core.scene import Session, bundle, entry, point

MILD = {"observe": "observed", "nudge": "nudged"}
GONE, LATE = Answer("unavailable", None, "no key"), Answer("overrun")


def select(gate: str, verdict: dict[str, Any]) -> dict[str, Any]:
    return next(one for one in verdict["gateResults"] if one["gate"] == gate)


def make_objecting(gate: str, mode: str) -> tuple[Session, str, str]:
    """A session whose model objects, who acts, and what the objection would have come to."""
    if gate == "causal":
        return judge(extraction(*LISTED), judgement(0.9, 2), mode=mode), "clerk", "block"
    return grade(0.8, 0.75, mode=mode), "operator", "escalate"


@pytest.mark.parametrize("gate", ["causal", "grader"])
@pytest.mark.parametrize("mode", [*MILD])
def test_a_milder_mode_lets_pass_and_says_what_would_have_been(gate: str, mode: str) -> None:
    session, agent, would = make_objecting(gate, mode)
    verdict = session.verdict(agent_id=agent)
    assert (verdict["outcome"], verdict["blockReason"]) == ("ALLOW", None)
    assert verdict["checkpoints"]["integrity"] == MILD[mode]
    detail = select(gate, verdict)["detail"]
    assert detail["would"] == would
    assert ("guidance" in detail) == (mode == "nudge")
    told = [one["text"] for one in verdict["advisories"] if one["source"] == f"sluice.{gate}"]
    does = "would deny this action" if would == "block" else "would ask a person"
    assert told == [f"{gate} {does}: {detail['objection']}"]
    assert find_aip_verdict(verdict) == ("boundary_violation" if would == "block" else "ambiguous")


def test_nudge_says_what_to_mind_with_the_model_s_reasons() -> None:
    session, agent, _ = make_objecting("causal", "nudge")
    guidance = select("causal", session.verdict(agent_id=agent))["detail"]["guidance"]
    assert guidance == f"semantic_violation: 0.90: {LISTED[1]}. It would."
    session, agent, _ = make_objecting("grader", "nudge")
    guidance = select("grader", session.verdict(agent_id=agent))["detail"]["guidance"]
    assert guidance == "inconclusive: rule polite: a message must be polite. so"


@pytest.mark.parametrize("mode", ["enforce", *MILD])
def test_where_the_model_objects_to_nothing_all_modes_pass(mode: str) -> None:
    verdict = grade(0.9, mode=mode).verdict()
    assert (verdict["outcome"], verdict["checkpoints"]["integrity"]) == ("ALLOW", "pass")
    assert "would" not in select("grader", verdict)["detail"]


@pytest.mark.parametrize("answer", [GONE, LATE])
def test_a_missing_answer_holds_nothing_up_and_the_checkpoint_has_not_passed(answer: Answer) -> None:
    session = grade(mode="observe")
    session.answers.append(answer)
    verdict = session.verdict()
    assert (verdict["outcome"], verdict["checkpoints"]["integrity"]) == ("ALLOW", "observed")
    assert select("grader", verdict)["detail"]["status"] == answer.status
    assert "sluice.grader" in [one["source"] for one in verdict["advisories"]]
    assert any("integrity" in one["text"] for one in verdict["advisories"])


@pytest.mark.parametrize(
    ("gate", "answer"), [("causal", judgement(0.9)), ("grader", make_score(0.1))], ids=["causal", "grader"]
)
def test_in_doubt_asks_about_what_similarity_did_not_let_pass(gate: str, answer: Answer) -> None:
    spared = make_in_doubt(gate, 0.29)
    verdict = spared.verdict(agent_id="clerk")
    assert verdict["outcome"] == "ALLOW"
    assert select(gate, verdict)["detail"] == {"unasked": "the action resembles nothing harmful"}
    assert (verdict["checkpoints"]["integrity"], find_aip_verdict(verdict)) == ("observed", "skipped")
    assert len(spared.asked) == 1
    for probability in (0.31, 0.9):
        asked = make_in_doubt(gate, probability, answers=(answer,))
        assert asked.verdict(agent_id="clerk")["outcome"] == "BLOCK"
        assert len(asked.asked) == 2


def test_without_similarity_there_is_doubt() -> None:
    session = grade(0.1, ask="in_doubt")
    assert session.verdict()["outcome"] == "BLOCK"


def test_a_milder_mode_and_fewer_questions_are_looser() -> None:
    strict, mild = CausalPolicy(enabled=True), CausalPolicy(enabled=True, mode="nudge", ask="in_doubt")
    assert [one.path for one in find_relaxations(strict, mild)] == ["mode", "ask"]
    assert [*find_relaxations(mild, strict)] == []
    graders = [
        GraderPolicy.model_validate({"rules": [POLITE], "mode": one}) for one in ("enforce", "observe")
    ]
    assert [one.sentence for one in find_relaxations(*graders)] == [
        "an objection is only observed, not enforced"
    ]
    assert [*find_relaxations(*reversed(graders))] == []


@pytest.mark.parametrize("mode", ["standard", "high_stakes"])
def test_where_all_four_checkpoints_ran_none_is_said_to_be_missing(mode: str) -> None:
    """Seed 002: all four run on every request."""
    stages = ["controls", "inbound", "outbound", "grader", "tier_auth"]
    parts = {name: {"mode": "enforce"} for name in ("inbound", "outbound")}
    grader = {"rules": [POLITE], "proof": UNPROVED}
    policy = bundle(patterns={}, stages=stages, **parts, grader=grader)
    told = entry("tool", "tell", tier="T1", action_type="MESSAGE", reversible=True)
    session = Session(point(told, policy=policy), answers=[make_score(0.9)])
    verdict = session.verdict(toolName="tell", parameters={"to": "a customer"}, mode=mode)
    assert verdict["outcome"] == "ALLOW"
    assert set(verdict["checkpoints"].values()) == {"pass"}
    assert "sluice.checkpoints" not in [one["source"] for one in verdict["advisories"]]
