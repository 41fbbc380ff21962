"""Stages run in the configured order, stop at the first block, and after an escalation only Gate 4 runs,
unless the caller's own word made the action stricter (tests/unit/core/test_callers_words.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hypothesis import given
from hypothesis import strategies as st

from sluice.core.actions.authority import TierAuth
from sluice.core.actions.plan import sort_stages
from sluice.core.actions.stage import StageResult
from sluice.core.actions.stages import GATES, list_shipped_stages
from tests.unit.core.scene import ALL_STAGES, Session, bundle, entry, point

if TYPE_CHECKING:
    from sluice.core.actions.stage import ActionContext, Stage

Found = Literal["pass", "block", "escalate"]
GATE_4 = TierAuth.name
SHIPPED = bundle()
LARGEST_BOUND = SHIPPED.largest_rows_upper_bound
"""Who claims more rows than this makes the action stricter, and no stage is skipped for it."""
FINDINGS: st.SearchStrategy[list[Found]] = st.lists(
    st.sampled_from(["pass", "pass", "pass", "escalate", "block"]), max_size=7
)
FROZEN = entry("freeze", "f", subject="agent", subject_id="reader", reason="under review")
ORDERS = st.permutations(ALL_STAGES).flatmap(
    lambda order: st.integers(0, len(order)).map(lambda size: order[:size])
)
ACTIONS = st.fixed_dictionaries(
    {
        "agent_id": st.sampled_from(["operator", "chief", "reader", "trial"]),
        "toolName": st.sampled_from(["find", "change", "erase", "pay", "nothing"]),
        "mode": st.sampled_from(["standard", "high_stakes"]),
        "rows_affected": st.sampled_from([0, 1, 999, 10**6]),
        "parameters": st.sampled_from([{"q": "open orders"}, {"c": "rm -rf /"}]),
        "delegate_to": st.sampled_from([None, None, "stranger"]),
    }
)


@dataclass
class Fixed:
    """A gate that always finds the same, and remembers that it was asked."""

    name: str
    outcome: Found
    asked: bool = False

    def evaluate(self, context: ActionContext) -> StageResult:
        del context
        self.asked = True
        return StageResult(self.outcome, None if self.outcome == "pass" else self.name)


def gates(verdict: dict[str, Any]) -> list[str]:
    return [gate["gate"] for gate in verdict["gateResults"]]


def count_reached(found: list[Found]) -> int:
    """How many of these gates run: up to the first that does not pass, that one included."""
    return next((place + 1 for place, one in enumerate(found) if one != "pass"), len(found))


@given(FINDINGS, st.booleans())
def test_what_runs_follows_from_what_was_found(found: list[Found], registered: bool) -> None:
    fixed = [Fixed(f"gate-{place}", outcome) for place, outcome in enumerate(found)]
    session = Session(point(policy=SHIPPED, stages=[*fixed, TierAuth()]))
    verdict = session.verdict(toolName="find" if registered else "nothing")
    ran = [one.name for one in fixed[: count_reached(found)]]
    first = next((one for one in found if one != "pass"), "pass")
    assert gates(verdict) == (ran if first == "block" else [*ran, GATE_4])
    assert [one.asked for one in fixed] == [one.name in ran for one in fixed]
    if first == "block":
        assert (verdict["outcome"], verdict["blockReason"]) == ("BLOCK", ran[-1])
    elif not registered:
        assert (verdict["outcome"], verdict["blockReason"]) == ("BLOCK", "unregistered_tool: nothing")
    elif first == "escalate":
        assert (verdict["outcome"], verdict["blockReason"]) == ("ESCALATE", ran[-1])
    else:
        assert (verdict["outcome"], verdict["blockReason"]) == ("ALLOW", None)


ALWAYS_SPEAK = {one.name for one in GATES if one.always_speaks}


@given(FINDINGS, st.integers(0, 7))
def test_gate_4_is_asked_once_wherever_it_stands(found: list[Found], place: int) -> None:
    fixed: list[Stage] = [Fixed(f"gate-{number}", outcome) for number, outcome in enumerate(found)]
    order = [*fixed[:place], TierAuth(), *fixed[place:]]
    verdict = Session(point(policy=SHIPPED, stages=order)).verdict()
    names, ran = [one.name for one in order], gates(verdict)
    assert ran == [name for name in names if name in ran]
    assert ran.count(GATE_4) <= 1
    if "block" not in found:
        assert GATE_4 in ran


@given(ORDERS, ACTIONS)
def test_the_shipped_stages_run_in_any_order_that_is_configured(
    order: list[str], fields: dict[str, Any]
) -> None:
    session = Session(point(FROZEN, policy=SHIPPED, stages=sort_stages(order, list_shipped_stages())))
    verdict = session.verdict(**fields)
    ran, passed = gates(verdict), [gate["passed"] for gate in verdict["gateResults"]]
    real = verdict["shadowOutcome"] or verdict["outcome"]
    assert ran == [name for name in order if name in ran]
    if real == "ALLOW":
        assert ran == list(order)
        assert all(passed)
        return
    stopped = passed.index(False)
    assert ran[: stopped + 1] == list(order[: stopped + 1])
    if fields["rows_affected"] <= LARGEST_BOUND:
        assert [one for one in ran[stopped + 1 :] if one not in ALWAYS_SPEAK] in ([], [GATE_4])
    if real == "ESCALATE":
        assert (GATE_4 in ran) == (GATE_4 in order)
    else:
        assert not passed[-1]


@given(ORDERS, ACTIONS)
def test_no_order_of_stages_lets_through_what_one_of_them_blocks(
    order: list[str], fields: dict[str, Any]
) -> None:
    """A gate that alone blocks an action keeps it from being allowed wherever it stands."""
    whole = Session(point(FROZEN, policy=SHIPPED, stages=sort_stages(order, list_shipped_stages()))).verdict(
        **fields
    )
    for name in order:
        alone = Session(
            point(FROZEN, policy=SHIPPED, stages=sort_stages([name], list_shipped_stages()))
        ).verdict(**fields)
        if (alone["shadowOutcome"] or alone["outcome"]) != "ALLOW":
            assert (whole["shadowOutcome"] or whole["outcome"]) != "ALLOW"
