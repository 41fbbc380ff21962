"""Mend 5: the order of the gates is part of the signed bundle, and a rerun takes it from there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.core.actions.stages import list_shipped_stages, load_bundle
from sluice.core.cases.cases import run_cases
from sluice.core.foundation.errors import BundleError, UnknownStageError
from sluice.core.foundation.requests import Answer
from sluice.core.policy.bundle_frame import ORDER_OF_OLD
from tests.unit.core.rerun.reruns import Case, document
from tests.unit.core.scene import BUNDLE_BYTES, Session, bundle, entry, point

SHIPPED = json.loads(BUNDLE_BYTES)
WIPE = {"toolName": "run", "parameters": {"c": "rm -rf /"}}


def test_the_shipped_bundle_names_every_gate_and_observes_with_what_was_not_there_before() -> None:
    """Mend 22.17: every gate of the seeds runs; those that read content or ask a model hold nothing up. An
    installation that has issuers of mandates names `mandate` itself (docs/mandates.md)."""
    assert set(SHIPPED["stages"]) == {one.name for one in list_shipped_stages()} - {"mandate"}
    assert tuple(one for one in SHIPPED["stages"] if one in ORDER_OF_OLD) == ORDER_OF_OLD
    for gate in ("inbound", "outbound", "similarity", "causal", "grader", "destinations"):
        assert SHIPPED[gate]["mode"] == "observe", gate
    assert SHIPPED["inbound"].get("judge", "off") == "off", "rules only"


@pytest.mark.parametrize("early", ["similarity", "causal", "policies", "grader", "inbound"])
def test_a_gate_that_asks_a_model_before_fast_reject_is_refused(early: str) -> None:
    """Mend 22.17: at checking and at loading alike, which read a bundle by one function."""
    stages = ["controls", early, "fast_reject", "tier_auth"]
    judged = {"inbound": {"mode": "observe", "judge": "in_doubt"}}
    with pytest.raises(BundleError, match=rf"\$\.stages: {early} asks a model"):
        load_bundle(document(stages=stages, **judged))
    late = ["controls", "fast_reject", early, "tier_auth"]
    assert load_bundle(document(stages=late, **judged)).stages == tuple(late)


@pytest.mark.parametrize("gate", ["similarity", "causal", "grader"])
def test_where_no_model_answers_a_gate_that_observes_holds_nothing_up(gate: str) -> None:
    """Mend 22.17: not even where a bundle asks and no setting names a model."""
    asking: dict[str, Any] = {
        "similarity": {"similarity": {**SHIPPED["similarity"], "enabled": True}},
        "causal": {"causal": {"enabled": True, "mode": "observe"}},
        "grader": {
            "grader": {
                "mode": "observe",
                "rules": [{"id": "kind", "reason": "be kind", "criterion": "It is kind."}],
            }
        },
    }
    prompted: dict[str, Any] = {"tenant_id": "acme", "tier": "T3", "system_prompt": "Never refund."}
    clerk = entry("agent", "clerk", **prompted)
    unanswered = Answer("unavailable", detail="no port")
    nothing: dict[str, Any] = {}
    for fields in (asking[gate], nothing):
        session = Session(point(clerk, policy=bundle(**fields)), answers=[unanswered] * 3)
        verdict = session.verdict(agent_id="clerk")
        assert (verdict["outcome"], verdict["blockReason"]) == ("ALLOW", None)
        assert bool(verdict["model_outputs"]) == bool(fields)


def test_a_bundle_without_an_order_means_the_one_of_old() -> None:
    assert set(ORDER_OF_OLD) <= {one.name for one in list_shipped_stages()}
    old = {name: value for name, value in json.loads(document()).items() if name != "stages"}
    assert load_bundle(json.dumps(old).encode()).stages == ORDER_OF_OLD


@pytest.mark.parametrize(
    "stages",
    [
        [],
        ["controls"],
        ["tier_auth", "controls"],
        ["fast_reject", "controls", "tier_auth"],
        ["controls", "tier_auth", "fast_reject"],
        ["controls", "fast_reject", "fast_reject", "tier_auth"],
        ["controls", "Fast Reject", "tier_auth"],
    ],
)
def test_an_order_that_cannot_hold_is_refused_with_its_place(stages: list[str]) -> None:
    with pytest.raises(BundleError, match=r"^\$\.stages"):
        load_bundle(document(stages=stages))


def test_a_stage_that_nobody_knows_is_refused_at_publishing_and_at_loading() -> None:
    unknown = load_bundle(document(stages=["controls", "fast_rejct", "tier_auth"], cases=[]))
    with pytest.raises(UnknownStageError, match=r"\$\.stages.*'fast_rejct'.*fast_reject"):
        run_cases(unknown)


def test_a_bundle_names_which_gates_run_and_in_what_order() -> None:
    order = ["controls", "consequence", "fast_reject", "tier_auth"]
    verdict = Case(bundle=document(stages=order)).propose(**WIPE)
    assert verdict["stages"] == order
    assert [gate["gate"] for gate in verdict["gateResults"]] == order[:3]


@pytest.mark.parametrize("stages", [[], ["controls", "tier_auth"], ["tier_auth"], [*reversed(ORDER_OF_OLD)]])
def test_a_verdict_that_names_other_stages_than_its_bundle_is_a_difference(stages: list[str]) -> None:
    case = Case()
    honest = case.propose(**WIPE)
    assert case.rerun(honest).status == "identical"
    forged: dict[str, Any] = {
        **honest,
        "stages": stages,
        "gateResults": [],
        "verdict": "allowed",
        "outcome": "ALLOW",
        "blockReason": None,
    }
    assert case.rerun(forged).status == "different"
