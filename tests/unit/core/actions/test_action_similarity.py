"""Gate 2, L1: what an encoder's answer on an action comes to."""

from __future__ import annotations

from math import log
from typing import Any

import pytest

from sluice.core.foundation.errors import BundleError
from sluice.core.foundation.requests import Answer
from sluice.core.policy.pattern_library import render_call
from tests.unit.core.actions.judging_scene import ALIKE, COMPARED, compare, make_resembling
from tests.unit.core.scene import bundle, relaxations

LIBRARY = ALIKE["library"]
CONSTANT = {"harmful": 0.0, "harmless": 0.0, "lean": 0.0}


def decide(answer: Answer, mode: str = "high_stakes", **part: Any) -> tuple[str, dict[str, Any]]:
    verdict = compare(answer, **part).verdict(mode=mode)
    found = next(one for one in verdict["gateResults"] if one["gate"] == "similarity")
    return verdict["outcome"], found["detail"]


def calibrate(probability: float) -> dict[str, float]:
    """A calibration that gives every action this probability."""
    odds = probability / (1 - probability)
    return {**CONSTANT, "intercept": log(odds)}


@pytest.mark.parametrize(
    ("probability", "band", "outcome"),
    [
        (0.01, "pass", "ALLOW"),
        (0.299999, "pass", "ALLOW"),
        (0.3, "doubtful", "ALLOW"),
        (0.5, "doubtful", "ALLOW"),
        (0.7, "doubtful", "ALLOW"),
        (0.700001, "harmful", "BLOCK"),
        (0.99, "harmful", "BLOCK"),
    ],
)
def test_the_bands_of_seed_001(probability: float, band: str, outcome: str) -> None:
    """ "Score < 0.3: pass; 0.3-0.7: continue to L2; > 0.7: BLOCK"."""
    found, detail = decide(make_resembling(), calibration=calibrate(probability))
    assert (found, detail["band"], detail["probability"]) == (outcome, band, probability)


@pytest.mark.parametrize(
    ("above", "outcome"), [("block", "BLOCK"), ("escalate", "ESCALATE"), ("doubtful", "ALLOW")]
)
def test_what_is_above_gets_what_the_bundle_says(above: str, outcome: str) -> None:
    found, detail = decide(make_resembling(), calibration=calibrate(0.9), above=above)
    assert (found, detail["band"]) == (outcome, "harmful")


def test_the_probability_is_the_logistic_function_of_the_three_figures() -> None:
    weights = {"harmful": 2.0, "harmless": -1.0, "lean": 0.5, "intercept": -0.25}
    answer = make_resembling(harmful=(0.8, 0.6), harmless=(0.5, 0.3), lean=0.4)
    _, detail = decide(answer, calibration=weights)
    assert detail["probability"] == round(1 / (1 + 2.718281828459045 ** -(1.4 - 0.4 + 0.2 - 0.25)), 6)


def test_a_reviewer_sees_what_the_action_resembles() -> None:
    answer = make_resembling(harmful=(0.8, 0.6, 0.5, 0.4, 0.3), harmless=(0.7,), lean=0.1)
    session = compare(answer)
    verdict = session.verdict(toolName="read", parameters={"to": "all"})
    (output,) = verdict["model_outputs"]
    assert len(output["payload"]["harmful"]) == 5
    detail = next(one["detail"] for one in verdict["gateResults"] if one["gate"] == "similarity")
    assert detail["harmful"] == [{"id": f"harmful.{n}", "cosine": c} for n, c in enumerate((0.8, 0.6, 0.5))]
    assert (detail["library"], detail["lean"], detail["windows"], detail["of"]) == (LIBRARY, 0.1, 1, 1)
    (asked,) = session.asked
    assert isinstance(asked.payload, dict)
    assert asked.payload["text"] == render_call("read", {"to": "all"})
    assert (asked.payload["library"], asked.port, asked.budget_ms) == (LIBRARY, "embedding", 50)


@pytest.mark.parametrize(("unknown", "band"), [(0.2, "harmful"), (0.200001, "abstained"), (1.0, "abstained")])
def test_it_abstains_where_over_a_fifth_of_the_pieces_are_unknown(unknown: float, band: str) -> None:
    outcome, detail = decide(make_resembling(unknown=unknown), calibration=calibrate(0.9))
    assert (outcome, detail["band"]) == ("BLOCK" if band == "harmful" else "ALLOW", band)
    assert detail["unknown"] == unknown
    assert ("probability" in detail) is (band == "harmful")


def test_an_action_without_words_is_not_judged() -> None:
    outcome, detail = decide(make_resembling(harmful=(), harmless=(), windows=0, of=0))
    assert (outcome, detail["band"]) == ("ALLOW", "abstained")


@pytest.mark.parametrize(
    ("probability", "unread", "outcome", "band"),
    [
        (0.1, "escalate", "ESCALATE", "inconclusive"),
        (0.1, "doubtful", "ALLOW", "inconclusive"),
        (0.9, "escalate", "BLOCK", "harmful"),
    ],
)
def test_a_text_past_the_cap_is_inconclusive(
    probability: float, unread: str, outcome: str, band: str
) -> None:
    answer = make_resembling(windows=32, of=33)
    found, detail = decide(answer, calibration=calibrate(probability), unread=unread)
    assert (found, detail["band"], detail["windows"], detail["of"]) == (outcome, band, 32, 33)


@pytest.mark.parametrize(
    "answer",
    [
        Answer("unavailable", detail="no library"),
        Answer("answered", {"attack": None, "benign": None}),
        Answer("answered", None),
        make_resembling(library="sha256:" + 64 * "0"),
    ],
)
@pytest.mark.parametrize("mode", ["standard", "high_stakes"])
def test_no_answer_is_inconclusive(answer: Answer, mode: str) -> None:
    verdict = compare(answer).verdict(mode=mode)
    assert (verdict["outcome"], verdict["blockReason"].split(":")[0]) == ("ESCALATE", "inconclusive")


@pytest.mark.parametrize(("mode", "outcome"), [("standard", "ALLOW"), ("high_stakes", "BLOCK")])
def test_over_its_budget(mode: str, outcome: str) -> None:
    assert compare(Answer("overrun")).verdict(mode=mode)["outcome"] == outcome


def test_a_bundle_that_does_not_ask_for_it() -> None:
    session = compare(enabled=False)
    assert (session.verdict()["outcome"], session.asked) == ("ALLOW", [])


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({"pass_below": 0.8}, "pass_below is above harmful_above"),
        ({"library": None}, "enabled without a library"),
        ({"calibration": None}, "enabled without a library"),
        ({"library": "patterns.jsonl"}, "library"),
    ],
)
def test_a_part_that_is_refused(part: dict[str, Any], reason: str) -> None:
    with pytest.raises(BundleError, match=reason):
        bundle(patterns={}, similarity={**ALIKE, **part})


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"enabled": False}, "similarity.enabled"),
        ({"library": "sha256:" + 64 * "1"}, "similarity.library"),
        ({"calibration": {**CONSTANT, "intercept": 9.0}}, "similarity.calibration"),
        ({"windows": {"characters": 400, "overlap": 40, "most": 8}}, "similarity.windows"),
        ({"pass_below": 0.4}, "similarity.pass_below"),
        ({"harmful_above": 0.8}, "similarity.harmful_above"),
        ({"unknown_above": 0.1}, "similarity.unknown_above"),
        ({"above": "escalate"}, "similarity.above"),
        ({"unread": "doubtful"}, "similarity.unread"),
    ],
)
def test_what_relaxes_it(change: dict[str, Any], path: str) -> None:
    before, after = (
        bundle(patterns={}, stages=COMPARED, similarity=part) for part in (ALIKE, {**ALIKE, **change})
    )
    assert [one.path for one in relaxations(before, after)] == [path]
    if change.keys() <= {"pass_below", "harmful_above", "unknown_above", "above", "unread"}:
        assert relaxations(after, before) == []
