"""The report of a back-test: its numbers, its bounds, and what is printed and written of it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from load.attacks.recorded_installation import RecordedInstallation
from sluice.cli.backtest.backtest import build_backtest_parts
from sluice.cli.backtest.backtest_page import write_backtest_page
from sluice.cli.output import print_parts
from sluice.core.backtest.backtest_report import read_bound
from sluice.core.backtest.backtest_tally import BacktestTally
from sluice.core.backtest.report_building import BacktestScope, build_backtest_report
from sluice_topics.catalog import ACTIONS
from tests.unit.core.backtest.recorded import action, backtest, candidate, entry, rule

if TYPE_CHECKING:
    from sluice.core.backtest.backtest_report import BacktestReport

MARKUP = "<b>[bold]markup[/]</b>"
STRICT = entry("tool", "find", tier="T3", action_type="DATABASE_WRITE", reversible=False)


def make_report(**bounds: str) -> BacktestReport:
    """Four actions, one with a tool whose name would be markup; under the candidate a person is asked about
    three."""
    installation = RecordedInstallation()
    for number in range(3):
        installation.take(ACTIONS, action(f"a-{number}"))
    installation.take(ACTIONS, action("a-3", toolName=MARKUP))
    scope = BacktestScope(STRICT, "here", None, None, None)
    read = {name: read_bound(text) for name, text in bounds.items()}
    return build_backtest_report(backtest(installation, STRICT), scope, read)  # type: ignore[arg-type]


def print_report(report: BacktestReport) -> str:
    to = Console(file=io.StringIO(), width=200)
    print_parts(build_backtest_parts(report), to)
    assert isinstance(to.file, io.StringIO)
    return to.file.getvalue()


def test_the_numbers_add_up() -> None:
    report = make_report()
    counts, questions = report.decisions, report.questions
    assert (counts.decided, counts.unchanged, counts.changed, counts.by_policy) == (4, 1, 3, 3)
    assert [(change.before, change.after, change.decisions) for change in report.transitions] == [
        ("ALLOW", "ESCALATE", 3)
    ]
    assert [(change.name, change.decisions) for change in report.by_tool] == [("find", 3)]
    assert (questions.after - questions.before, questions.newly_asked.by_outcome) == (3, {"ALLOW": 3})
    assert (questions.a_day_after, questions.busiest_day_after) == (questions.after, questions.after)
    assert report.candidate == [f"entry tool/find@9 {STRICT.entries[0].hash}"]


@pytest.mark.parametrize(
    ("bounds", "exceeded"),
    [
        ({"changed": "3"}, []),
        ({"changed": "2"}, ["changed"]),
        ({"changed": "75%"}, []),
        ({"changed": "74.9%", "newly_allowed": "0"}, ["changed"]),
        ({"newly_stopped": "0", "unknown": "0"}, ["newly_stopped"]),
        ({"questions_per_day": "3"}, []),
        ({"questions_per_day": "2"}, ["questions_per_day"]),
    ],
)
def test_a_bound_is_a_number_or_a_share(bounds: dict[str, str], exceeded: list[str]) -> None:
    report = make_report(**bounds)
    assert [check.bound for check in report.bounds if check.exceeded] == exceeded
    assert report.is_within_bounds == (not exceeded)
    assert (f"at most {bounds[exceeded[0]]}" in print_report(report)) if exceeded else True


@pytest.mark.parametrize("text", ["many", "-1", "", "%", "1.5", "1..5%", "²"])
def test_what_is_no_bound_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no number"):
        read_bound(text)


def test_the_terminal_and_the_page_have_what_matters_and_no_markup_of_strangers() -> None:
    report = make_report(changed="0")
    printed, page = print_report(report), write_backtest_page(report, "2026-01-01T00:00:00.000Z")
    for words in ("4 decided again", "3 changed", "By gate", "newly asked: 3", "changed decisions: 3"):
        assert words in printed
    for words in ("Questions for people", "tier_auth", "changed decisions: 3, at most 0", "<svg", "find"):
        assert words in page
    assert "<b>" not in page


def test_a_change_of_a_tool_with_a_hostile_name_is_escaped() -> None:
    installation = RecordedInstallation()
    installation.take(ACTIONS, action("a-0", toolName=MARKUP, mode="standard"))
    policy = candidate(
        **rule("action.tool != ''", type="assertion"), stages=["controls", "rules", "tier_auth"]
    )
    tally = backtest(installation, policy)
    report = build_backtest_report(tally, BacktestScope(policy, MARKUP, 0, 1, 0), {})
    assert MARKUP not in write_backtest_page(report, MARKUP)
    print_report(report)


def test_a_report_of_nothing_says_so() -> None:
    report = build_backtest_report(
        BacktestTally().close(), BacktestScope(STRICT, "here", None, None, None), {}
    )
    assert "no decision of the period could be made again" in print_report(report)
    assert "no decision of the period" in write_backtest_page(report, "2026-01-01T00:00:00.000Z")
