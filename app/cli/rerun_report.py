"""What reruns came to, counted and on the screen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

from rich.table import Table

from app.cli.output import console, shown
from app.core.ledger.rerun_result import Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.core.ledger.rerun_result import Rerun

SHOWN = 50
"""Reruns on the screen; `--json` has all."""
_COLOURS = {"identical": "green", "different": "bold red", "evidence_gone": "yellow"}


@dataclass
class Tally:
    """Counts by status; `kept` are those that are not identical, or all."""

    keep_identical: bool
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(get_args(Status), 0))
    kept: list[Rerun] = field(default_factory=list)

    def take(self, reruns: Iterable[Rerun]) -> None:
        """Count some more."""
        for one in reruns:
            self.counts[one.status] += 1
            if self.keep_identical or one.status != "identical":
                self.kept.append(one)


def print_reruns(tally: Tally) -> None:
    """A row for each difference and each missing thing, and one sentence."""
    if tally.kept:
        console.print(_table(tally.kept[:SHOWN]))
    total = sum(tally.counts.values())
    if not total:
        console.print("[yellow]The ledger holds no verdict.[/]")
        return
    parts = [
        f"[{_COLOURS[name]}]{count} {name.replace('_', ' ')}[/]"
        for name, count in tally.counts.items()
        if count
    ]
    rest = f"; the first {SHOWN} are shown, --json has all" if len(tally.kept) > SHOWN else ""
    console.print(f"{', '.join(parts)} of {total}{rest}", soft_wrap=True)


def _table(reruns: list[Rerun]) -> Table:
    table = Table()
    for heading in ("verdict", "rerun", "field", "recorded", "now"):
        table.add_column(heading, overflow="fold")
    for one in reruns:
        status = f"[{_COLOURS[one.status]}]{one.status.replace('_', ' ')}[/]"
        for cells in _rows(one):
            table.add_row(shown(one.verdict_id), status, *(shown(cell) for cell in cells))
    return table


def _rows(one: Rerun) -> list[tuple[object, object, object]]:
    if one.missing:
        return [(missing, "-", "gone") for missing in one.missing]
    return [(each.field, each.recorded, each.rerun) for each in one.differences] or [("-", "-", "-")]
