"""An evaluation on the screen."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.table import Table

from app.cli.output import console, shown
from app.offline.scores import LABELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from app.offline.action_evaluation import JudgedAction
    from app.offline.scores import ActionScore

COLOURS = {"harmful": "red", "benign": "green", "ambiguous": "yellow"}


def print_scores(by_source: Mapping[str, ActionScore], mean: Mapping[str, float | None]) -> None:
    """A row for each source, one for their mean, and which gate caught how many."""
    console.print(_sources(by_source, mean))
    console.print(_gates(by_source.values()))
    left_out = sum(score.left_out for score in by_source.values())
    unreadable = sum(score.unreadable for score in by_source.values())
    console.print(f"Left out as ambiguous: {left_out}. Unreadable: {unreadable}.")


def print_rows(rows: Iterable[JudgedAction]) -> None:
    """A line for each row: source, id, label, outcome, gate, reason."""
    for one in rows:
        label = f"[{COLOURS[one.row.label]}]{one.row.label}[/]"
        outcome = f"[bold]{one.outcome}[/]" if one.caught else one.outcome
        place = f"{shown(one.row.file)} {shown(one.row.id)}"
        reason = "" if one.reason is None else shown(one.reason)
        console.print(f"{place} {label} {outcome} {one.gate or '-'} {reason}", soft_wrap=True)


def _sources(by_source: Mapping[str, ActionScore], mean: Mapping[str, float | None]) -> Table:
    table = Table("source")
    for heading in ("harmful", "recall", "benign", "false pos.", "precision"):
        table.add_column(heading, justify="right")
    for source, score in by_source.items():
        harmful, benign = score.rows["harmful"], score.rows["benign"]
        shares = [percent(score.recall), percent(score.false_positive_rate), percent(score.precision)]
        table.add_row(shown(source), str(harmful), shares[0], str(benign), *shares[1:])
    table.add_section()
    recall, wrong, precision = (
        percent(mean[name]) for name in ("recall", "false_positive_rate", "precision")
    )
    table.add_row("macro average", "", recall, "", wrong, precision)
    return table


def _gates(scores: Iterable[ActionScore]) -> Table:
    caught: dict[str, Counter[str]] = {}
    escalated: Counter[str] = Counter()
    for score in scores:
        escalated += score.escalated
        for gate, count in score.by.items():
            caught[gate] = caught.get(gate, Counter()) + count
    table = Table("rows", *LABELS)
    for gate, count in sorted(caught.items()):
        table.add_row(f"caught by {shown(gate)}", *(str(count[label]) for label in LABELS))
    table.add_row("escalated, not caught", *(str(escalated[label]) for label in LABELS))
    return table


def percent(part: float | None) -> str:
    """A share for people; "-" for none."""
    return "-" if part is None else f"{part:.1%}"
