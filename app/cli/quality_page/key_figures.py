"""The line of key figures: each with its target, and a sign and words for how it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from app.cli.percent import percent
from app.cli.quality_page.coverage import standing
from app.cli.quality_page.elements import element, plain
from app.core.retrieval.report_figures import CONFIDENCE, FALSE_DENY, OVERRIDDEN, PROVENANCE, STALE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.retrieval.report import Coverage, QualityReport
    from app.core.retrieval.report_figures import Figure


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
