"""Gate 2, L3: constraints from a system prompt or an entry, and a model's confidence that one is violated."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sluice.core.actions.causal import EXTRACTION_PORT, PORT
from sluice.core.foundation.errors import BundleError
from sluice.core.foundation.requests import Answer
from sluice.core.state.session import Counted, EntryKept
from tests.unit.core.actions.judging_scene import JUDGED, LISTED, PROMPT, extraction, judge, judgement
from tests.unit.core.scene import bundle, relaxations


def detail_of(verdict: dict[str, Any]) -> dict[str, Any]:
    found = next(one for one in verdict["gateResults"] if one["gate"] == "causal")
    detail: dict[str, Any] = found["detail"]
    return detail


@pytest.mark.parametrize(
    ("confidence", "outcome"),
    [
        (0.0, "ALLOW"),
        (0.4999, "ALLOW"),
        (0.5, "ESCALATE"),
        (0.8499, "ESCALATE"),
        (0.85, "BLOCK"),
        (1, "BLOCK"),
    ],
)
def test_thresholds(confidence: float, outcome: str) -> None:
    session = judge(extraction(*LISTED), judgement(confidence, 2))
    verdict = session.verdict(agent_id="clerk")
    assert verdict["outcome"] == outcome
    detail = detail_of(verdict)
    assert (detail["violation_confidence"], detail["constraint"]) == (confidence, LISTED[1])
    assert (detail["reasoning"], detail["extracted"]) == ("It would.", True)
    assert [one.port for one in session.asked] == [EXTRACTION_PORT, PORT]


def test_the_model_sees_the_prompt_once_and_then_the_constraints_with_the_action() -> None:
    session = judge(extraction(*LISTED), judgement(0.1))
    session.verdict(agent_id="clerk", reasoning="the customer asked")
    asked: list[Any] = [one.payload for one in session.asked]
    assert asked[0]["question"] == {"system_prompt": PROMPT}
    assert asked[1]["question"]["constraints"] == {"1": LISTED[0], "2": LISTED[1]}
    assert asked[1]["question"]["action"]["agent_says"] == "the customer asked"
    assert asked[1]["scope"]["tenant"] == "acme"
    assert [one.budget_ms for one in session.asked] == [10_000, 50]


def test_the_model_is_told_what_kinds_of_untrusted_content_the_session_has_read() -> None:
    session = judge(judgement(0.1), agent={"system_prompt": PROMPT, "constraints": ["Refund nobody."]})
    read = EntryKept("acme", "clerk", "read", "flagged", (2, 0, "kb-7"))
    session.state.apply([Counted("acme", 0, 0), read])
    session.state.last_at = session.now
    session.verdict(agent_id="clerk")
    (asked,) = [cast("Any", one.payload)["question"] for one in session.asked]
    assert asked["session_has_read"] == ["flagged"]
    assert "kb-7" not in str(asked)


def test_signed_constraints_count_in_place_of_extracted_ones() -> None:
    session = judge(judgement(0.9), agent={"system_prompt": PROMPT, "constraints": ["Refund nobody."]})
    verdict = session.verdict(agent_id="clerk")
    assert verdict["blockReason"] == "semantic_violation: 0.90: Refund nobody."
    assert (len(session.asked), detail_of(verdict)["extracted"]) == (1, False)


@pytest.mark.parametrize(
    ("agent", "answers"),
    [({}, ()), ({"constraints": []}, ()), ({"system_prompt": "Be kind."}, (extraction(),))],
)
def test_without_constraints_there_is_nothing_to_judge(
    agent: dict[str, Any], answers: tuple[Answer, ...]
) -> None:
    session = judge(*answers, agent=agent)
    assert (session.verdict(agent_id="clerk")["outcome"], len(session.asked)) == ("ALLOW", len(answers))


def test_a_bundle_that_does_not_ask_for_it() -> None:
    session = judge(enabled=False)
    assert (session.verdict(agent_id="clerk")["outcome"], session.asked) == ("ALLOW", [])


@pytest.mark.parametrize(
    "answers",
    [
        (Answer("unavailable", detail="no key"),),
        (Answer("answered", {"constraints": "none"}),),
        (extraction(*LISTED), Answer("unavailable", detail="gone")),
        (extraction(*LISTED), Answer("answered", {"violation_confidence": 0.1})),
        (extraction(*LISTED), judgement(0.1, 3)),
    ],
)
@pytest.mark.parametrize("mode", ["standard", "high_stakes"])
def test_no_answer_is_inconclusive(answers: tuple[Answer, ...], mode: str) -> None:
    verdict = judge(*answers).verdict(agent_id="clerk", mode=mode)
    assert (verdict["outcome"], verdict["blockReason"].split(":")[0]) == ("ESCALATE", "inconclusive")


@pytest.mark.parametrize(("mode", "outcome"), [("standard", "ALLOW"), ("high_stakes", "BLOCK")])
def test_over_its_budget(mode: str, outcome: str) -> None:
    session = judge(extraction(*LISTED), Answer("overrun"))
    assert session.verdict(agent_id="clerk", mode=mode)["outcome"] == outcome


@pytest.mark.parametrize(("confidence", "outcome"), [(0.0, "ESCALATE"), (0.9, "BLOCK")])
def test_what_was_not_shown_can_only_be_judged_against(confidence: float, outcome: str) -> None:
    session = judge(extraction(*LISTED), judgement(confidence), most_characters=256)
    verdict = session.verdict(agent_id="clerk", parameters={"q": "y" * 1000})
    assert verdict["outcome"] == outcome
    assert detail_of(verdict)["omitted_characters"] == len('{"q":""}') + 1000 - 256


def test_a_part_that_is_refused_and_what_relaxes_it() -> None:
    with pytest.raises(BundleError, match="escalate_at is above block_at"):
        bundle(patterns={}, stages=JUDGED, causal={"escalate_at": 0.9})
    before = bundle(patterns={}, stages=JUDGED, causal={"enabled": True})
    after = bundle(patterns={}, stages=JUDGED, causal={"escalate_at": 0.6, "block_at": 0.9})
    assert [one.path for one in relaxations(before, after)] == [
        "causal.enabled",
        "causal.escalate_at",
        "causal.block_at",
    ]
