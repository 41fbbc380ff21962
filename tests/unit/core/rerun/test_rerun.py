"""A verdict executed again from what it names comes out the same, whatever kind of verdict it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.actions.stage import PASSED, StageResult
from sluice.core.actions.stages import load_bundle
from sluice.core.foundation.limits import SessionLimits
from sluice.core.foundation.requests import Answer, Request
from tests.unit.core.rerun.reruns import Case, document
from tests.unit.core.scene import LIMITS, MINUTE, Flawed, action, entry, point

if TYPE_CHECKING:
    from sluice.core.actions.stage import ActionContext
    from sluice.core.actions.stage import Asking as Questions

RULE = {
    "id": "within_budget",
    "type": "assertion",
    "reason": "over the budget",
    "condition": "action.rows <= facts.budget",
    "facts": {"budget": {"id": "budget"}},
}
BUDGET = {"value": 40, "valid_from": "2025-01-01T00:00:00.000Z"}


class Asking:
    """Asks a port twice and passes if it says so."""

    name = "asking"

    def evaluate(self, context: ActionContext) -> Questions:
        first = yield Request("oracle", {"tool": context.action.tool_name}, 1000)
        second = yield Request("oracle", {"said": first.payload}, 1000)
        said = second.payload
        return PASSED if said == "yes" else StageResult("block", f"the oracle said {said}")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"mode": None},
        {"toolName": "change"},
        {"toolName": "erase"},
        {"toolName": "pay", "agent_id": "chief"},
        {"toolName": "erase", "mode": "standard"},
        {"toolName": "erase", "rows_affected": 5000},
        {"agent_id": "trial", "toolName": "erase"},
        {"parameters": {"c": "rm -rf /"}},
        {"agent_id": "nobody"},
        {"agent_id": "nobody", "mode": "standard"},
        {"toolName": "unheard_of"},
        {"policy_bundle_id": "unheard.of"},
        {"policy_bundle_id": "sluice.default"},
        {"delegate_to": "reader"},
        {"rows_affected": None, "mode": "standard", "toolName": "anything"},
        {"rows_affected": 10**20, "mode": "standard"},
        {"aggregateRowsAffected": 7},
        {"deadline_ms": 0},
        {"reversible": False, "rows_affected": 600, "action_type": "PAYMENT"},
        {"agent_id": "reader"},
    ],
)
def test_every_kind_of_verdict_comes_out_the_same(fields: dict[str, Any]) -> None:
    case = Case()
    case.propose(action_id="earlier", rows_affected=3)
    case.propose(**fields)
    assert [one.status for one in case.rerun_all()] == ["identical", "identical"]


@pytest.mark.parametrize(("mode", "outcome"), [("high_stakes", "BLOCK"), ("standard", "ESCALATE")])
def test_an_action_that_came_too_late_comes_out_the_same_without_a_clock(mode: str, outcome: str) -> None:
    """Mend 1: how long it had waited is recorded, and taken from the record."""
    case = Case()
    late = case.propose_late(700, deadline_ms=700, mode=mode)
    repeat = case.propose_late(701, deadline_ms=700, mode=mode)
    case.propose_late(699, deadline_ms=700, mode=mode, action_id="in-time")
    assert [one["outcome"] for one in case.verdicts] == [outcome, outcome, "ALLOW"]
    assert repeat["duplicate_of"] == late["verdict_id"]
    assert {one.status for one in case.rerun_all()} == {"identical"}


def test_a_repeat_and_a_conflict_come_out_the_same() -> None:
    case = Case()
    case.propose()
    again, conflict = case.propose(), case.propose(rows_affected=50, mode="standard")
    assert (again["duplicate_of"], conflict["blockReason"]) == (
        case.verdicts[0]["verdict_id"],
        "action_id_conflict",
    )
    assert {one.status for one in case.rerun_all()} == {"identical"}


def test_a_session_without_room_comes_out_the_same() -> None:
    case = Case(limits=SessionLimits(60 * MINUTE, 60 * MINUTE, 1, 1))
    case.propose()
    fuller = [
        case.propose(action_id="a2", mode="standard"),
        case.propose(action_id="a3"),
        case.propose(action_id="a4", agent_id="other", mode="standard"),
        case.propose(action_id="a5", agent_id="nobody", mode="standard"),
    ]
    assert [one["session"]["room"] for one in fuller] == [False, False, True, True]
    assert [one.status for one in case.rerun_all()] == ["identical"] * 5


def test_freezes_come_out_the_same_whichever_was_published_first() -> None:
    second, first = (
        entry("freeze", name, subject="agent", subject_id="operator", reason=name) for name in ("f2", "f1")
    )
    case = Case(entries=(second, first))
    assert case.propose()["outcome"] == "BLOCK"
    assert case.rerun(case.verdicts[0]).status == "identical"


@pytest.mark.parametrize("rows", [40, 41])
def test_a_rule_over_a_locked_fact_comes_out_the_same(rows: int) -> None:
    facts = [entry("fact", "budget", 1, **BUDGET), entry("fact", "budget", 2, **{**BUDGET, "value": 40})]
    case = Case(entries=tuple(facts), bundle=document(rules=[RULE]))
    verdict = case.propose(rows_affected=rows)
    assert verdict["rule_results"][0]["passed"] is (rows <= 40)
    assert "fact/budget@2" in verdict["registry_hashes"]
    assert case.rerun(verdict).status == "identical"


@pytest.mark.parametrize("said", ["yes", "no", None, {"score": 0.25, "big": 10**18}])
def test_recorded_answers_stand_in_for_the_models(said: object) -> None:
    case = Case(stages=[Asking()], answer=lambda _: Answer("answered", said))
    verdict = case.propose()
    assert len(verdict["model_outputs"]) == 2
    assert case.rerun(verdict).status == "identical"


@pytest.mark.parametrize("status", ["overrun", "unavailable"])
@pytest.mark.parametrize("mode", ["standard", "high_stakes"])
def test_an_answer_that_did_not_come_does_not_come_again(status: Any, mode: str) -> None:
    case = Case(stages=[Asking()], answer=lambda _: Answer(status, detail="as it was"))
    assert case.rerun(case.propose(mode=mode)).status == "identical"


@pytest.mark.parametrize("fields", [{}, {"mode": "standard"}, {"agent_id": "trial"}])
def test_a_fault_of_the_core_comes_out_the_same(fields: dict[str, Any]) -> None:
    case = Case(stages=[Flawed("erase")])
    case.propose(toolName="erase", **fields)
    case.propose(toolName="erase", **fields)
    assert "sluice.core" in [one["source"] for one in case.verdicts[0]["advisories"]]
    assert [one.status for one in case.rerun_all()] == ["identical", "identical"]


def test_an_input_that_nobody_looked_into_is_not_looked_into_again() -> None:
    case = Case(stages=[Flawed("erase")])
    input_record = case.next_input_record("gate.actions.proposed", action(toolName="erase"))
    case.record(input_record, point(policy=load_bundle(case.bundle), added=case.stages).unread(input_record))
    assert case.verdicts[0]["action_id"] is None
    assert case.rerun(case.verdicts[0]).status == "identical"


SCRIPTS = st.lists(
    st.fixed_dictionaries(
        {
            "action_id": st.sampled_from(["a", "b", "c"]),
            "toolName": st.sampled_from(["find", "change", "erase", "anything", "unheard_of"]),
            "agent_id": st.sampled_from(["operator", "trial", "other", "nobody"]),
            "mode": st.sampled_from(["standard", "high_stakes", None]),
            "rows_affected": st.sampled_from([None, 1, 400, 5000]),
            "wait": st.sampled_from([0, 40 * MINUTE, 25 * 60 * MINUTE]),
            "outcome": st.sampled_from([None, 0, 900]),
        }
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(SCRIPTS, st.sampled_from([LIMITS, SessionLimits(60 * MINUTE, 24 * 60 * MINUTE, 2, 1, 1)]))
def test_whatever_a_session_went_through_each_verdict_comes_out_the_same(
    script: list[dict[str, Any]], limits: SessionLimits
) -> None:
    case = Case(limits=limits)
    for step in script:
        fields = dict(step)
        case.now += fields.pop("wait")
        rows = fields.pop("outcome")
        case.propose(**fields)
        if rows is not None:
            case.report(action_id=fields["action_id"], rows_affected=rows)
    assert [one for one in case.rerun_all() if one.status != "identical"] == []
