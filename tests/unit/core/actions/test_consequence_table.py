"""Gate 2's layer 2 as a table: every action type, reversibility and row step, and both thresholds."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.actions.authority import TierAuth
from sluice.core.actions.consequence import ConsequenceScore
from tests.unit.core.scene import Session, bundle, make_counted, point

PLAIN = bundle(patterns={})
STAGES = (ConsequenceScore(), TierAuth())
NO_ROWS = {
    #                 reversible, irreversible, not told
    "PAYMENT": (200, 550, 550),
    "CODE_EXECUTION": (175, 525, 385),
    "FILE_DELETE": (200, 550, 550),
    "DATABASE_WRITE": (150, 500, 500),
    "DELEGATION": (125, 475, 335),
    "MESSAGE": (100, 450, 450),
    "FILE_WRITE": (100, 450, 310),
    "DATABASE_READ": (37, 387, 37),
    "FILE_READ": (25, 375, 25),
    "API_CALL": (75, 425, 285),
    "OTHER": (100, 450, 310),
}
"""Per mille, of an action in a session that touches no row."""
OF_ROWS = {
    0: 0,
    9: 0,
    10: 40,
    11: 40,
    99: 40,
    100: 120,
    101: 120,
    999: 120,
    1000: 240,
    1001: 240,
    9999: 240,
    10_000: 340,
    10_001: 340,
    99_999: 340,
    100_000: 400,
    100_001: 400,
    2**53: 400,
    10**35: 400,
}
"""What so many rows add."""


REVERSIBLE = (True, False, None)
TOOLS = [
    make_counted(f"{name}-{reversible}", action_type=name, reversible=reversible)
    for name in NO_ROWS
    for reversible in REVERSIBLE
]
POINT = point(*TOOLS, policy=PLAIN, stages=STAGES)


def gate(verdict: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = verdict["gateResults"][0]
    assert result["gate"] == "consequence"
    return result


def compute_expected(value: int) -> str:
    return "BLOCK" if value >= 880 else "ESCALATE" if value >= 700 else "pass"


def find_result(verdict: dict[str, Any]) -> str:
    if gate(verdict)["passed"]:
        return "pass"
    assert (
        verdict["blockReason"] == f"consequence_score: {gate(verdict)['detail']['score_per_mille']} per mille"
    )
    outcome: str = verdict["outcome"]
    return outcome


def test_the_table_of_types_is_whole() -> None:
    assert set(NO_ROWS) == set(PLAIN.action_types)


@pytest.mark.parametrize("action_type", NO_ROWS)
@pytest.mark.parametrize(("place", "reversible"), enumerate(REVERSIBLE))
def test_a_type_and_a_reversibility_at_every_row_step(
    action_type: str, place: int, reversible: bool | None
) -> None:
    for rows, added in OF_ROWS.items():
        verdict = Session(POINT).verdict(toolName=f"{action_type}-{reversible}", rows_affected=rows)
        value = NO_ROWS[action_type][place] + added
        assert gate(verdict)["detail"]["score_per_mille"] == value
        assert find_result(verdict) == compute_expected(value)


@pytest.mark.parametrize("rows", [9, 10, 11, 99, 100, 101, 999, 1000, 1001])
def test_rows_of_earlier_actions_count_like_this_actions(rows: int) -> None:
    at_once, in_steps = Session(POINT), Session(POINT)
    in_steps.propose(rows_affected=rows - 4)
    last = {"toolName": "FILE_DELETE-None", "action_id": "act-2"}
    one = at_once.verdict(**last, rows_affected=rows)
    two = in_steps.verdict(**last, rows_affected=4)
    assert gate(one) == gate(two)
    assert gate(one)["detail"]["aggregateRowsAffected"] == rows


@pytest.mark.parametrize(
    ("escalate_at", "block_at", "outcome"),
    [
        (549, 1001, "ESCALATE"),
        (550, 1001, "ESCALATE"),
        (551, 1001, "pass"),
        (0, 549, "BLOCK"),
        (0, 550, "BLOCK"),
        (0, 551, "ESCALATE"),
        (550, 550, "BLOCK"),
        (551, 551, "pass"),
        (0, 1001, "ESCALATE"),
        (0, 0, "BLOCK"),
    ],
)
def test_a_score_of_550_at_around_and_between_the_thresholds(
    escalate_at: int, block_at: int, outcome: str
) -> None:
    consequence = PLAIN.written["consequence"].model_dump() | {
        "escalate_at": escalate_at,
        "block_at": block_at,
    }
    session = Session(point(*TOOLS, policy=bundle(patterns={}, consequence=consequence), stages=STAGES))
    verdict = session.verdict(toolName="PAYMENT-False", rows_affected=0)
    assert gate(verdict)["detail"]["score_per_mille"] == 550
    assert find_result(verdict) == outcome


def test_a_full_score_can_be_kept_from_blocking() -> None:
    consequence = PLAIN.written["consequence"].model_dump() | {"block_at": 1001}
    types = {name: {**one.model_dump(), "risk": 1000} for name, one in PLAIN.action_types.items()}
    policy = bundle(patterns={}, consequence=consequence, action_types=types)
    verdict = Session(point(*TOOLS, policy=policy, stages=STAGES)).verdict(
        toolName="OTHER-False", rows_affected=10**9
    )
    assert gate(verdict)["detail"]["score_per_mille"] == 1000
    assert find_result(verdict) == "ESCALATE"


def test_the_record_holds_the_score_with_its_parts_and_thresholds() -> None:
    verdict = Session(POINT).verdict(toolName="API_CALL-False", rows_affected=500)
    assert gate(verdict)["detail"] == {
        "score_per_mille": 545,
        "reversibility": 1000,
        "rows_part": 300,
        "action_type": 300,
        "aggregateRowsAffected": 500,
        "escalate_at": 700,
        "block_at": 880,
    }
