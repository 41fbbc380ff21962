"""What a back-test says in words, on the terminal and on its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.text.plurals import count_noun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.core.backtest.backtest_report import BacktestReport

ASSUMPTIONS = (
    "What people, models and the world did then stays as recorded: answers, reviews and outcomes.",
    "An action that the candidate does not let pass counts in no total, and its outcome is left out.",
    "An action that was not carried out then and would be now has no outcome: its reservation stays.",
    "A question that only the candidate asks has no answer: its action is not carried out.",
    "A question to a model that nobody asked then has no answer: the decision counts as unknown.",
)
_BOUNDS = {
    "changed": "changed decisions",
    "newly_allowed": "newly allowed decisions",
    "newly_stopped": "newly stopped decisions",
    "unknown": "unknown decisions",
    "questions_per_day": "questions on the busiest day",
}


def describe_period(report: BacktestReport) -> str:
    """From when to when, and over how many days with decisions."""
    period = report.period
    first, last = period.since or "the first record", period.until or "the last record"
    return f"{first} to {last}, {count_noun(period.days, 'day')} with decisions"


def describe_notices(report: BacktestReport) -> Iterator[str]:
    """What must be known before the figures are believed, and the bounds that are exceeded."""
    counts = report.decisions
    for check in report.bounds:
        if check.exceeded:
            yield f"{_BOUNDS[check.bound]}: {check.value:,}, at most {check.most} are allowed"
    if not counts.decided:
        yield "no decision of the period could be made again"
    if counts.unknown:
        ports = ", ".join(f"{port} {times:,}" for port, times in counts.unanswered.items())
        yield f"{count_noun(counts.unknown, 'decision')} would need a model that nobody asked: {ports}"
    if counts.not_reproduced:
        yield (
            f"{count_noun(counts.not_reproduced, 'decision')} come out otherwise under the policy of then "
            "too, and are not counted as changed: `sluice rerun` says why"
        )
    for why, times in counts.skipped.items():
        yield f"{count_noun(times, 'decision')} not made again: {why}"
    if counts.sessions_begun_before:
        yield (
            f"{count_noun(counts.sessions_begun_before, 'session')} began before what was read: of these "
            "only the totals are known (--warm-up reads more)"
        )
