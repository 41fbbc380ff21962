"""A period decided again under a candidate: what changes and why, what people are asked, what is unknown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from load.attacks.forging import change
from load.attacks.recorded_installation import RecordedInstallation
from sluice.core.backtest.partition_backtest import INPUT_GONE, NOT_READ, BacktestPeriod
from sluice.core.rerun.policy_then import Candidate
from sluice_topics.catalog import ACTIONS, ESCALATIONS, MEMORY_WRITES, OUTCOMES, VERDICTS
from tests.unit.core.backtest.recorded import FOREVER, action, backtest, candidate, entry, outcome, rule
from tests.unit.core.rerun.test_rerun_approvals import answer, records

if TYPE_CHECKING:
    from sluice.core.backtest.backtest_tally import BacktestTally


def changes(tally: BacktestTally) -> dict[str, tuple[str, str, str]]:
    """Of each changed verdict, by its input's offset: before, after, and why."""
    return {
        change.id.rpartition(":")[2]: (change.group.before, change.group.after, change.group.because)
        for change in tally.listed
    }


@pytest.fixture
def installation() -> RecordedInstallation:
    return RecordedInstallation()


def test_under_the_policy_of_then_nothing_changes(installation: RecordedInstallation) -> None:
    for number in range(12):
        tool, session = ("find", "erase", "run")[number % 3], f"s-{number % 2}"
        installation.take(ACTIONS, action(f"a-{number}", toolName=tool, session_id=session))
        installation.take(OUTCOMES, outcome(f"a-{number}", 20, session))
    write = {"write_id": "w-1", "agent_id": "operator", "session_id": "s-1", "content": "Likes tea."}
    installation.take(MEMORY_WRITES, {**write, "source": {"id": "crm", "type": "user"}})
    opened = records(installation, ESCALATIONS, "escalation_opened")
    answer(installation, opened[0], "approve")
    answer(installation, opened[1], "deny")
    tally = backtest(installation, Candidate())
    assert (tally.decided, tally.changes) == (
        {"verdict": 12, "memory_decision": 1, "resolved_verdict": 1},
        {},
    )
    assert (tally.asked_then, tally.dropped.total(), tally.added.total()) == (tally.asked_now, 0, 0)
    assert tally.remaining == {"waiting": len(opened) - 2, "approved": 1, "denied": 1}
    assert (tally.skipped.total(), tally.unanswered.total()) == (0, 0)


def test_what_the_candidate_denies_counts_in_no_later_total() -> None:
    """The first is denied, its outcome is left out, and so the third fits."""
    installation = RecordedInstallation(tables=rule("session.aggregateRowsAffected <= 1000"))
    installation.take(ACTIONS, action("a-0", rows_affected=900))
    installation.take(OUTCOMES, outcome("a-0", 900))
    for number in (1, 2):
        installation.take(ACTIONS, action(f"a-{number}"))
    limits = rule("session.aggregateRowsAffected <= 1000 && action.rows < 800")
    tally = backtest(installation, candidate(**limits))
    assert changes(tally) == {"0": ("ALLOW", "BLOCK", "policy"), "2": ("BLOCK", "ALLOW", "state")}
    assert (tally.newly_allowed, tally.newly_stopped) == (1, 1)
    (first, second) = (change.group for change in tally.listed)
    assert (first.gate, first.tool, first.agent, first.tenant) == ("rules", "find", "operator", "acme")
    assert (second.gate, tally.decided.total()) == ("rules", 3)


def test_what_people_had_answered_to_questions_that_are_no_longer_asked(
    installation: RecordedInstallation,
) -> None:
    for number in range(4):
        installation.take(ACTIONS, action(f"a-{number}", toolName="erase"))
    opened = records(installation, ESCALATIONS, "escalation_opened")
    answer(installation, opened[0], "approve")
    installation.take(OUTCOMES, outcome("a-0", 40))
    answer(installation, opened[1], "deny")
    installation.now += 2 * 3_600_000
    answer(installation, opened[2], "approve")
    lax = entry("tool", "erase", tier="T1", action_type="DATABASE_READ", reversible=True)
    tally = backtest(installation, lax)
    assert {after for _, after, _ in changes(tally).values()} == {"ALLOW"}
    assert (tally.newly_allowed, tally.dropped) == (4, {"approved": 1, "denied": 1, "expired": 2})
    assert (tally.asked_then.total(), tally.asked_now.total()) == (4, 0)


def test_which_of_the_newly_asked_had_gone_through(installation: RecordedInstallation) -> None:
    installation.take(ACTIONS, action("a-0"))
    installation.take(OUTCOMES, outcome("a-0", 5))
    installation.take(ACTIONS, action("a-1"))
    strict = entry("tool", "find", tier="T3", action_type="DATABASE_WRITE", reversible=False)
    tally = backtest(installation, strict)
    assert set(changes(tally).values()) == {("ALLOW", "ESCALATE", "policy")}
    assert (tally.added, tally.added_carried, tally.added_reported) == ({"ALLOW": 2}, 2, 1)
    assert (tally.asked_then.total(), tally.asked_now.total()) == (0, 2)


def test_an_answer_counts_again_where_the_candidate_asks_the_same(installation: RecordedInstallation) -> None:
    installation.take(ACTIONS, action("a-0", toolName="erase"))
    (opened,) = records(installation, ESCALATIONS, "escalation_opened")
    answer(installation, opened, "approve")
    installation.take(OUTCOMES, outcome("a-0", 30))
    installation.take(ACTIONS, action("a-1"))
    tally = backtest(installation, candidate(**rule("session.aggregateRowsAffected < 150")))
    assert changes(tally) == {"1": ("ALLOW", "BLOCK", "policy")}
    assert tally.remaining == {"approved": 1}


def make_qualitative(criterion: str) -> dict[str, Any]:
    """The tables of a bundle that asks a model about each action."""
    asked = {"id": "tone", "reason": "not polite", "criterion": criterion}
    return {"grader": {"mode": "enforce", "rules": [asked], "proof": {"required": False}}}


def test_a_model_that_nobody_asked_makes_a_decision_unknown() -> None:
    installation = RecordedInstallation()
    installation.take(ACTIONS, action("a-0"))
    tally = backtest(installation, candidate(**make_qualitative("It is polite.")))
    assert [why for *_, why in changes(tally).values()] == ["unknown"]
    assert (tally.unanswered.total(), tally.newly_allowed, tally.newly_stopped) == (1, 0, 0)


def test_recorded_answers_count_for_the_same_question_alone() -> None:
    tables = make_qualitative("It is polite.")
    installation = RecordedInstallation(tables=tables)
    installation.take(ACTIONS, action("a-0"))
    (verdict,) = (json.loads(one.value) for one in installation.records if one.topic == VERDICTS)
    assert len(verdict["model_outputs"]) == 1
    assert backtest(installation, candidate(**tables)).changes == {}
    other = backtest(installation, candidate(**make_qualitative("It is short.")))
    assert [why for *_, why in changes(other).values()] == ["unknown"]


def test_only_the_period_is_compared_and_what_came_before_gives_its_state() -> None:
    installation = RecordedInstallation()
    for number in range(4):
        installation.take(ACTIONS, action(f"a-{number}"))
    times = [record.timestamp_ms for record in installation.inputs.values()]
    limits = candidate(**rule("session.aggregateRowsAffected <= 250"))
    late = backtest(installation, limits, BacktestPeriod(times[2], times[3], 0))
    assert (late.decided, changes(late)) == ({"verdict": 1}, {"2": ("ALLOW", "BLOCK", "policy")})
    assert late.begun_before == 0
    begun = backtest(installation, limits, BacktestPeriod(times[3], FOREVER, times[3]))
    assert (begun.decided, changes(begun)) == ({"verdict": 1}, {"3": ("ALLOW", "BLOCK", "policy")})
    assert begun.begun_before == 1


def test_what_cannot_be_made_again_and_what_does_not_come_out_as_recorded(
    installation: RecordedInstallation,
) -> None:
    for number in range(3):
        installation.take(ACTIONS, action(f"a-{number}", session_id=f"s-{number}"))
    del installation.inputs[ACTIONS, 3, 0]
    installation.records = change(VERDICTS, 1, outcome="BLOCK", verdict="denied")(installation)
    installation.records = change(VERDICTS, 2, action_id=None)(installation)
    tally = backtest(installation, Candidate())
    assert tally.skipped == {INPUT_GONE: 1, NOT_READ: 1}
    assert changes(tally) == {"1": ("BLOCK", "ALLOW", "not_reproduced")}
    assert (tally.newly_allowed, tally.decided.total()) == (0, 1)
