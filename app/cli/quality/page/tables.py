"""The page's tables: every number of the charts, and what has no chart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.cli.quality.page.coverage import standing
from app.cli.quality.page.elements import element, plain
from app.cli.quality.percent import NOTHING, percent
from app.core.reports.report_figures import FIGURES, OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from app.core.reports.report import Coverage
    from app.core.reports.report_figures import Figures

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
