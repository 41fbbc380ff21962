"""A verification's result on the screen and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.table import Table

from app.cli.output import console, shown

if TYPE_CHECKING:
    from app.verifier.findings import Finding, Report

SHOWN = 50
"""Findings on the screen; `--json` has all."""


def report_fields(report: Report) -> dict[str, Any]:
    """The report as JSON: {intact, records, partitions: {number: summary}, findings: [finding]}."""
    return {
        "intact": report.intact,
        "records": report.records,
        "partitions": {str(number): asdict(summary) for number, summary in report.partitions.items()},
        "findings": [asdict(finding) for finding in report.findings],
    }


def print_report(report: Report) -> None:
    """A table of the partitions, the findings, and one sentence."""
    console.print(_partitions(report))
    if report.findings:
        console.print(_findings(report.findings[:SHOWN]))
    console.print(_sentence(report), soft_wrap=True)


def _partitions(report: Report) -> Table:
    table = Table("partition", "records", "first", "last", title="Ledger")
    table.add_column("head", overflow="fold")
    for number, summary in report.partitions.items():
        cells = (number, summary.records, summary.first or "-", summary.last or "-", summary.head or "-")
        table.add_row(*(shown(cell) for cell in cells))
    return table


def _findings(findings: tuple[Finding, ...]) -> Table:
    table = Table(title="Findings")
    for heading in ("finding", "partition", "sequence", "topic", "offset", "what is wrong"):
        table.add_column(heading, overflow="fold")
    for each in findings:
        cells = (each.code, each.partition, each.sequence, each.topic, each.offset, each.message)
        table.add_row(*("-" if cell in (None, "") else shown(cell) for cell in cells))
    return table


def _sentence(report: Report) -> str:
    if not report.records:
        return "[yellow]The ledger holds no record: nothing was decided, or nothing was left.[/]"
    if report.intact:
        return f"[green]Intact:[/] {report.records} records in {len(report.partitions)} chains."
    total = len(report.findings)
    rest = f" The first {SHOWN} are shown; --json has all." if total > SHOWN else ""
    return f"[bold red]Not intact:[/] {total} findings in {report.records} records.{rest}"
