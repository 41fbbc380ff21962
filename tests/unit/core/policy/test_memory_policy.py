"""The numbers of a bundle's `memory` section: the seed's by default, and refused where they contradict."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import ValidationError

from sluice.core.foundation.strict import first_error
from sluice.core.policy.memory_policy import MemoryPolicy


def policy(**fields: Any) -> MemoryPolicy:
    return MemoryPolicy.model_validate(fields)


def test_the_defaults_are_the_seeds() -> None:
    shipped = policy()
    trust = shipped.trust
    assert (shipped.enabled, shipped.review_after_ms) == (True, 3_600_000)
    assert (trust.write_threshold, trust.quarantine_threshold) == (0.7, 0.3)
    assert (trust.llm_analysis, trust.history_window) == ("off", 100)


def test_the_seeds_names_and_ours_are_read_alike() -> None:
    seed = policy(quarantineReviewMs=5, trust={"writeThreshold": 0.8, "weights": {"sourceReliability": 0.25}})
    ours = policy(review_after_ms=5, trust={"write_threshold": 0.8, "weights": {"source_reliability": 0.25}})
    assert seed == ours != policy()
    for said, when in ((True, "always"), (False, "off"), ("in_doubt", "in_doubt")):
        assert policy(trust={"llmAnalysis": said}).trust.llm_analysis == when


@pytest.mark.parametrize(
    ("trust", "told"),
    [
        ({"weights": {"source_reliability": 0.3}}, r"^\$\.trust\.weights: .* must sum to 1"),
        ({"write_threshold": 0.3}, "0 < quarantine_threshold < write_threshold"),
        ({"quarantine_threshold": 0}, "0 < quarantine_threshold < write_threshold"),
        ({"write_threshold": 1.1}, "write_threshold"),
        ({"writeThreshold": 0.8, "write_threshold": 0.8}, "write_threshold"),
        ({"caps": {"strong": 0}}, "caps.strong"),
        ({"caps": {"unknown_parent": 0.5}}, "lies below the quarantine threshold too"),
        ({"bases": {"user": float("nan")}}, "bases.user"),
        ({"bases": {"robot": 0.5}}, "bases.robot"),
        ({"history": {"prior_positive": 5}}, "prior_positive is above prior_reviews"),
        ({"history_window": 2}, "history_window is below"),
        ({"consistency": {"injection_kinds": ["rudeness"]}}, "injection_kinds"),
        ({"llm_analysis": 1}, "llm_analysis"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_numbers_that_contradict_are_refused_with_their_place(trust: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        policy(trust=trust)
    assert re.search(told, first_error(refused.value))


def test_a_bundle_may_narrow_the_schemes_of_references_and_not_widen_them() -> None:
    assert policy(quality={"provenance_schemes": ["https"]}).quality.provenance_schemes == ["https"]
    for schemes in (["https", "file"], []):
        with pytest.raises(ValidationError):
            policy(quality={"provenance_schemes": schemes})
