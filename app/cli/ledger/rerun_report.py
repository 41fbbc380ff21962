"""What reruns came to, counted and on the screen."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from rich.table import Table

from app.cli.output import console, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.core.rerun.rerun_result import Kind, Rerun, RerunTally, Status

SHOWN = 50
"""Reruns on the screen; `--json` has all."""
PLURALS = {
    "verdict": "verdicts",
    "memory_decision": "decisions on memories",
    "quality_decision": "decisions on retrieved items",
    "event": "other records",
}
_COLOURS = {
    "identical": "green",
    "different": "bold red",
    "other_version": "red",
    "evidence_gone": "yellow",
}
UNNAMED = "a release that named none"


def print_reruns(tally: RerunTally) -> None:
    """A row for each difference and each missing thing, and one sentence."""
    if tally.kept:
        console.print(reruns_table(tally.kept[:SHOWN]))
    told = [_sentence(kind, of) for kind, of in tally.by_kind.items() if any(of.values())]
    if not told:
        console.print("[yellow]The ledger holds no decision.[/]")
        return
    rest = f"; the first {SHOWN} are shown, --json has all" if len(tally.kept) > SHOWN else ""
    console.print(f"{'; '.join(told)}{rest}", soft_wrap=True)
    for what, count in tally.not_checked.items():
        console.print(f"[yellow]not checked in {count}:[/] {shown(what)}", soft_wrap=True)
    for by, again in sorted(_versions(tally.kept)):
        console.print(f"decided by {shown(by)}, executed again by {shown(again)}", soft_wrap=True)


def _sentence(kind: Kind, counts: dict[Status, int]) -> str:
    parts = [
        f"[{_COLOURS[name]}]{count} {name.replace('_', ' ')}[/]" for name, count in counts.items() if count
    ]
    return f"{PLURALS[kind]}: {', '.join(parts)} of {sum(counts.values())}"


def _versions(reruns: list[Rerun]) -> set[tuple[str, str]]:
    """Of what came out otherwise under another version of the code."""
    found = [one for one in reruns if one.status == "other_version"]
    return {(one.decided_by or UNNAMED, one.executed_by or UNNAMED) for one in found}


def reruns_table(reruns: Iterable[Rerun], most: int | None = None) -> Table:
    """The first `most` rows (None: all), one for each difference and each missing thing."""
    table = Table()
    for heading in ("decision", "rerun", "field", "recorded", "now"):
        table.add_column(heading, overflow="fold")
    every = ((one, cells) for one in reruns for cells in _rows(one))
    for rerun, cells in islice(every, most):
        status = f"[{_COLOURS[rerun.status]}]{rerun.status.replace('_', ' ')}[/]"
        table.add_row(shown(rerun.id), status, *(shown(cell) for cell in cells))
    return table


def _rows(one: Rerun) -> list[tuple[object, object, object]]:
    if one.missing:
        return [(missing, "-", "gone") for missing in one.missing]
    return [(each.field, each.recorded, each.rerun) for each in one.differences] or [("-", "-", "-")]
