"""The rows of an auditor's question on the screen, as one JSON object, as CSV: written while they come."""

from __future__ import annotations

import csv
import heapq
from typing import TYPE_CHECKING, Any

import typer

from sluice.cli.output import clean, errors, make_visible, print_json, print_parts, stop
from sluice.cli.tables import LINES, build_table, fold
from sluice.core.reports.audit_questions import SCHEMA
from sluice.core.reports.audit_rows import guard_cell
from sluice.text.plurals import count_noun

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path

    from sluice.adapters.ledger_questions import AnsweredRow
    from sluice.core.reports.audit_rows import AuditQuestion, AuditRow

SHOWN = 100
"""Rows on the screen, the newest; JSON, CSV and a report have all."""
_HIDDEN = frozenset({"topic", "partition", "sequence", "event_hash", "tenant_id"})
"""Columns that the screen does without."""


async def print_rows(rows: AsyncIterator[AnsweredRow], question: AuditQuestion) -> None:
    """The newest rows, in the order of their times."""
    newest: list[tuple[str, int, AuditRow]] = []
    count = 0
    async for row, _ in rows:
        count += 1
        item = str(row["at"]), count, row
        if len(newest) < SHOWN:
            heapq.heappush(newest, item)
        else:
            heapq.heappushpop(newest, item)
    print_parts(_build_parts(question, [row for *_, row in sorted(newest, key=lambda each: each[:2])], count))


def _build_parts(question: AuditQuestion, rows: Sequence[AuditRow], count: int) -> Iterator[Any]:
    shown = [
        name
        for name in question.columns
        if name not in _HIDDEN and any(row[name] is not None for row in rows)
    ]
    if rows:
        cells = (
            ["-" if row[name] is None else make_visible(str(row[name])) for name in shown] for row in rows
        )
        columns = fold(*(name.replace("_", " ") for name in shown))
        yield build_table(*columns, rows=cells, title=question.title, box=LINES)
    rest = f"; the newest {SHOWN} are shown, --json, --csv and --report have all" if count > SHOWN else ""
    yield f"{count_noun(count, 'row')}{rest}"


async def print_json_rows(rows: AsyncIterator[AnsweredRow], question: AuditQuestion) -> None:
    """One object, written while the ledger is read."""
    members = {
        "schema": SCHEMA,
        "question": question.name,
        "scope": question.scope._asdict(),
        "columns": list(question.columns),
    }
    for number, (name, value) in enumerate(members.items()):
        typer.echo(f'{", " if number else "{"}"{name}": ', nl=False)
        print_json(value, end="")
    typer.echo(', "rows": [', nl=False)
    count = 0
    async for row, _ in rows:
        typer.echo(", " if count else "", nl=False)
        print_json(row, end="")
        count += 1
    typer.echo(f'], "count": {count}}}')


async def write_csv(rows: AsyncIterator[AnsweredRow], question: AuditQuestion, file: Path) -> None:
    """RFC 4180. A cell that a spreadsheet would take for a formula begins with an apostrophe."""
    count = 0
    try:
        with file.open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(question.columns)
            async for row, _ in rows:
                writer.writerow(
                    ["" if row[name] is None else guard_cell(row[name]) for name in question.columns]
                )
                count += 1
    except OSError as error:
        stop(f"cannot write {file}: {error.strerror}")
    errors.print(f"{count_noun(count, 'row')} written to {clean(file)}", soft_wrap=True, highlight=False)
