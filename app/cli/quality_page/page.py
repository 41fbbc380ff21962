"""The whole page: title and period, key figures with their targets, charts, tables, definitions."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from app.cli.percent import NOTHING
from app.cli.quality_page.charts import charts
from app.cli.quality_page.elements import element, plain
from app.cli.quality_page.key_figures import key_figures
from app.cli.quality_page.tables import alarms_table, coverage_table, figures_table, hidden_table
from app.core.retrieval.report import COVERAGE_MEANING
from app.core.retrieval.report_figures import FIGURES

if TYPE_CHECKING:
    from app.core.retrieval.report import QualityReport

_FOLDER = Path(__file__).parent


def page(report: QualityReport, written_at: str) -> str:
    """The document, complete in itself. `written_at` is RFC 3339, for the foot."""
    template = Template((_FOLDER / "page.html").read_text(encoding="utf-8"))
    return template.substitute(
        style=(_FOLDER / "page.css").read_text(encoding="utf-8"),
        period=_period(report),
        tenant=plain(report.scope.tenant or "all tenants"),
        key_figures=key_figures(report),
        notices=_notices(report),
        charts=charts(report),
        tables=_tables(report),
        definitions=_definitions(),
        written_at=plain(written_at),
    )


def _period(report: QualityReport) -> str:
    first, last = report.days or (report.scope.since or NOTHING, report.scope.until or NOTHING)
    days = len(report.by_day)
    counted = f"{days} day{'' if days == 1 else 's'} with decisions"
    return f"{_time(first)} to {_time(last)} UTC, {counted}"


def _time(day: str) -> str:
    return element("time", plain(day))


def _notices(report: QualityReport) -> str:
    """What needs a person, before the charts."""
    found = [
        f"Coverage of {one.tier} is below its target: {one.rate.whole - one.rate.part:,} of "
        f"{one.rate.whole:,} reported items have no decision."
        for one in report.coverage
        if one.short
    ]
    found += [f"{alarm.get('message')} (to {alarm.get('recipient')})" for alarm in report.alarms]
    if not report.overall.decisions:
        found.append("No decision on a retrieved item in this period.")
    items = (
        element("li", element("span", "▲", aria_hidden="true"), element("span", plain(one))) for one in found
    )
    return element("ul", *items, class_="notices") if found else ""


def _tables(report: QualityReport) -> str:
    by_class = [((name,), one) for name, one in report.by_class.items()]
    by_day = [((day,), one) for day, one in report.by_day.items()]
    hidden = {name: one for name, one in report.by_class.items() if sum(one.would_have_been.values())}
    parts = [
        figures_table("By content class", ["class"], by_class, report.overall),
        coverage_table(report.coverage),
        hidden_table(hidden) if hidden else "",
        alarms_table(report.alarms) if report.alarms else "",
        _folded("By day", figures_table("By day", ["day"], by_day)),
        _folded(
            "By day and content class",
            figures_table("By day and content class", ["day", "class"], report.by_day_and_class.items()),
        ),
    ]
    return "".join(parts)


def _folded(title: str, table: str) -> str:
    return element("details", element("summary", plain(title)), table)


def _definitions() -> str:
    told = [(figure.title, figure.meaning) for figure in FIGURES]
    told.append(
        ("Coverage", COVERAGE_MEANING),
    )
    return element("dl", *(element("dt", plain(name)) + element("dd", plain(what)) for name, what in told))
