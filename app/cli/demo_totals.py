"""The tables of a demo's result that sum up: totals per session, and the ledger's chains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.demo_cells import COLOURS, count, cut, number, table
from app.cli.output import shown
from app.demo.tally import by_session

if TYPE_CHECKING:
    from rich.table import Table

    from app.demo.answers import Answers
    from app.demo.tally import SessionTally
    from app.verifier.findings import Report

_NONE = "·"
_HEAD_SHOWN = 23


def sessions_tables(answers: Answers) -> list[Table]:
    """Totals per session, in two tables to stand side by side."""
    tallies = by_session(answers)
    half = (len(tallies) + 1) // 2
    return [
        _sessions("Sessions: [green]a[/]llowed, [red]d[/]enied, [yellow]n[/]eeds_human", tallies[:half]),
        _sessions("acts, rows: the totals counted at the end", tallies[half:]),
    ]


def chains_table(report: Report) -> Table:
    """Each partition's chain: how long, and the beginning of its head."""
    made = table(
        "The ledger, verified from its topics alone",
        number("partition"),
        number("records"),
        "numbered",
        "head",
    )
    for partition, summary in report.partitions.items():
        numbered = f"{summary.first} to {summary.last}"
        head = f"{(summary.head or '')[:_HEAD_SHOWN]}…"
        made.add_row(str(partition), str(summary.records), numbered, shown(head))
    return made


def _sessions(title: str, tallies: list[SessionTally]) -> Table:
    words = [number(f"[{colour}]{verdict[0]}[/]") for verdict, colour in COLOURS.items()]
    made = table(title, cut("session", 22), *words, number("acts"), number("rows"))
    for one in tallies:
        verdicts = (str(one.verdicts[verdict] or _NONE) for verdict in COLOURS)
        made.add_row(shown(one.session_id), *verdicts, str(one.actions), count(one.rows))
    return made
