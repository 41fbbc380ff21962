"""A bundle's own cases: each field that came out otherwise is told, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.actions.stages import list_shipped_stages
from sluice.core.cases.cases import run_cases
from sluice.core.foundation.errors import BundleError
from tests.unit.core.rerun.reruns import SMALL
from tests.unit.core.scene import Flawed, bundle, entry

if TYPE_CHECKING:
    from sluice.core.cases.case_failure import CaseFailure

RULE = {"id": "small", "type": "assertion", "reason": "too many", "condition": "action.rows < 10"}
NEEDY = {"id": "needy", "type": "invariant", "reason": "?", "condition": "action.parameters.n > 0"}


def failures(expect: dict[str, Any], action: dict[str, Any] | None = None, **more: Any) -> list[CaseFailure]:
    fields = {
        "toolName": "list_report",
        "parameters": {},
        "rows_affected": 5,
        **(action or {}),
    }
    case = {"name": "it", "action": fields, "expect": expect, **more}
    return list(run_cases(bundle(**SMALL, rules=[RULE, NEEDY], cases=[case])))


def fields(
    expect: dict[str, Any], action: dict[str, Any] | None = None, **more: Any
) -> list[tuple[str, Any, Any]]:
    return [(one.field, one.expected, one.actual) for one in failures(expect, action, **more)]


ALLOWED = {"parameters": {"n": 1}}


def test_a_bundle_without_cases_passes() -> None:
    assert run_cases(bundle(**SMALL, cases=[])) == ()


@pytest.mark.parametrize(
    ("expect", "action"),
    [
        ({"outcome": "ALLOW"}, ALLOWED),
        ({"outcome": "ALLOW", "tier": "T1", "rules": {"small": True, "needy": True}}, ALLOWED),
        ({"outcome": "BLOCK", "gate": "rules", "rules": {"small": False}}, {**ALLOWED, "rows_affected": 11}),
        ({"outcome": "ESCALATE", "rules": {"needy": None}, "reason": "inconclusive"}, {}),
        (
            {"outcome": "BLOCK", "gate": "fast_reject", "reason": "forbidden_pattern"},
            {"parameters": {"c": "rm -rf /"}},
        ),
    ],
)
def test_a_case_that_comes_out_as_expected_is_silent(expect: dict[str, Any], action: dict[str, Any]) -> None:
    assert fields(expect, action) == []


@pytest.mark.parametrize(
    ("expect", "found"),
    [
        ({"outcome": "BLOCK"}, [("outcome", "BLOCK", "ALLOW")]),
        ({"outcome": "ALLOW", "gate": "rules"}, [("gate", "rules", None)]),
        ({"outcome": "ALLOW", "tier": "T4"}, [("tier", "T4", "T1")]),
        ({"outcome": "ALLOW", "reason": "why"}, [("reason", "why", None)]),
        ({"outcome": "ALLOW", "rules": {"small": None}}, [("rules.small", None, True)]),
        ({"outcome": "ALLOW", "rules": {"other": None}}, [("rules.other", None, "not evaluated")]),
        ({"outcome": "BLOCK", "tier": "T4"}, [("outcome", "BLOCK", "ALLOW"), ("tier", "T4", "T1")]),
    ],
)
def test_each_field_that_differs_is_told_with_both_values(expect: dict[str, Any], found: list[Any]) -> None:
    assert fields(expect, ALLOWED) == found


def test_a_failure_reads_on_one_line() -> None:
    (failure,) = failures({"outcome": "BLOCK"}, ALLOWED)
    assert str(failure) == 'it: outcome: expected "BLOCK", got "ALLOW"'


def test_the_session_so_far_counts() -> None:
    so_far = {"aggregateRowsAffected": 10**6, "aggregateActionCount": 3}
    fresh = fields({"outcome": "ALLOW"}, {**ALLOWED, "reversible": False, "action_type": "DATABASE_WRITE"})
    grown = fields(
        {"outcome": "ALLOW"},
        {**ALLOWED, "reversible": False, "action_type": "DATABASE_WRITE"},
        session=so_far,
    )
    assert fresh != grown


def test_a_case_brings_its_own_registry() -> None:
    frozen = entry("freeze", "f", subject="agent", subject_id="a1", reason="incident")
    agent = entry("agent", "a1", tenant_id="acme", tier="T1")
    found = fields(
        {"outcome": "BLOCK", "gate": "controls"}, {**ALLOWED, "agent_id": "a1"}, registry=[agent, frozen]
    )
    assert found == []


def test_facts_hold_at_the_case_s_time() -> None:
    rule = {**RULE, "condition": "facts.limit == 3", "facts": {"limit": {"id": "limit"}}}
    fact = entry("fact", "limit", value=3, valid_from="2026-02-01T00:00:00.000Z")
    case = {"name": "it", "action": {"toolName": "get", "parameters": {}}, "registry": [fact]}
    early = {
        **case,
        "expect": {"outcome": "ESCALATE", "rules": {"small": None}},
        "at": "2026-01-31T23:59:59.999Z",
    }
    late = {
        **case,
        "expect": {"outcome": "ALLOW", "rules": {"small": True}},
        "at": "2026-02-01T00:00:00.000Z",
    }
    assert run_cases(bundle(**SMALL, rules=[rule], cases=[early, late])) == ()


def test_a_case_on_a_day_that_does_not_exist_is_refused_with_its_place() -> None:
    case = {"name": "it", "action": {}, "expect": {"outcome": "ALLOW"}, "at": "2026-02-30T00:00:00.000Z"}
    with pytest.raises(BundleError, match=r"\$\.cases\[0\]\.at"):
        bundle(**SMALL, cases=[case])


def test_only_the_gates_that_the_bundle_names_run() -> None:
    case = {
        "name": "it",
        "action": {"toolName": "x", "parameters": {"c": "rm -rf /"}, "reversible": True},
        "expect": {"outcome": "ALLOW"},
        "registry": [entry("tool", "x", tier="T1")],
    }
    assert run_cases(bundle(**SMALL, cases=[case], stages=["controls", "tier_auth"])) == ()


@pytest.mark.parametrize("action", [{"parameters": 5}, {"mode": "reckless"}, {"toolName": None}])
def test_an_action_that_is_none_fails_its_case(action: dict[str, Any]) -> None:
    ((field, _, actual),) = fields({"outcome": "BLOCK"}, action)
    assert (field, "$." in actual) == ("action", True)


def test_a_registry_that_does_not_load_fails_its_case() -> None:
    ((field, _, actual),) = fields({"outcome": "ALLOW"}, ALLOWED, registry=[entry("agent", "a")])
    assert (field, "tenant_id" in actual) == ("registry", True)


def test_a_fault_of_the_core_is_no_block() -> None:
    case = {"name": "it", "action": {"toolName": "x", "parameters": {}}, "expect": {"outcome": "BLOCK"}}
    order = ["controls", "flawed", "tier_auth"]
    (failure,) = run_cases(bundle(**SMALL, cases=[case], stages=order), [*list_shipped_stages(), Flawed()])
    assert (failure.field, "internal_error" in failure.actual) == ("action", True)


SEQUENCE = {
    "stages": ["controls", "sequence", "tier_auth"],
    "sequence": {
        "rules": [
            {
                "id": "secret-then-out",
                "reason": "it must stay here",
                "first": "action.tool == 'read_secret'",
                "then": "action.type == 'MESSAGE'",
                "within_ms": 60_000,
            }
        ]
    },
}


@pytest.mark.parametrize(
    ("earlier", "outcome"),
    [
        ([], "ALLOW"),
        ([{"action": {"toolName": "read_secret", "parameters": {}}, "before_ms": 60_000}], "BLOCK"),
        ([{"action": {"toolName": "read_secret", "parameters": {}}, "before_ms": 60_001}], "ALLOW"),
        ([{"action": {"toolName": "read_secret", "parameters": {}, "agent_id": "other"}}], "ALLOW"),
        ([{"action": {"toolName": "list_report", "parameters": {}}}] * 8, "ALLOW"),
    ],
)
def test_a_case_may_tell_what_came_before(earlier: list[dict[str, Any]], outcome: str) -> None:
    action = {"toolName": "send_mail", "action_type": "MESSAGE", "parameters": {}, "mode": "standard"}
    tool = entry("tool", "send_mail", tier="T1", action_type="MESSAGE", reversible=True)
    case = {"name": "it", "action": action, "earlier": earlier, "registry": [tool]}
    policy = bundle(patterns={}, **SEQUENCE, cases=[{**case, "expect": {"outcome": outcome}}])
    assert run_cases(policy) == ()
    other = bundle(patterns={}, **SEQUENCE, cases=[{**case, "expect": {"outcome": "ESCALATE"}}])
    assert [one.actual for one in run_cases(other)] == [outcome]


def test_an_earlier_action_that_cannot_be_read_is_told_and_a_write_has_none() -> None:
    steps = [{"action": {"toolName": 7}}]
    (failure,) = failures({"outcome": "ALLOW"}, ALLOWED, earlier=steps)
    assert (failure.field, failure.expected) == ("action", "an action that can be decided")
    with pytest.raises(
        BundleError, match="expects of an action what only a write has, or the other way round"
    ):
        bundle(
            cases=[{"name": "w", "write": {"content": "x"}, "earlier": steps, "expect": {"action": "allow"}}]
        )
