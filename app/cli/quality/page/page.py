"""The whole page: title and period, key figures with their targets, charts, tables, definitions."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, NamedTuple

from app.cli.quality.page.charts import charts
from app.cli.quality.page.coverage import standing
from app.cli.quality.page.elements import element, plain
from app.cli.quality.page.tables import alarms_table, coverage_table, figures_table, hidden_table
from app.cli.quality.percent import NOTHING, percent
from app.core.reports.report import COVERAGE_MEANING
from app.core.reports.report_figures import CONFIDENCE, FALSE_DENY, FIGURES, OVERRIDDEN, PROVENANCE, STALE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.reports.ledger_values import Basis
    from app.core.reports.report import Coverage, QualityReport
    from app.core.reports.report_figures import Figure

# The line of key figures: each with its target, and a sign and words for how it stands.


class Tile(NamedTuple):
    """`state` is "good", "bad" or "": no target to meet or miss."""

    label: str
    value: str
    target: str
    standing: str
    state: str = ""


def key_figures(report: QualityReport) -> str:
    """A list of tiles."""
    return element("ul", *(_drawn(tile) for tile in _tiles(report)), class_="tiles")


def _tiles(report: QualityReport) -> Iterator[Tile]:
    overall = report.overall
    denied = f"{overall.share('deny'):.1%} denied" if overall.decisions else "nothing decided"
    yield Tile("Decisions", f"{overall.decisions:,}", "items judged", denied)
    for one in report.coverage:
        if one.target is not None:
            yield _covered(one)
    failed = overall.rates[PROVENANCE.name]
    missed = bool(failed.part)
    state = ("bad" if missed else "good") if failed.whole else ""
    sign = ("▲ drift or tampering" if missed else "✓ on target") if failed.whole else "nothing decided"
    yield Tile(PROVENANCE.title, percent(failed), "target 0%", sign, state)
    yield _rate(report, STALE, "leading indicator")
    yield _rate(report, CONFIDENCE, "leading indicator")
    yield _rate(report, FALSE_DENY, "under flag-only")
    yield _rate(report, OVERRIDDEN, "signed exceptions")


def _covered(one: Coverage) -> Tile:
    state = "" if one.rate.rate is None else "bad" if one.short else "good"
    return Tile(f"Coverage {one.tier}", percent(one.rate), f"target {one.target:.0%}", standing(one), state)


def _rate(report: QualityReport, figure: Figure, target: str) -> Tile:
    rate = report.overall.rates[figure.name]
    return Tile(figure.title, percent(rate), target, f"{rate.part:,} of {rate.whole:,}")


def _drawn(tile: Tile) -> str:
    return element(
        "li",
        element("span", plain(tile.label), class_="name"),
        element("strong", plain(tile.value)),
        element("span", plain(tile.target), class_="aim"),
        element("span", plain(tile.standing), class_="standing"),
        class_=f"tile {tile.state}".strip(),
    )


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
        basis=_basis(report.basis) if report.basis else "",
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


def _basis(basis: Basis) -> str:
    """What the report rests on: an auditor with the same heads has the same ledger up to them."""
    named = ", ".join(basis.environments) or "none named"
    about = f"Read from {basis.source}; installation: {named}. "
    heads = [
        element("li", f"{one.partition}: {one.sequence:,}, ", element("code", plain(one.event_hash)))
        for one in basis.heads
    ]
    if not heads:
        return element("p", plain(about + "No record was read."))
    title = f"Ledger heads: the last record read of each of {len(heads)} partitions"
    return element("p", plain(about)) + element(
        "details", element("summary", plain(title)), element("ol", *heads, class_="heads")
    )


def _definitions() -> str:
    told = [(figure.title, figure.meaning) for figure in FIGURES]
    told.append(
        ("Coverage", COVERAGE_MEANING),
    )
    return element("dl", *(element("dt", plain(name)) + element("dd", plain(what)) for name, what in told))
