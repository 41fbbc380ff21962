"""What a plan settles of the rules comes to what the rules come to when each action is asked all of them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from load.bench.fixtures import bench_policy
from load.bench.fixtures.action_events import AGENT, context
from sluice.core.actions.rules import PlannedRules, Rules

GATE = Rules()


def rule(kind: str, condition: str, **more: Any) -> dict[str, Any]:
    return {"id": condition, "type": kind, "reason": "r", "condition": condition, **more}


PARTS = bench_policy.parts(
    [
        rule("invariant", "action.tier < 'T4' || action.mode == 'high_stakes'"),
        rule("invariant", "session.aggregateRowsAffected <= 100"),
        rule("forbidden", "action.tool.contains('wire')"),
        rule("assertion", "double(action.parameters.n) < 3.0", when="has(action.parameters.n)"),
        rule("assertion", "tool.registered", when="agent.tier > 'T1'", escalates=True),
        rule("invariant", "action.reversible || action.rows < 7"),
    ]
)
FIELDS = st.fixed_dictionaries(
    {
        "action_id": st.just("a"),
        "agent_id": st.sampled_from([AGENT, "nobody"]),
        "session_id": st.just("session"),
        "toolName": st.sampled_from(["wire", "find", "read"]),
        "parameters": st.fixed_dictionaries(
            {}, optional={"n": st.sampled_from([1, 5, "x", 2**70]), "text": st.just("x" * 40_000)}
        ),
    },
    optional={
        "rows_affected": st.sampled_from([0, 6, 8, 101, 2**64]),
        "mode": st.sampled_from(["standard", "high_stakes"]),
        "action_type": st.sampled_from(["MESSAGE", "OTHER"]),
        "reversible": st.booleans(),
    },
)


@given(FIELDS)
def test_planned_rules_come_to_what_all_rules_come_to(fields: dict[str, Any]) -> None:
    asked = context(PARTS, fields)
    assert GATE.prepare(asked.plan)(asked) == GATE.evaluate(asked)


def test_rules_that_read_the_plan_alone_are_not_asked_again() -> None:
    ids = {"action_id": "a", "agent_id": AGENT, "session_id": "s"}
    asked = context(PARTS, {**ids, "toolName": "find", "parameters": {}})
    planned = GATE.prepare(asked.plan)
    rules = getattr(planned, "__self__", None)
    assert isinstance(rules, PlannedRules)
    assert len(rules.settled.codes) == 3
    assert rules.reads == (
        "action.rows",
        "session.aggregateRowsAffected",
        "session.read_untrusted",
        "action.parameters",
    )
