"""Gate 3: which policies are judged, by whom, and what a violation comes to (seed 001)."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.actions.closest import PORT, NamedTexts
from sluice.core.actions.grading import PORT as GRADER
from sluice.core.foundation.errors import BundleError
from sluice.core.foundation.requests import Answer
from tests.unit.core.actions.judging_scene import UNPROVED, make_score
from tests.unit.core.scene import Session, bundle, point, relaxations

STAGES = ["controls", "fast_reject", "rules", "consequence", "topology", "policies", "grader", "tier_auth"]
SOURCE = {"document": "handbook", "place": "section 2"}


def policy(name: str, **more: Any) -> dict[str, Any]:
    """A semantic policy for every tool, unless `more` says otherwise."""
    return {"id": name, "title": f"title of {name}", "text": f"text of {name}", "source": SOURCE, **more}


FEW = policy("few", condition="action.rows < 10", outcome="block")
MILD = policy("mild", condition="action.rows < 5")
FIND_ONLY = policy("find_only", appliesToTools=["FIND*"])
UNDECIDED = "inconclusive: policy p: title of p"
VIOLATED = "policy_violated: p: title of p (handbook, section 2)"
CHANGE_ONLY = policy("change_only", appliesToTools=["change"])


def judge(*policies: dict[str, Any], answers: tuple[Answer, ...] = (), **part: Any) -> Session:
    """A session under these policies."""
    made = bundle(
        patterns={}, stages=STAGES, policies={"policies": list(policies), **part}, grader={"proof": UNPROVED}
    )
    return Session(point(policy=made), answers=list(answers))


def detail(verdict: dict[str, Any]) -> dict[str, Any]:
    found = next(one for one in verdict["gateResults"] if one["gate"] == "policies")
    told: dict[str, Any] = found["detail"]
    return told


def closest(policies: list[dict[str, Any]], *near: tuple[str, float], **changed: Any) -> Answer:
    texts = NamedTexts.of({one["id"]: f"{one['title']}: {one['text']}" for one in policies})
    nearest = [{"id": name, "cosine": cosine} for name, cosine in near]
    return Answer("answered", {"model": "sha256:m", "library": texts.hash, "nearest": nearest, **changed})


@pytest.mark.parametrize(
    ("policies", "rows", "outcome", "reason"),
    [
        ((FEW,), 9, "ALLOW", None),
        ((FEW,), 10, "BLOCK", "policy_violated: few: title of few (handbook, section 2)"),
        ((MILD,), 5, "ESCALATE", "policy_violated: mild: title of mild (handbook, section 2)"),
        ((MILD, FEW), 10, "BLOCK", "policy_violated: few: title of few (handbook, section 2)"),
        ((policy("p", condition="action.parameters.none == 1"),), 1, "ESCALATE", UNDECIDED),
        ((policy("p", condition="false", when="action.rows > 3"),), 3, "ALLOW", None),
        ((policy("p", condition="false", appliesToTools=["pay"]),), 3, "ALLOW", None),
        ((policy("p", condition="false", appliesToTools=["f?nd"]),), 3, "ESCALATE", VIOLATED),
    ],
)  # fmt: skip
def test_explicit_policies_need_no_model(
    policies: tuple[dict[str, Any], ...], rows: int, outcome: str, reason: str | None
) -> None:
    session = judge(*policies)
    verdict = session.verdict(rows_affected=rows)
    assert (verdict["outcome"], verdict["blockReason"], session.asked) == (outcome, reason, [])


@pytest.mark.parametrize(
    ("score", "does", "outcome"),
    [(0.9, "block", "ALLOW"), (0.6, "block", "BLOCK"), (0.6, "escalate", "ESCALATE")],
)
def test_semantic_ones_are_the_grader_s(score: float, does: str, outcome: str) -> None:
    session = judge(policy("kind", outcome=does), answers=(make_score(score),))
    verdict = session.verdict()
    assert verdict["outcome"] == outcome
    (told,) = detail(verdict)["policies"]
    assert (told["policy"], told["score"], told["document"], told["looks"]) == ("kind", score, "handbook", 1)
    asked: Any = session.asked[0].payload
    assert "title of kind: text of kind" in asked["question"]["criterion"]


def test_a_block_that_rules_find_asks_no_model() -> None:
    session = judge(FEW, policy("kind"))
    assert session.verdict(rows_affected=10)["outcome"] == "BLOCK"
    assert session.asked == []


def test_those_that_name_the_tool_are_always_judged_and_of_the_others_the_closest() -> None:
    others = [policy(f"p{number}") for number in range(4)]
    found = closest(others, ("p2", 0.8), ("p0", 0.3))
    answers = (found, make_score(0.9), make_score(0.95), make_score(1.0))
    session = judge(CHANGE_ONLY, FIND_ONLY, *others, answers=answers, closest=2)
    told = detail(session.verdict())["policies"]
    assert [(one["policy"], one.get("cosine"), one["score"]) for one in told] == [
        ("find_only", None, 0.9),
        ("p2", 0.8, 0.95),
        ("p0", 0.3, 1.0),
    ]
    assert [one.port for one in session.asked] == [PORT, GRADER, GRADER, GRADER]


def test_where_all_fit_nothing_is_looked_up() -> None:
    session = judge(policy("a"), policy("b"), answers=(make_score(0.9), make_score(0.9)), closest=2)
    assert session.verdict()["outcome"] == "ALLOW"
    assert [one.port for one in session.asked] == [GRADER, GRADER]


@pytest.mark.parametrize(
    "answer",
    [
        Answer("unavailable", detail="no encoder"),
        closest([policy("a"), policy("b")], ("other", 0.5)),
        closest([policy("a"), policy("b")], ("a", 0.5), library="sha256:other"),
    ],
)
def test_without_a_look_up_it_is_inconclusive(answer: Answer) -> None:
    session = judge(policy("a"), policy("b"), answers=(answer,), closest=1)
    verdict = session.verdict()
    assert (verdict["outcome"], verdict["blockReason"].split(":")[0]) == ("ESCALATE", "inconclusive")


def test_the_state_is_one_with_stage_2() -> None:
    rule = {"id": "polite", "reason": "be polite", "criterion": "It is polite."}
    made = bundle(
        patterns={},
        stages=STAGES,
        policies={"policies": [policy("mild")]},
        grader={"rules": [rule], "proof": UNPROVED},
    )
    session = Session(
        point(policy=made), answers=[make_score(0.6), make_score(0.8), make_score(0.8), make_score(0.9)]
    )
    first, second = session.verdict(), session.verdict(action_id="second")
    assert (first["outcome"], len(session.asked)) == ("ESCALATE", 2)  # an escalation goes on to Gate 4 alone
    assert first["session"].get("remembered") is None
    assert second["session"]["remembered"]["grader"] == {"state": "governed"}
    assert second["outcome"] == "ESCALATE"


@pytest.mark.parametrize(("mode", "tells"), [("observe", False), ("nudge", True)])
@pytest.mark.parametrize(
    ("policies", "answers", "would", "objection"),
    [
        ((FEW,), (), "block", "policy_violated: few: title of few (handbook, section 2)"),
        ((MILD,), (), "escalate", "policy_violated: mild: title of mild (handbook, section 2)"),
        ((policy("p", outcome="block"),), (make_score(0.1),), "block", VIOLATED),
        ((policy("p"),), (make_score(0.8), make_score(0.75)), "escalate", UNDECIDED),
    ],
    ids=["explicit-block", "explicit-escalate", "judged-block", "judged-unsure"],
)
def test_a_milder_mode_lets_pass_what_the_verdict_says_would_have_been(
    policies: tuple[dict[str, Any], ...],
    answers: tuple[Answer, ...],
    would: str,
    objection: str,
    mode: str,
    tells: bool,
) -> None:
    """Mend 22.17: as with the other gates that ask a model, and for conditions in CEL alike."""
    session = judge(*policies, answers=answers, mode=mode)
    verdict = session.verdict(rows_affected=20)
    assert (verdict["outcome"], verdict["blockReason"]) == ("ALLOW", None)
    told = detail(verdict)
    assert (told["would"], told["objection"], "guidance" in told) == (would, objection, tells)
    assert [one["outcome"] for one in told["policies"]] != ["passed"]
    does = "would deny this action" if would == "block" else "would ask a person"
    assert f"policies {does}: {objection}" in [one["text"] for one in verdict["advisories"]]
    enforced = judge(*policies, answers=answers)
    outcome = "BLOCK" if would == "block" else "ESCALATE"
    assert enforced.verdict(rows_affected=20)["outcome"] == outcome


def test_a_missing_answer_holds_nothing_up_where_policies_only_observe() -> None:
    """Mend 22.17."""
    gone = Answer("unavailable", None, "no key")
    verdict = judge(policy("p", outcome="block"), answers=(gone,), mode="observe").verdict()
    assert (verdict["outcome"], detail(verdict)["status"]) == ("ALLOW", "unavailable")
    assert "sluice.policies" in [one["source"] for one in verdict["advisories"]]


def test_to_observe_is_looser_and_the_way_back_is_not() -> None:
    """Mend 22.17: what `bundle check`, `sign`, `publish` and `diff` name."""
    strict, mild = (
        bundle(stages=STAGES, policies={"policies": [FEW], "mode": mode}) for mode in ("enforce", "observe")
    )
    (found,) = relaxations(strict, mild)
    assert found.path == "policies.mode"
    assert found.sentence == "a violation of a policy is only observed, not enforced"
    assert relaxations(mild, strict) == []


def test_what_is_refused_and_what_relaxes_it() -> None:
    for wrong, said in (
        ([FEW, FEW], "two policies have the same id"),
        ([policy("p", condition="action.no_such")], "$.policies.policies[0].condition: "),
        ([FEW, policy("p", condition="true", when="1")], "$.policies.policies[1].when: "),
        ([policy("p", when="true")], "$.policies.policies[0].when: only a policy with a condition has one"),
    ):
        with pytest.raises(BundleError) as error:
            bundle(patterns={}, stages=STAGES, policies={"policies": wrong})
        assert said in str(error.value)
    before = bundle(patterns={}, stages=STAGES, policies={"policies": [FEW, MILD, FIND_ONLY]})
    fewer = [{**FEW, "outcome": "escalate"}, {**FIND_ONLY, "appliesToTools": ["find"]}]
    after = bundle(patterns={}, stages=STAGES, policies={"policies": fewer, "closest": 1})
    assert [one.path for one in relaxations(before, after)] == [
        "policies.policies[mild]",
        "policies.policies[few].outcome",
        "policies.policies[find_only].appliesToTools",
        "policies.closest",
    ]
