"""An analysis by a model only ever lowers a memory's trust, and says where it could not be had."""

from __future__ import annotations

import json
import math
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.foundation.prompts import user_turn
from sluice.core.foundation.requests import Answer
from sluice.core.memory.analysis import (
    PORT,
    PROMPT,
    SCHEMA,
    Analysis,
    Ceiling,
    build_question,
    read_analysis,
    read_ceiling,
)
from sluice.core.memory.trust import Facts, route, score
from sluice.core.policy.memory_policy import AnalysisPolicy, TrustPolicy
from sluice.core.state.history import UNSEEN
from sluice.detection.text_inspection import ContentInspection, Kind
from sluice.ports import AnalysisOff
from sluice.stream.engine.evaluation import Ports

POLICY = AnalysisPolicy(head_characters=4, tail_characters=3)
IGNORING = POLICY.model_copy(update={"on_failure": "ignore"})
TRUST = TrustPolicy()
PLAIN = ContentInspection((), 30, 0.0, 0.0, None)


def ask(*of: Any) -> Any:
    """What the model is shown."""
    payload: Any = build_question(*of).payload
    return payload["question"]


ANSWER: dict[str, Any] = {
    "model": "claude-test-1",
    "prompt_version": PROMPT.version,
    "trust": 0.4,
    "categories": ["memory_poisoning"],
    "explanation": "Attributes an approval to the user that nobody gave.",
}

trusts = st.floats(0, 1)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
near_answers = st.builds(
    lambda field, value: {**ANSWER, field: value}, st.sampled_from([*ANSWER, "note", "off"]), json_values
)
payloads = st.one_of(
    trusts.map(lambda trust: {**ANSWER, "trust": trust}),
    near_answers,
    json_values,
    st.just({"off": "no key"}),
)
answers = st.one_of(
    payloads.map(lambda payload: Answer("answered", payload)),
    st.sampled_from([Answer("overrun", detail="over 2000 ms"), Answer("unavailable", detail="down")]),
)


def facts(source_type: str, *, mismatch: bool = False) -> Facts:
    """An ordinary text from a source of this type."""
    return Facts(source_type, UNSEEN, mismatch, None, PLAIN)


def compute_after(before: Facts, analysis: Analysis) -> Facts:
    """The facts with what an analysis has to say."""
    if analysis.ceiling is not None:
        return before._replace(ceiling=analysis.ceiling.trust, ceiling_by="llm_analysis")
    return before._replace(inconclusive=("llm_analysis",)) if analysis.standing == "inconclusive" else before


sources = st.builds(
    facts, st.sampled_from(["system", "agent", "user", "plugin", "external"]), mismatch=st.booleans()
)


@given(sources, answers, st.sampled_from([POLICY, IGNORING]))
def test_no_answer_whatever_it_says_raises_the_total(
    before: Facts, answer: Answer, policy: AnalysisPolicy
) -> None:
    total = score(TRUST, compute_after(before, read_analysis(answer, policy))).total
    assert 0 <= total <= score(TRUST, before).total


@given(sources, trusts, trusts)
def test_a_lower_opinion_never_gives_a_higher_total(before: Facts, one: float, other: float) -> None:
    totals = [
        score(
            TRUST,
            compute_after(before, read_analysis(Answer("answered", {**ANSWER, "trust": trust}), POLICY)),
        ).total
        for trust in sorted((one, other))
    ]
    assert totals == sorted(totals)
    assert totals[0] <= round(min(one, other), 6)


@given(payloads)
def test_only_an_answer_to_the_letter_has_a_ceiling(payload: Any) -> None:
    found = read_ceiling(payload)
    if found is not None:
        assert set(payload) == set(ANSWER)
        assert not isinstance(payload["trust"], bool)
        assert 0 <= found.trust <= 1
        assert set(found.categories) <= set(get_args(Kind))
        assert len(found.explanation) <= 500


@given(answers)
def test_every_answer_has_a_record_that_json_can_hold(answer: Answer) -> None:
    json.dumps(read_analysis(answer, POLICY).record(), allow_nan=False)


def test_an_answer_sets_the_ceiling_with_its_reasons() -> None:
    analysis = read_analysis(Answer("answered", ANSWER), POLICY)
    assert analysis.ceiling == Ceiling(
        0.4, ("memory_poisoning",), ANSWER["explanation"], "claude-test-1", PROMPT.version
    )
    assert score(TRUST, compute_after(facts("system"), analysis)).total == 0.4
    assert analysis.record() == {"status": "analysed", **ANSWER}


@pytest.mark.parametrize(
    "answer",
    [
        Answer("overrun", detail="over 2000 ms"),
        Answer("unavailable", detail="the model's API answered 529: it is overloaded"),
        Answer("answered", {**ANSWER, "trust": 2.0}),
        Answer("answered", {**ANSWER, "trust": math.nan}),
        Answer("answered", {**ANSWER, "off": "no key"}),
        Answer("answered", None),
    ],
)
def test_without_a_readable_answer_the_write_waits_for_a_person_unless_the_bundle_says_otherwise(
    answer: Answer,
) -> None:
    held, ignored = read_analysis(answer, POLICY), read_analysis(answer, IGNORING)
    assert (held.standing, ignored.standing) == ("inconclusive", "ignored")
    assert route(TRUST, score(TRUST, compute_after(facts("system"), held))) == "quarantine"
    assert route(TRUST, score(TRUST, compute_after(facts("system"), ignored))) == "allow"


async def test_a_worker_without_a_key_says_that_analysis_is_off_and_holds_nothing() -> None:
    ports = Ports({PORT: AnalysisOff("no API key is set")})
    analysis = read_analysis(await ports.answer(build_question("A note.", "user", POLICY)), POLICY)
    assert analysis == Analysis("off", detail="no API key is set")
    assert route(TRUST, score(TRUST, compute_after(facts("user"), analysis))) == "allow"


@given(st.text(max_size=60))
def test_a_question_shows_the_whole_text_or_its_head_and_tail_and_says_how_much_is_missing(text: str) -> None:
    payload = ask(text, "external", POLICY)
    assert isinstance(payload, dict)
    head, tail, omitted = payload["head"], payload["tail"], payload["omitted_characters"]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + omitted + len(tail) == len(text)
    assert omitted == max(0, len(text) - 7)


def test_a_question_without_a_tail_omits_the_rest() -> None:
    headed = POLICY.model_copy(update={"tail_characters": 0})
    assert ask("aaaab", "user", headed) == {
        "source_type": "user",
        "head": "aaaa",
        "omitted_characters": 1,
        "tail": "",
    }


@given(st.text(max_size=60))
def test_the_user_turn_is_one_json_string_that_the_text_cannot_leave(text: str) -> None:
    payload = ask(text, "user", POLICY)
    assert json.loads(user_turn(payload)) == payload


@pytest.mark.parametrize("hidden", ["\u200b", "\u2066", "\ufe01", "\U000e0041", "\u00ad", "\x1b"])
def test_the_model_sees_characters_that_a_reader_would_not(hidden: str) -> None:
    turn = user_turn({"head": f"a{hidden}b"})
    assert turn.isprintable()
    assert "\\u" in turn


def test_the_schema_asks_for_nothing_that_constrained_decoding_refuses() -> None:
    assert SCHEMA["required"] == list(SCHEMA["properties"])
    assert SCHEMA["additionalProperties"] is False
    assert not {"minimum", "maximum", "maxLength"} & set(json.dumps(SCHEMA).split('"'))
