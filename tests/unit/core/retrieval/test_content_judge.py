"""A model's opinion on retrieved bodies: when it is asked, and that it can only make an outcome stricter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.foundation.content_judge import PROMPT, TOGETHER
from sluice.core.foundation.requests import Answer
from tests.unit.core.retrieval.scene import (
    OLD,
    POISONED,
    SUSPECT,
    TEXT,
    TIERS,
    Scene,
    flag_only,
    item,
    quality,
)

if TYPE_CHECKING:
    from sluice.core.foundation.requests import Request

WEAK = "weakly bad"
SEVERITY = ("pass", "flag", "downgrade", "deny")


def opinion(trust: float) -> dict[str, Any]:
    """The model's opinion on one body."""
    said = {"trust": trust, "categories": ["goal_change"], "explanation": "It does.", "text": 1}
    return {"model": "m", "prompt_version": PROMPT.version, **said}


class Model:
    """Answers with this trust in every body, and keeps what it was asked."""

    def __init__(self, trust: float) -> None:
        self.trust = trust
        self.asked: list[list[str]] = []

    def __call__(self, request: Request) -> Answer:
        assert request.port == TOGETHER
        payload: Any = request.payload
        self.asked.append([one["texts"]["1"] for one in payload["questions"]])
        return Answer("answered", {"answers": [opinion(self.trust) for _ in payload["questions"]]})


def judge_with(answer: Any, when: str = "always", **part: Any) -> Scene:
    """A session under a quality bundle that asks the model."""
    return Scene(quality=quality(content_judge={"judge": when, **part}), port=answer)


def bodies(*texts: str) -> list[dict[str, Any]]:
    return [item(item_id=f"{place}", body=text) for place, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("when", "asked"),
    [("off", []), ("in_doubt", [[WEAK]]), ("always", [[TEXT, WEAK, SUSPECT]])],
)
def test_which_bodies_it_is_asked_about(when: str, asked: list[list[str]]) -> None:
    model = Model(0.9)
    scene = judge_with(model, when)
    texts = (TEXT, WEAK, SUSPECT, POISONED)
    found = scene.read(*bodies(*texts), agent_id="sandbox")
    assert model.asked == asked
    told = ["model_outputs" in one for one in found.events]
    assert told == [any(text in one for one in asked) for text in texts]


def test_a_body_that_is_not_released_anyway_is_not_asked_about() -> None:
    model = Model(0.9)
    found = judge_with(model).read(item(timestamp=OLD), item(item_id="bad", body=SUSPECT), item(body=""))
    assert (found.outcomes, model.asked) == (["deny", "downgrade", "pass"], [])


@pytest.mark.parametrize(
    ("tier", "trust", "outcome"),
    [
        ("sandbox", 0.7, "pass"),
        ("sandbox", 0.69, "flag"),
        ("sandbox", 0.29, "downgrade"),
        ("bounded", 0.69, "downgrade"),
        ("bounded", 0.3, "downgrade"),
        ("bounded", 0.29, "deny"),
        ("high_privilege", 0.69, "deny"),
    ],
)
def test_an_opinion_counts_as_a_finding_of_a_weight(tier: str, trust: float, outcome: str) -> None:
    found = judge_with(Model(trust)).read(agent_id=tier)
    assert (found.event["outcome"], found.event["stages"][-1]["outcome"]) == (outcome, outcome)
    objects = outcome != "pass"
    assert found.event["flags_set"] == ["content_suspect"] * objects
    assert found.event["reason_codes"] == ["CONTENT_UNSAFE"] * objects
    assert found.event["reason"] == (f"judged: trust {trust:.2f}: goal_change" if objects else None)
    assert found.event["body_released"] == (outcome in ("pass", "flag"))


def test_what_is_asked_of_a_body() -> None:
    seen: list[Request] = []

    def answer(request: Request) -> Answer:
        seen.append(request)
        return Answer("answered", {"answers": [opinion(0.9)]})

    found = judge_with(answer, most_characters=256).read(item(body="word " * 60))
    (request,) = seen
    payload: Any = request.payload
    (question,) = payload["questions"]
    assert (question["role"], question["tool"], question["omitted_characters"]) == ("retrieved", None, 44)
    assert len(question["texts"]["1"]["head"]) == len(question["texts"]["1"]["tail"]) == 128
    assert found.event["reason"] == "inconclusive: 44 characters were not judged"
    assert payload["scope"].keys() == {"tenant", "bundle", "rule"}


@pytest.mark.parametrize("failure", ["strong", "ignore"])
def test_a_body_beyond_the_bound_or_without_an_answer(failure: str) -> None:
    model = Model(0.9)
    scene = judge_with(model, most_items=2, on_failure=failure)
    found = scene.read(*bodies("a", "b", "c", "d"))
    assert model.asked == [["a", "b"]]
    missing = "downgrade" if failure == "strong" else "pass"
    assert found.outcomes == ["pass", "pass", missing, missing]
    late = judge_with(lambda _: Answer("overrun", detail="over 2000 ms"), on_failure=failure).read(
        *bodies("a", "b")
    )
    assert late.outcomes == [missing, missing]
    if failure == "strong":
        told = "inconclusive: the model's answer on the body is missing: overrun"
        assert late.events[0]["reason"] == told
    for one in (scene, judge_with(lambda _: Answer("unavailable"), on_failure=failure)):
        one.read(*bodies("a", "b", "c"))
        assert one.statuses() == {"identical"}


@pytest.mark.parametrize(
    "payload", [None, {}, {"answers": []}, {"answers": [opinion(1.0)]}, {"answers": "ab"}]
)
def test_answers_that_do_not_fit_the_questions_are_none(payload: Any) -> None:
    scene = judge_with(lambda _: Answer("answered", payload))
    assert scene.read(*bodies("a", "b")).outcomes == ["downgrade", "downgrade"]
    assert scene.statuses() == {"identical"}


def test_one_that_could_not_be_had_costs_the_others_nothing() -> None:
    scene = judge_with(lambda _: Answer("answered", {"answers": [opinion(0.9), {"failed": "down"}]}))
    assert scene.read(*bodies("a", "b")).outcomes == ["pass", "downgrade"]
    assert scene.statuses() == {"identical"}


def test_under_shadow_it_is_asked_and_only_flags() -> None:
    scene = judge_with(Model(0.1))
    event = scene.read(agent_id="trial").event
    assert (event["outcome"], event["would_have_been"]) == ("flag", "deny")
    assert (event["flags_set"], event["reason"]) == (["content_suspect"], "judged: trust 0.10: goal_change")
    assert scene.statuses() == {"identical"}


opinions = st.one_of(
    st.floats(0, 1).map(opinion),
    st.sampled_from([{"failed": "down"}, {**opinion(1.0), "trust": 2}, None, {}]),
)
ITEMS = st.lists(
    st.tuples(
        st.sampled_from([TEXT, WEAK, SUSPECT, POISONED]), st.sampled_from(["2025-11-20T10:00:00Z", OLD])
    ),
    min_size=1,
    max_size=4,
)


@given(
    ITEMS,
    st.sampled_from([*TIERS, "trial"]),
    st.sampled_from(["in_doubt", "always"]),
    st.lists(opinions, min_size=4, max_size=4),
    st.sampled_from([(), ("legal_text",)]),
)
def test_no_answer_whatever_it_says_makes_anything_laxer(
    items: list[tuple[str, str]], reader: str, when: str, said: list[Any], lenient: tuple[str, ...]
) -> None:
    def answer(request: Request) -> Answer:
        payload: Any = request.payload
        return Answer("answered", {"answers": said[: len(payload["questions"])]})

    read = [item(item_id=f"{place}", body=text, timestamp=at) for place, (text, at) in enumerate(items)]
    rollout = flag_only(*lenient)
    alone = Scene(quality=quality(rollout=rollout)).read(*read, agent_id=reader)
    part = {"judge": when, "most_items": 2}
    scene = Scene(quality=quality(rollout=rollout, content_judge=part), port=answer)
    asked = scene.read(*read, agent_id=reader)
    for before, after in zip(alone.events, asked.events, strict=True):
        assert SEVERITY.index(after["outcome"]) >= SEVERITY.index(before["outcome"])
        assert set(after["flags_set"]) >= set(before["flags_set"])
        assert after["body_released"] <= before["body_released"]
    assert scene.statuses() == {"identical"}


def test_a_changed_answer_in_the_record_shows() -> None:
    scene = judge_with(Model(0.1))
    event = scene.read().event
    (told,) = event["model_outputs"]
    harmless = {**told, "payload": {"answers": [opinion(0.9)]}}
    changed = scene.rerun({**event, "model_outputs": [harmless]})
    assert "outcome" in {one.field for one in changed.differences}
    gone = scene.rerun({name: value for name, value in event.items() if name != "model_outputs"})
    assert {one.field for one in gone.differences} == {"model_outputs"}
