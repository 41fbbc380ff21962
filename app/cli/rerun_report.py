"""What reruns came to, counted and on the screen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, get_args

from rich.table import Table

from app.cli.output import console, shown
from app.core.ledger.rerun_result import Kind, Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.core.ledger.rerun_result import Rerun

SHOWN = 50
"""Reruns on the screen; `--json` has all."""
PLURALS = {
    "verdict": "verdicts",
    "memory_decision": "decisions on memories",
    "quality_decision": "decisions on retrieved items",
}
_COLOURS = {"identical": "green", "different": "bold red", "evidence_gone": "yellow"}


@dataclass
class Tally:
    """Counts by kind and status; `kept` are those that are not identical, or all."""

    keep_identical: bool
    by_kind: dict[Kind, dict[Status, int]] = field(
        default_factory=lambda: {kind: dict.fromkeys(get_args(Status), 0) for kind in get_args(Kind)}
    )
    kept: list[Rerun] = field(default_factory=list)

    @property
    def counts(self) -> dict[Status, int]:
        """By status alone."""
        return {name: sum(of[name] for of in self.by_kind.values()) for name in get_args(Status)}

    def take(self, reruns: Iterable[Rerun]) -> None:
        """Count some more."""
        for one in reruns:
            self.by_kind[one.kind][one.status] += 1
            if self.keep_identical or one.status != "identical":
                self.kept.append(one)


def print_reruns(tally: Tally) -> None:
    """A row for each difference and each missing thing, and one sentence."""
    if tally.kept:
        console.print(_table(tally.kept[:SHOWN]))
    told = [_sentence(kind, of) for kind, of in tally.by_kind.items() if any(of.values())]
    if not told:
        console.print("[yellow]The ledger holds no decision.[/]")
        return
    rest = f"; the first {SHOWN} are shown, --json has all" if len(tally.kept) > SHOWN else ""
    console.print(f"{'; '.join(told)}{rest}", soft_wrap=True)


def _sentence(kind: Kind, counts: dict[Status, int]) -> str:
    parts = [
        f"[{_COLOURS[name]}]{count} {name.replace('_', ' ')}[/]" for name, count in counts.items() if count
    ]
    return f"{PLURALS[kind]}: {', '.join(parts)} of {sum(counts.values())}"


def _table(reruns: list[Rerun]) -> Table:
    table = Table()
    for heading in ("decision", "rerun", "field", "recorded", "now"):
        table.add_column(heading, overflow="fold")
    for one in reruns:
        status = f"[{_COLOURS[one.status]}]{one.status.replace('_', ' ')}[/]"
        for cells in _rows(one):
            table.add_row(shown(one.id), status, *(shown(cell) for cell in cells))
    return table


def _rows(one: Rerun) -> list[tuple[object, object, object]]:
    if one.missing:
        return [(missing, "-", "gone") for missing in one.missing]
    return [(each.field, each.recorded, each.rerun) for each in one.differences] or [("-", "-", "-")]
