"""The whole page: title and period, key figures with their targets, charts, tables, definitions.

The tables hold every number of the charts, and what has no chart.
"""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.cli.output import NOTHING, format_percent
from sluice.cli.quality.charts import describe_standing, draw_charts
from sluice.cli.quality.outcome_charts import escape_text, write_element
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
from sluice.text.plurals import count_noun, pluralize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sluice.core.reports.ledger_values import Basis
    from sluice.core.reports.report import Coverage, Figure, Figures, QualityReport

_COUNTED = ("decisions", *OUTCOMES, *(figure.title.lower() for figure in FIGURES))


def write_figures_table(
    title: str,
    names: Sequence[str],
    rows: Iterable[tuple[tuple[str, ...], Figures]],
    overall: Figures | None = None,
) -> str:
    """A row for each group, whose key has a word for each of `names`."""
    body = [write_row([escape_text(word) for word in key], _write_cells(figures)) for key, figures in rows]
    if overall is not None:
        whole = ["everything"] + [""] * (len(names) - 1)
        body.append(write_row(whole, _write_cells(overall), class_="total"))
    return write_table(title, [*names, *_COUNTED], len(names), body)


def write_coverage_table(tiers: Iterable[Coverage]) -> str:
    """A row for each tier."""
    body = [
        write_row(
            [escape_text(tier.tier)],
            [
                f"{tier.rate.whole:,}",
                f"{tier.rate.part:,}",
                format_percent(tier.rate),
                NOTHING if tier.target is None else f"{tier.target:.0%}",
                describe_standing(tier),
            ],
        )
        for tier in tiers
    ]
    headings = ["tier", "reported", "with a decision", "coverage", "target", "stands"]
    return write_table("Coverage by tier", headings, 1, body)


def write_hidden_table(rows: Mapping[str, Figures]) -> str:
    """Write a table of what flag-only and shadow mode hide, by class."""
    body = [
        write_row([escape_text(name)], [f"{figures.would_have_been[outcome]:,}" for outcome in OUTCOMES])
        for name, figures in rows.items()
    ]
    return write_table("What enforcing would have said", ["class", *OUTCOMES], 1, body)


def write_alarms_table(alarms: Iterable[Mapping[str, Any]]) -> str:
    """A row for each alarm."""
    times, words = ("raised_at", "since"), ("severity", "subject", "recipient", "message")
    names = (*times, *words)
    body = [
        write_row(
            [
                *(_write_moment(alarm.get(name)) for name in times),
                *(escape_text(alarm.get(name)) for name in words),
            ],
            [],
        )
        for alarm in alarms
    ]
    return write_table("Alarms", [name.replace("_", " ") for name in names], len(names), body)


def _write_moment(at: object) -> str:
    """An RFC 3339 time to the minute, kept on one line."""
    return write_element("time", escape_text(str(at)[:16].replace("T", " ")), class_="t")


def write_table(title: str, headings: Sequence[str], words: int, body: Iterable[str]) -> str:
    """Write a table in a box of its own that scrolls sideways, so that the page never does. The first `words`
    columns are words, the others numbers."""
    head = write_element(
        "tr", *(_write_heading(name, number >= words) for number, name in enumerate(headings))
    )
    table = write_element(
        "table",
        write_element("caption", escape_text(title)),
        write_element("thead", head),
        write_element("tbody", *body),
    )
    return write_element(
        "div", table, class_="scroll", role="region", aria_label=escape_text(title), tabindex=0
    )


def _write_heading(name: str, number: bool) -> str:
    return write_element("th", escape_text(name), scope="col", **({"class_": "n"} if number else {}))


def write_row(words: Sequence[str], numbers: Iterable[str], **attributes: object) -> str:
    """A table's row, its words escaped already; the first is its heading."""
    first, *others = words
    cells = [write_element("th", first, scope="row")]
    cells += [write_element("td", word) for word in others]
    cells += [write_element("td", number, class_="n") for number in numbers]
    return write_element("tr", *cells, **attributes)


def _write_cells(figures: Figures) -> Iterable[str]:
    yield f"{figures.decisions:,}"
    yield from (f"{figures.outcomes[outcome]:,}" for outcome in OUTCOMES)
    yield from (format_percent(figures.rates[figure.name]) for figure in FIGURES)


class Tile(NamedTuple):
    """`state` is "good", "bad" or "": no target to meet or miss."""

    label: str
    value: str
    target: str
    standing: str
    state: str = ""


def write_key_figures(report: QualityReport) -> str:
    """A list of tiles."""
    return draw_tiles(_make_tiles(report))


def draw_tiles(tiles: Iterable[Tile]) -> str:
    """Key figures as a list of tiles."""
    return write_element("ul", *map(_draw_tile, tiles), class_="tiles")


def _make_tiles(report: QualityReport) -> Iterator[Tile]:
    overall = report.overall
    denied = f"{overall.share('deny'):.1%} denied" if overall.decisions else "nothing decided"
    yield Tile("Decisions", f"{overall.decisions:,}", "items judged", denied)
    for coverage in report.coverage:
        if coverage.target is not None:
            yield _make_coverage_tile(coverage)
    failed = overall.rates[PROVENANCE.name]
    missed = bool(failed.part)
    state = ("bad" if missed else "good") if failed.whole else ""
    sign = ("▲ drift or tampering" if missed else "✓ on target") if failed.whole else "nothing decided"
    yield Tile(PROVENANCE.title, format_percent(failed), "target 0%", sign, state)
    yield _make_rate_tile(report, UNRESOLVED, "first reads")
    yield _make_rate_tile(report, STALE, "leading indicator")
    yield _make_rate_tile(report, CONFIDENCE, "leading indicator")
    yield _make_rate_tile(report, FALSE_DENY, "under flag-only")
    yield _make_rate_tile(report, OVERRIDDEN, "signed exceptions")


def _make_coverage_tile(coverage: Coverage) -> Tile:
    state = "" if coverage.rate.rate is None else "bad" if coverage.short else "good"
    return Tile(
        f"Coverage {coverage.tier}",
        format_percent(coverage.rate),
        f"target {coverage.target:.0%}",
        describe_standing(coverage),
        state,
    )


def _make_rate_tile(report: QualityReport, figure: Figure, target: str) -> Tile:
    rate = report.overall.rates[figure.name]
    return Tile(figure.title, format_percent(rate), target, f"{rate.part:,} of {rate.whole:,}")


def _draw_tile(tile: Tile) -> str:
    return write_element(
        "li",
        write_element("span", escape_text(tile.label), class_="name"),
        write_element("strong", escape_text(tile.value)),
        write_element("span", escape_text(tile.target), class_="aim"),
        write_element("span", escape_text(tile.standing), class_="standing"),
        class_=f"tile {tile.state}".strip(),
    )


_FOLDER = Path(__file__).parent
_DOCUMENT = Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>
$style
</style>
</head>
<body>
$body</body>
</html>
"""
)


def write_document(title: str, body: str, own_style: str = "") -> str:
    """A page that needs no network, with the style of all reports. `title` and `body` are HTML; `own_style`:
    what this page adds to the style."""
    style = (_FOLDER / "page.css").read_text(encoding="utf-8") + own_style
    return _DOCUMENT.substitute(title=title, style=style, body=body)


def write_page(report: QualityReport, written_at: str) -> str:
    """The document, complete in itself. `written_at` is RFC 3339, for the foot."""
    template = Template((_FOLDER / "page.html").read_text(encoding="utf-8"))
    body = template.substitute(
        period=_describe_period(report),
        tenant=escape_text(report.scope.tenant or "all tenants"),
        key_figures=write_key_figures(report),
        notices=_write_notices(report),
        charts=draw_charts(report),
        tables=_write_tables(report),
        definitions=_write_definitions(),
        basis=_describe_basis(report.basis) if report.basis else "",
        written_at=escape_text(written_at),
    )
    return write_document("Quality posture report", body)


def _describe_period(report: QualityReport) -> str:
    first, last = report.days or (report.scope.since or NOTHING, report.scope.until or NOTHING)
    days = len(report.by_day)
    return f"{_write_time(first)} to {_write_time(last)} UTC, {count_noun(days, 'day')} with decisions"


def _write_time(day: str) -> str:
    return write_element("time", escape_text(day))


def _write_notices(report: QualityReport) -> str:
    """Write what needs a person, before the charts."""
    findings = [
        f"Coverage of {coverage.tier} is below its target: {coverage.rate.whole - coverage.rate.part:,} of "
        f"{coverage.rate.whole:,} reported {pluralize(coverage.rate.whole, 'item has', 'items have')} "
        "no decision."
        for coverage in report.coverage
        if coverage.short
    ]
    findings += [f"{alarm.get('message')} (to {alarm.get('recipient')})" for alarm in report.alarms]
    if not report.overall.decisions:
        findings.append("No decision on a retrieved item in this period.")
    return write_notices(findings)


def write_notices(sentences: Sequence[str]) -> str:
    """A list of what needs a person; nothing where nothing does."""
    items = (
        write_element(
            "li", write_element("span", "▲", aria_hidden="true"), write_element("span", escape_text(sentence))
        )
        for sentence in sentences
    )
    return write_element("ul", *items, class_="notices") if sentences else ""


def _write_tables(report: QualityReport) -> str:
    by_class = [((name,), figures) for name, figures in report.by_class.items()]
    by_day = [((day,), figures) for day, figures in report.by_day.items()]
    hidden = {
        name: figures for name, figures in report.by_class.items() if sum(figures.would_have_been.values())
    }
    parts = [
        write_figures_table("By content class", ["class"], by_class, report.overall),
        write_coverage_table(report.coverage),
        write_hidden_table(hidden) if hidden else "",
        write_alarms_table(report.alarms) if report.alarms else "",
        _fold_table("By day", write_figures_table("By day", ["day"], by_day)),
        _fold_table(
            "By day and content class",
            write_figures_table(
                "By day and content class", ["day", "class"], report.by_day_and_class.items()
            ),
        ),
    ]
    return "".join(parts)


def _fold_table(title: str, table: str) -> str:
    return write_element("details", write_element("summary", escape_text(title)), table)


def _describe_basis(basis: Basis) -> str:
    """Describe what the report rests on: an auditor with the same heads has the same ledger up to them."""
    named = ", ".join(basis.environments) or "none named"
    about = f"Read from {basis.source}; installation: {named}. "
    heads = [
        write_element(
            "li",
            f"{head.partition}: {head.sequence:,}, ",
            write_element("code", escape_text(head.event_hash)),
        )
        for head in basis.heads
    ]
    if not heads:
        return write_element("p", escape_text(about + "No record was read."))
    title = f"Ledger heads: the last record read of each partition, {len(heads)} in all"
    return write_element("p", escape_text(about)) + write_element(
        "details", write_element("summary", escape_text(title)), write_element("ol", *heads, class_="heads")
    )


def _write_definitions() -> str:
    meanings = [(figure.title, figure.meaning) for figure in FIGURES]
    meanings.append(
        ("Coverage", COVERAGE_MEANING),
    )
    return write_element(
        "dl",
        *(
            write_element("dt", escape_text(name)) + write_element("dd", escape_text(what))
            for name, what in meanings
        ),
    )
