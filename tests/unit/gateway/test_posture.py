"""The posture of actions and memory: counts of decisions, with shares, tables and what waits."""

from __future__ import annotations

from typing import Any

from sluice.gateway.pages.posture import (
    MOST_ROWS,
    compute_action_posture,
    compute_memory_posture,
    list_sessions,
)


def verdict(word: str = "allowed", gate: str = "tier_auth", **changed: Any) -> dict[str, Any]:
    """One that this gate decided, after one that passed."""
    passed = {"gate": "controls", "passed": True, "durationMs": 0.5}
    last = {"gate": gate, "passed": word == "allowed", "durationMs": 1.0}
    after = {"aggregateRowsAffected": 3, "aggregateActionCount": 1}
    return {
        "verdict": word,
        "tier": "T3",
        "agent_id": "operator",
        "session_id": "s-1",
        "decided_at": "2026-11-23T10:00:00.000Z",
        "gateResults": [passed, last],
        "blockReason": None if word == "allowed" else f"{gate}_code: why",
        "session": {"after": after},
        **changed,
    }


def test_actions_are_counted_by_word_gate_tier_agent_and_reason() -> None:
    verdicts = [verdict(), verdict("denied"), verdict("needs_human", "rules", agent_id="other"), verdict()]
    found = compute_action_posture(verdicts, [{"opened_at": "2026-11-23T09:00:00.000Z"}])
    assert found["words"] == [("allowed", 2, "50.0%"), ("needs_human", 1, "25.0%"), ("denied", 1, "25.0%")]
    assert found["gates"]["rows"] == [("rules", [0, 1]), ("tier_auth", [1, 0])]
    assert found["agents"]["rows"] == [("operator", [2, 0, 1]), ("other", [0, 1, 0])]
    assert found["reasons"] == [("tier_auth_code", 1), ("rules_code", 1)]
    assert (found["count"], found["median_ms"], found["waiting"], found["oldest"]) == (
        4,
        1.5,
        1,
        "2026-11-23T09:00:00.000Z",
    )


def test_nothing_decided_has_no_shares_and_nothing_waits() -> None:
    found = compute_action_posture([], [])
    assert found["words"] == [(name, 0, "-") for name in ("allowed", "needs_human", "denied")]
    assert (found["median_ms"], found["oldest"]) == (None, None)
    assert compute_memory_posture([], [])["words"] == [
        (name, 0, "-") for name in ("allow", "quarantine", "reject")
    ]


def test_a_table_has_the_rows_with_the_most() -> None:
    many = [verdict(agent_id=f"agent-{number:02}") for number in range(3 * MOST_ROWS)]
    rows = compute_action_posture([*many, verdict(agent_id="busy"), verdict(agent_id="busy")], [])["agents"][
        "rows"
    ]
    assert (len(rows), rows[0]) == (MOST_ROWS, ("busy", [2, 0, 0]))


def test_a_session_has_its_newest_totals_and_counts_of_all() -> None:
    newer = {"aggregateRowsAffected": 9, "aggregateActionCount": 2}
    (found,) = list_sessions([verdict("denied", session={"after": newer}), verdict(agent_id="other")])
    assert (found["totals"], found["agents"]) == (newer, {"operator", "other"})
    assert found["words"] == {"denied": 1, "allowed": 1}
