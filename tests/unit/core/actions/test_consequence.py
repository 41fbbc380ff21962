"""Gate 2, layer 2: the consequence score and its two thresholds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.scene import BUNDLE_BYTES, Session, bundle, point

if TYPE_CHECKING:
    from sluice.core.actions.consequence import Score

SHIPPED: Score = bundle().parts["consequence"]
ROWS = st.integers(0, 10**7) | st.sampled_from([0, 9, 10, 11, 99, 100, 999, 1000, 10**30])
PARTS = st.integers(0, 1000)


def policy(**changes: Any) -> dict[str, Any]:
    shipped: dict[str, Any] = json.loads(BUNDLE_BYTES)["consequence"]
    return {**shipped, **changes}


@given(ROWS, ROWS, PARTS, PARTS)
def test_more_rows_never_score_lower(one: int, two: int, reversibility: int, risk: int) -> None:
    low, high = sorted((one, two))
    scores = [SHIPPED.total(reversibility, rows, risk) for rows in (low, high)]
    assert scores[0] <= scores[1]


@given(PARTS, PARTS, PARTS)
def test_a_score_is_a_share_of_a_thousand(reversibility: int, rows: int, risk: int) -> None:
    assert 0 <= SHIPPED.total(reversibility, rows, risk)[0] <= 1000


def test_a_step_begins_at_its_own_count() -> None:
    assert [SHIPPED.rows_part(rows) for rows in (0, 9, 10, 99, 100, 10**9)] == [0, 0, 100, 100, 300, 1000]


def test_the_score_counts_the_sessions_rows_and_this_actions() -> None:
    """Mend 22.21: the part of the score has a name of its own beside the rows that it follows from."""
    session = Session()
    session.propose(rows_affected=60)
    detail = gate(session.verdict(action_id="act-2", rows_affected=40))["detail"]
    assert (detail["aggregateRowsAffected"], detail["rows_part"]) == (100, 300)


def test_harm_in_small_steps_is_escalated_in_the_end() -> None:
    session = Session(point(policy=bundle(consequence=policy(escalate_at=150))))
    outcomes = [
        session.verdict(action_id=f"act-{step}", rows_affected=40)["blockReason"] for step in range(3)
    ]
    assert outcomes == [None, None, "consequence_score: 157 per mille"]


def test_the_thresholds_are_inclusive() -> None:
    # erase, 1 row: 350 for irreversible, 0 for the rows, 150 for a database write
    for escalate_at, block_at, expected in ((501, 900, True), (500, 900, False), (300, 500, False)):
        changed = bundle(consequence=policy(escalate_at=escalate_at, block_at=block_at))
        verdict = Session(point(policy=changed)).verdict(toolName="erase")
        assert gate(verdict)["passed"] is expected
        assert gate(verdict)["detail"]["score_per_mille"] == 500
        assert verdict["outcome"] == ("BLOCK" if block_at == 500 else "ESCALATE")


def gate(verdict: dict[str, Any]) -> dict[str, Any]:
    (found,) = [one for one in verdict["gateResults"] if one["gate"] == "consequence"]
    result: dict[str, Any] = found
    return result
