"""What changed since a decision shows as a difference; what is gone is named."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.actions.stage import PASSED, StageResult
from sluice.core.actions.stages import load_bundle
from sluice.core.foundation.errors import UnknownStageError
from sluice.core.foundation.requests import Answer, Request
from sluice.core.rerun.evidence import PolicyEvidence
from sluice.core.rerun.rerun_result import Difference, Rerun
from sluice.core.rerun.rerunner import Rerunner
from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import PAYLOAD_TYPES
from sluice_topics.catalog import REGISTRY
from tests.unit.core.rerun.reruns import BUNDLE, Case, document, evidence
from tests.unit.core.scene import ENTRIES, entry
from tests.unit.core.trust.scene import STRANGER

if TYPE_CHECKING:
    from sluice.core.actions.stage import ActionContext, Asking, Stage
    from sluice.core.policy.bundles import Bundle

RULE = {
    "id": "within_budget",
    "type": "invariant",
    "reason": "over the budget",
    "condition": "action.rows <= facts.budget",
    "facts": {"budget": {"id": "budget"}},
}


class Probe:
    """A stage whose code a test chooses."""

    name = "probe"

    def __init__(self, result: StageResult | Exception, *, asks: bool = False) -> None:
        self._result = result
        self._asks = asks

    def evaluate(self, context: ActionContext) -> Asking:
        del context
        if self._asks:
            yield Request("oracle", {}, 1000)
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


def fact(value: int) -> dict[str, Any]:
    return entry("fact", "budget", value=value, valid_from="2025-01-01T00:00:00.000Z")


def fields(rerun: Rerun) -> dict[str, Difference]:
    return {one.field: one for one in rerun.differences}


def no_stage(name: str) -> Stage:
    raise UnknownStageError(name)


def test_a_changed_fact_shows_with_everything_that_follows_from_it() -> None:
    case = Case(entries=(fact(40),), bundle=document(rules=[RULE]))
    verdict = case.propose(rows_affected=30)
    changed = evidence(*ENTRIES, fact(20), bundles=[case.bundle])
    found = fields(case.rerun(verdict, Rerunner(changed, case.stage_of)))
    assert (found["outcome"].recorded, found["outcome"].rerun) == ("ALLOW", "BLOCK")
    assert found["rule_results[0].passed"].rerun is False
    assert {"registry_hashes.fact/budget@1", "rerun_hash", "verdict"} <= found.keys()


def test_a_changed_tool_shows() -> None:
    case = Case()
    verdict = case.propose()
    tools = [entry("tool", "find", tier="T3") if one["id"] == "find" else one for one in ENTRIES]
    found = fields(case.rerun(verdict, Rerunner(evidence(*tools), case.stage_of)))
    assert (found["tier"].recorded, found["tier"].rerun) == ("T1", "T3")


class Swapped(PolicyEvidence):
    """Gives the one bundle that it has for every hash, as a store would that keeps no hashes."""

    def find_bundle(self, bundle_hash: str) -> Bundle | None:
        del bundle_hash
        return load_bundle(CHANGED)


CHANGED = document(revision=2, irreversible_row_threshold=0)


def test_a_changed_bundle_shows() -> None:
    case, held = Case(), Swapped()
    for one in ENTRIES:
        held.add(REGISTRY, sign(PAYLOAD_TYPES[REGISTRY], json.dumps(one).encode(), [STRANGER]).encode())
    found = fields(case.rerun(case.propose(toolName="erase"), Rerunner(held, case.stage_of)))
    assert found["bundle_hash"].rerun == load_bundle(CHANGED).hash
    assert found["blockReason"].rerun.startswith("irreversible_rows")


@pytest.mark.parametrize(
    ("then", "now", "field"),
    [
        (Probe(PASSED), Probe(StageResult("block", "stricter")), "outcome"),
        (Probe(PASSED), Probe(StageResult("pass", None, {"score": 1})), "gateResults[1].detail.score"),
        (Probe(PASSED), Probe(KeyError("x")), "blockReason"),
        (Probe(KeyError("x")), Probe(PASSED), "blockReason"),
        (Probe(PASSED), Probe(PASSED, asks=True), "model_outputs"),
        (Probe(PASSED, asks=True), Probe(PASSED), "model_outputs"),
    ],
)
def test_changed_code_shows(then: Probe, now: Probe, field: str) -> None:
    case = Case(stages=[then], answer=lambda _: Answer("answered", "yes"))
    found = case.rerun(case.propose(), case.rerunner([now]))
    assert found.status == "different"
    assert field in fields(found)


def test_a_verdict_that_was_written_otherwise_shows() -> None:
    case = Case()
    verdict = {**case.propose(), "outcome": "BLOCK", "verdict": "denied"}
    assert fields(case.rerun(verdict)).keys() == {"outcome", "verdict"}


def test_a_difference_names_the_leaf_and_both_values() -> None:
    case = Case()
    verdict = case.propose()
    falsified = json.loads(json.dumps(verdict))
    falsified["session"]["after"]["aggregateRowsAffected"] = 0
    found = case.rerun(falsified)
    assert found.differences == (Difference("session.after.aggregateRowsAffected", 0, 1),)


def test_durations_and_the_place_in_the_ledger_are_not_compared() -> None:
    case = Case()
    verdict = case.propose()
    for gate in verdict["gateResults"]:
        gate["durationMs"] = 17.25
    assert case.rerun({**verdict, "sequence": 9, "prev_hash": "GENESIS"}).status == "identical"


def test_an_input_that_can_no_longer_be_read_shows() -> None:
    case = Case()
    verdict = case.propose()
    input_record = replace(case.input_records[verdict["verdict_id"]], key=b"another")
    (found,) = case.rerunner().rerun(verdict, input_record).differences
    assert "key_mismatch" in found.rerun


def test_a_missing_input_is_named() -> None:
    case = Case()
    found = case.rerunner().rerun(case.propose(), None)
    assert (found.status, found.missing) == ("evidence_gone", ("input gate.actions.proposed:3:1",))


def test_another_record_in_the_input_s_place_is_no_evidence() -> None:
    case = Case()
    verdict = case.propose()
    other = replace(case.input_records[verdict["verdict_id"]], value=b"{}")
    (missing,) = case.rerunner().rerun(verdict, other).missing
    assert "another record" in missing


def test_every_missing_thing_is_named_at_once() -> None:
    case = Case()
    verdict = case.propose()
    nothing = Rerunner(evidence(bundles=[]), no_stage)
    assert case.rerun(verdict, nothing).missing == (
        f"bundle {verdict['bundle_hash']}",
        "registry entry agent/operator@1",
        "registry entry tool/find@1",
    )
    without_entries = Rerunner(evidence(bundles=[BUNDLE]), no_stage)
    assert case.rerun(verdict, without_entries).missing == (
        "registry entry agent/operator@1",
        "registry entry tool/find@1",
        *(f"stage {name}" for name in verdict["stages"]),
    )


def test_what_this_release_cannot_load_shows_as_a_difference() -> None:
    case = Case()
    verdict = case.propose()
    held = evidence(*ENTRIES, bundles=[BUNDLE])
    broken = [{**one, "spec": {"gone": 1}} if one["id"] == "find" else one for one in ENTRIES]
    (found,) = case.rerun(verdict, Rerunner(evidence(*broken), case.stage_of)).differences
    assert (found.field, held.find_entry("tool/unknown@1", "")) == ("registry_hashes", None)


def test_an_answer_that_a_fault_did_not_keep_is_gone() -> None:
    case = Case(stages=[Probe(KeyError("x"), asks=True)], answer=lambda _: Answer("answered", 1))
    assert case.rerun(case.propose()).missing == ("answer of oracle",)
