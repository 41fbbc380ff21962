"""The page of a back-test, complete in itself: key figures, questions a day, what changes, each decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.cli.backtest.backtest_words import ASSUMPTIONS, describe_notices, describe_period
from sluice.cli.pages import Tile, render_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.core.backtest.backtest_report import BacktestReport, OutcomeChange

_MOST_DAYS = 62
"""Days that are drawn; the table has all."""
_LISTED = ("decided_at", "id", "agent", "tool", "gate", "before", "after", "because", "reason_after")


def write_backtest_page(report: BacktestReport, written_at: str) -> str:
    """The document. `written_at` is RFC 3339, for the foot."""
    groups = {
        "gate": report.by_gate,
        "tool": report.by_tool,
        "agent": report.by_agent,
        "tenant": report.by_tenant,
    }
    return render_document(
        "backtest.html",
        report=report,
        written_at=written_at,
        period=describe_period(report),
        notices=list(describe_notices(report)),
        tiles=_make_tiles(report),
        drawn=report.questions.by_day[-_MOST_DAYS:],
        **_build_questions(report),
        transitions=[_write_change(change) for change in report.transitions],
        changes={
            name: [[change.name, *_write_change(change)] for change in changes]
            for name, changes in groups.items()
        },
        listed=[[getattr(change, name) or "-" for name in _LISTED] for change in report.listed],
        listed_names=[name.replace("_", " ") for name in _LISTED],
        assumptions=ASSUMPTIONS,
    )


def _make_tiles(report: BacktestReport) -> Iterator[Tile]:
    counts, questions = report.decisions, report.questions
    exceeded = {check.bound for check in report.bounds if check.exceeded}

    def judge(bound: str) -> str:
        bounded = {check.bound for check in report.bounds}
        return "bad" if bound in exceeded else "good" if bound in bounded else ""

    share = counts.changed / counts.decided if counts.decided else 0
    yield Tile("Decided again", f"{counts.decided:,}", "decisions", f"{counts.unchanged:,} unchanged")
    yield Tile(
        "Changed",
        f"{counts.changed:,}",
        f"{share:.2%} of them",
        f"{counts.by_state:,} by totals alone",
        judge("changed"),
    )
    yield Tile(
        "Newly allowed",
        f"{counts.newly_allowed:,}",
        "stopped or asked then",
        f"{counts.newly_stopped:,} newly stopped",
        judge("newly_allowed"),
    )
    yield Tile(
        "Questions a day",
        f"{questions.a_day_after:,.1f}",
        f"{questions.a_day_before:,.1f} before",
        f"busiest day {questions.busiest_day_after:,}, {questions.busiest_day_before:,} before",
        judge("questions_per_day"),
    )


def _build_questions(report: BacktestReport) -> dict[str, list[list[str]]]:
    """Of each table about questions its rows."""
    questions, added = report.questions, report.questions.newly_asked
    return {
        "by_answer": [
            [
                answer,
                f"{questions.no_longer_asked.get(answer, 0):,}",
                f"{questions.still_asked.get(answer, 0):,}",
            ]
            for answer in sorted({*questions.no_longer_asked, *questions.still_asked})
        ],
        "newly": [
            *([outcome, f"{count:,}"] for outcome, count in added.by_outcome.items()),
            ["of these carried out then", f"{added.carried_out:,}"],
            ["of these with a reported outcome", f"{added.outcome_reported:,}"],
        ],
        "by_day": [[day.day, f"{day.before:,}", f"{day.after:,}"] for day in questions.by_day],
    }


def _write_change(change: OutcomeChange) -> list[str]:
    return [change.kind.replace("_", " "), change.before, change.after, f"{change.decisions:,}"]
