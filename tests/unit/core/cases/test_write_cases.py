"""A bundle's own cases of memory writes: each field that came out otherwise is told, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.core.actions.stages import load_bundle
from sluice.core.cases.cases import run_cases
from sluice.core.foundation.errors import BundleError
from tests.unit.core.rerun.reruns import document
from tests.unit.core.rerun.test_rerun_memory import BAD, CONTENT, EXEMPT, HELD, SIMILARITY
from tests.unit.core.scene import entry

MODELS = {"similarity": SIMILARITY, "analysis": {}, "trust": {"llmAnalysis": True}}
NEAR = {
    "model": "sha256:m",
    "library": "sha256:l",
    "windows": 1,
    "of": 1,
    "attack": {"id": "a1", "cosine": 0.9},
    "benign": {"id": "b1", "cosine": 0.1},
}
DISTRUST = {"model": "m", "prompt_version": "1", "trust": 0.1, "categories": [], "explanation": "a lie"}


def find_result(write: dict[str, Any], expect: dict[str, Any], **more: Any) -> list[tuple[str, Any, Any]]:
    case = {"name": "it", "write": write, "expect": expect, **more}
    rules = load_bundle(document(memory={"content": CONTENT, **MODELS}, cases=[case]))
    return [(one.field, one.expected, one.actual) for one in run_cases(rules)]


@pytest.mark.parametrize(
    ("write", "expect"),
    [
        ({"content": "The customer prefers e-mail."}, {"action": "allow", "reason": "trusted"}),
        ({"content": HELD}, {"action": "quarantine", "findings": ["test.strong"]}),
        ({"content": BAD}, {"action": "reject", "reason": "finding: test.definite"}),
        ({"content": "x", "timestamp": None}, {"action": "reject", "reason": "quality_metadata: timestamp"}),
    ],
)
def test_a_case_that_comes_out_as_expected_is_silent(write: dict[str, Any], expect: dict[str, Any]) -> None:
    assert find_result(write, expect) == []


def test_each_field_that_differs_is_told_with_both_values() -> None:
    expect = {"action": "allow", "reason": "trusted", "findings": ["test.strong", "test.weak"]}
    assert find_result({"content": HELD}, expect) == [
        ("action", "allow", "quarantine"),
        ("reason", "trusted", "finding: test.strong"),
        ("findings", "test.weak", "not found"),
    ]


@pytest.mark.parametrize(
    ("answers", "expect"),
    [
        ({"embedding": NEAR}, {"action": "quarantine", "findings": ["similarity.a1"]}),
        ({"analysis": DISTRUST}, {"action": "reject", "reason": "llm_analysis"}),
        ({"embedding": "nonsense"}, {"action": "quarantine", "reason": "inconclusive: similarity"}),
    ],
)
def test_a_case_brings_the_answers_that_nobody_is_asked_for(
    answers: dict[str, Any], expect: dict[str, Any]
) -> None:
    assert find_result({"content": "Plain words."}, expect, answers=answers) == []


def test_a_case_brings_its_own_registry_and_time() -> None:
    agent = entry("agent", "case-agent", tenant_id="acme", tier="T1")
    write = {"content": "x", "timestamp": "2026-02-01T00:00:00Z", "source": {"id": "crm", "type": "user"}}
    assert find_result(write, {"action": "reject", "reason": "quality_metadata: timestamp"}) == []
    assert find_result(write, {"action": "allow"}, at="2026-02-01T00:00:00.000Z") == []
    assert find_result(write, {"action": "allow"}, registry=[agent, EXEMPT]) == []


def test_a_write_that_is_none_fails_its_case() -> None:
    ((field, _, actual),) = find_result({"content": 5}, {"action": "reject"})
    assert (field, "$.content" in actual) == ("write", True)


def test_a_registry_that_does_not_load_fails_its_case() -> None:
    ((field, _, actual),) = find_result({"content": "x"}, {"action": "allow"}, registry=[entry("agent", "a")])
    assert (field, "tenant_id" in actual) == ("registry", True)


@pytest.mark.parametrize(
    "case",
    [
        {"expect": {"action": "allow"}},
        {"write": {}, "action": {}, "expect": {"action": "allow"}},
        {"write": {}, "expect": {"outcome": "ALLOW"}},
        {"write": {}, "expect": {"action": "allow", "gate": "rules"}},
        {"action": {}, "expect": {"action": "allow"}},
        {"action": {}, "expect": {"outcome": "ALLOW"}, "answers": {"analysis": NEAR}},
    ],
)
def test_a_case_of_no_kind_or_of_two_is_refused_with_its_place(case: dict[str, Any]) -> None:
    with pytest.raises(BundleError, match=r"\$\.cases\[0\]"):
        load_bundle(json.dumps({**json.loads(document()), "cases": [{"name": "it", **case}]}).encode())
