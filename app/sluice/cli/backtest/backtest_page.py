"""The page of a back-test, complete in itself: key figures, questions a day, what changes, each decision."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from sluice.cli.backtest.backtest_words import ASSUMPTIONS, describe_notices, describe_period
from sluice.cli.quality.outcome_charts import OutcomeChart, escape_text, write_element
from sluice.cli.quality.page import Tile, draw_tiles, write_document, write_notices, write_row, write_table
from sluice.text.plurals import count_noun

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sluice.core.backtest.backtest_report import BacktestReport, OutcomeChange, QuestionDay

_FOLDER = Path(__file__).parent
_WIDTH, _TOP, _HEIGHT, _FOOT = 340.0, 20.0, 100.0, 16.0
_WIDEST_COLUMN = 28.0
_MOST_DAYS = 62
"""Days that are drawn; the table has all."""


def write_backtest_page(report: BacktestReport, written_at: str) -> str:
    """The document. `written_at` is RFC 3339, for the foot."""
    template = Template((_FOLDER / "backtest_page.html").read_text(encoding="utf-8"))
    body = template.substitute(
        period=escape_text(describe_period(report)),
        notices=write_notices([*describe_notices(report)]),
        key_figures=draw_tiles(_make_tiles(report)),
        chart=_draw_days(report.questions.by_day[-_MOST_DAYS:]),
        questions=_write_questions(report),
        changes="".join(_write_changes(report)),
        listed=_write_listed(report),
        assumptions=write_element(
            "ul", *(write_element("li", escape_text(sentence)) for sentence in ASSUMPTIONS)
        ),
        candidate=write_element(
            "ul",
            *(write_element("li", write_element("code", escape_text(name))) for name in report.candidate),
            class_="heads",
        ),
        written_at=escape_text(written_at),
    )
    return write_document("Back-test of a policy", body)


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


def _draw_days(days: Sequence[QuestionDay]) -> str:
    """Two bars a day: on the left before, on the right under the candidate."""
    if not days:
        return ""
    most = max(1, *(max(day.before, day.after) for day in days))
    column = min(_WIDEST_COLUMN, _WIDTH / len(days))
    bars = [
        _draw_bar((at + 0.1 + index * 0.4) * column, column * 0.36, _HEIGHT * count / most, class_)
        for at, day in enumerate(days)
        for index, (count, class_) in enumerate(((day.before, "f-pass"), (day.after, "f-flag")))
    ]
    below = _TOP + _HEIGHT + _FOOT
    labels = [write_element("text", f"{most:,}", x=0, y=_TOP - 6, class_="tick")]
    labels.append(write_element("text", escape_text(days[0].day), x=0, y=below, class_="tick"))
    if len(days) > 1:
        last = {"x": _WIDTH, "y": below, "text_anchor": "end"}
        labels.append(write_element("text", escape_text(days[-1].day), **last, class_="tick"))
    described = (
        f"{count_noun(len(days), 'day')}; before at most {max(day.before for day in days)} a day, "
        f"after at most {max(day.after for day in days)}. The table has every number."
    )
    chart = OutcomeChart("days", "Questions for people a day", described, _WIDTH, below + 4)
    legend = write_element(
        "p", "Of each day on the left: before. On the right: under the candidate.", class_="period"
    )
    return write_element("figure", legend, chart.draw(*bars, *labels), class_="card")


def _draw_bar(left: float, width: float, height: float, class_: str) -> str:
    """A bar that stands on the line; one of nothing is a hair."""
    top = _TOP + _HEIGHT - height
    return write_element("rect", x=left, y=top, width=width, height=max(height, 0.5), class_=class_)


def _write_questions(report: BacktestReport) -> str:
    questions, added = report.questions, report.questions.newly_asked
    answers = sorted({*questions.no_longer_asked, *questions.still_asked})
    by_answer = [
        write_row(
            [escape_text(answer)],
            [
                f"{questions.no_longer_asked.get(answer, 0):,}",
                f"{questions.still_asked.get(answer, 0):,}",
            ],
        )
        for answer in answers
    ]
    newly = [write_row([escape_text(outcome)], [f"{count:,}"]) for outcome, count in added.by_outcome.items()]
    newly.append(write_row(["of these carried out then"], [f"{added.carried_out:,}"]))
    newly.append(write_row(["of these with a reported outcome"], [f"{added.outcome_reported:,}"]))
    days = [
        write_row([escape_text(day.day)], [f"{day.before:,}", f"{day.after:,}"]) for day in questions.by_day
    ]
    return "".join(
        (
            write_table(
                "How people had answered", ["answer", "no longer asked", "still asked"], 1, by_answer
            ),
            write_table("Newly asked, by what was decided then", ["decided then", "questions"], 1, newly),
            write_element(
                "details",
                write_element("summary", escape_text("By day")),
                write_table("By day", ["day", "before", "after"], 1, days),
            ),
        )
    )


def _write_changes(report: BacktestReport) -> Iterator[str]:
    headings = ["kind", "before", "after"]
    yield write_table(
        "From what to what", [*headings, "decisions"], 3, map(_write_change, report.transitions)
    )
    by = (
        ("gate", report.by_gate),
        ("tool", report.by_tool),
        ("agent", report.by_agent),
        ("tenant", report.by_tenant),
    )
    for name, changes in by:
        yield write_table(f"By {name}", [name, *headings, "decisions"], 4, map(_write_named_change, changes))


def _write_change(change: OutcomeChange) -> str:
    words = (change.kind.replace("_", " "), change.before, change.after)
    return write_row([escape_text(word) for word in words], [f"{change.decisions:,}"])


def _write_named_change(change: OutcomeChange) -> str:
    words = (change.name, change.kind.replace("_", " "), change.before, change.after)
    return write_row([escape_text(word) for word in words], [f"{change.decisions:,}"])


def _write_listed(report: BacktestReport) -> str:
    names = ("decided_at", "id", "agent", "tool", "gate", "before", "after", "because", "reason_after")
    rows: Iterable[str] = (
        write_row([escape_text(getattr(change, name) or "-") for name in names], [])
        for change in report.listed
    )
    table = write_table("Decisions", [name.replace("_", " ") for name in names], len(names), rows)
    more = "all of them" if report.all_listed else "the first"
    summary = f"{count_noun(len(report.listed), 'decision')}, {more}"
    return write_element("details", write_element("summary", escape_text(summary)), table)
