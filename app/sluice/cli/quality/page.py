"""The whole page: title and period, key figures with their targets, charts, tables, definitions.

The tables hold every number of the charts, and what has no chart.
"""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.cli.output import NOTHING, percent
from sluice.cli.quality.charts import charts, standing
from sluice.cli.quality.outcome_charts import element, plain
from sluice.core.reports.report import (
    CONFIDENCE,
    COVERAGE_MEANING,
    FALSE_DENY,
    FIGURES,
    OUTCOMES,
    OVERRIDDEN,
    PROVENANCE,
    STALE,
    UNRESOLVED,
)
from sluice.text.plurals import counted, pluralize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sluice.core.reports.ledger_values import Basis
    from sluice.core.reports.report import Coverage, Figure, Figures, QualityReport

_COUNTED = ("decisions", *OUTCOMES, *(figure.title.lower() for figure in FIGURES))


def figures_table(
    title: str,
    names: Sequence[str],
    rows: Iterable[tuple[tuple[str, ...], Figures]],
    overall: Figures | None = None,
) -> str:
    """A row for each group, whose key has a word for each of `names`."""
    body = [_row([plain(word) for word in key], _cells(one)) for key, one in rows]
    if overall is not None:
        whole = ["everything"] + [""] * (len(names) - 1)
        body.append(_row(whole, _cells(overall), class_="total"))
    return _table(title, [*names, *_COUNTED], len(names), body)


def coverage_table(tiers: Iterable[Coverage]) -> str:
    """A row for each tier."""
    body = [
        _row(
            [plain(one.tier)],
            [
                f"{one.rate.whole:,}",
                f"{one.rate.part:,}",
                percent(one.rate),
                NOTHING if one.target is None else f"{one.target:.0%}",
                standing(one),
            ],
        )
        for one in tiers
    ]
    headings = ["tier", "reported", "with a decision", "coverage", "target", "stands"]
    return _table("Coverage by tier", headings, 1, body)


def hidden_table(rows: Mapping[str, Figures]) -> str:
    """What flag-only and shadow mode hide, by class."""
    body = [
        _row([plain(name)], [f"{one.would_have_been[outcome]:,}" for outcome in OUTCOMES])
        for name, one in rows.items()
    ]
    return _table("What enforcing would have said", ["class", *OUTCOMES], 1, body)


def alarms_table(alarms: Iterable[Mapping[str, Any]]) -> str:
    """A row for each alarm."""
    times, words = ("raised_at", "since"), ("severity", "subject", "recipient", "message")
    names = (*times, *words)
    body = [
        _row([*(_moment(alarm.get(name)) for name in times), *(plain(alarm.get(name)) for name in words)], [])
        for alarm in alarms
    ]
    return _table("Alarms", [name.replace("_", " ") for name in names], len(names), body)


def _moment(at: object) -> str:
    """An RFC 3339 time to the minute, kept on one line."""
    return element("time", plain(str(at)[:16].replace("T", " ")), class_="t")


def _table(title: str, headings: Sequence[str], words: int, body: Iterable[str]) -> str:
    """In a box of its own that scrolls sideways, so that the page never does. The first `words` columns are
    words, the others numbers."""
    head = element("tr", *(_heading(name, number >= words) for number, name in enumerate(headings)))
    table = element(
        "table",
        element("caption", plain(title)),
        element("thead", head),
        element("tbody", *body),
    )
    return element("div", table, class_="scroll", role="region", aria_label=plain(title), tabindex=0)


def _heading(name: str, number: bool) -> str:
    return element("th", plain(name), scope="col", **({"class_": "n"} if number else {}))


def _row(words: Sequence[str], numbers: Iterable[str], **attributes: object) -> str:
    first, *others = words
    cells = [element("th", first, scope="row")]
    cells += [element("td", word) for word in others]
    cells += [element("td", number, class_="n") for number in numbers]
    return element("tr", *cells, **attributes)


def _cells(figures: Figures) -> Iterable[str]:
    yield f"{figures.decisions:,}"
    yield from (f"{figures.outcomes[outcome]:,}" for outcome in OUTCOMES)
    yield from (percent(figures.rates[figure.name]) for figure in FIGURES)


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
    yield _rate(report, UNRESOLVED, "first reads")
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
    return f"{_time(first)} to {_time(last)} UTC, {counted(days, 'day')} with decisions"


def _time(day: str) -> str:
    return element("time", plain(day))


def _notices(report: QualityReport) -> str:
    """What needs a person, before the charts."""
    found = [
        f"Coverage of {one.tier} is below its target: {one.rate.whole - one.rate.part:,} of "
        f"{one.rate.whole:,} reported {pluralize(one.rate.whole, 'item has', 'items have')} no decision."
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
    title = f"Ledger heads: the last record read of each partition, {len(heads)} in all"
    return element("p", plain(about)) + element(
        "details", element("summary", plain(title)), element("ol", *heads, class_="heads")
    )


def _definitions() -> str:
    meanings = [(figure.title, figure.meaning) for figure in FIGURES]
    meanings.append(
        ("Coverage", COVERAGE_MEANING),
    )
    return element(
        "dl", *(element("dt", plain(name)) + element("dd", plain(what)) for name, what in meanings)
    )
