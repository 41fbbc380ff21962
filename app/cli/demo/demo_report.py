"""A demo's result on the screen, for someone who sees Sluice for the first time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.columns import Columns

from app.cli.demo.demo_memories import (
    decisions_table,
    held_examples_table,
    quarantine_table,
    statistics_table,
)
from app.cli.demo.demo_posture import alarms_table, coverage_table, posture_table
from app.cli.demo.demo_reading import told
from app.cli.demo.demo_retrievals import flags_table, items_table, override_table, story_table
from app.cli.demo.demo_tables import (
    causes_table,
    chains_table,
    dead_letters_table,
    escalations_table,
    examples_table,
    growth_table,
    repeats_table,
    sessions_tables,
    settled_table,
)
from app.cli.ledger.ledger_report import print_report
from app.cli.ledger.rerun_report import PLURALS, reruns_table
from app.demo.inputs.sessions import MESSAGES, WRITES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from app.demo.inputs.material import Material
    from app.demo.result import Result

_TELLING_UNANSWERED = 5
_TELLING_RERUNS = 10
"""Rows: a decision that came out otherwise has one for each field."""


def print_opening(console: Console, material: Material) -> None:
    """What is going to happen, and what of it is real."""
    sources = [row.source for row in material.rows] + [row["source"] for row in material.writes]
    repositories = len({source.partition("@")[0] for source in sources})
    items = sum(len(one.fields["items"]) for one in material.retrievals)
    console.print(
        f"[bold]{len(material.rows)} real tool calls[/] of agents and [bold]{len(material.writes)} texts[/] "
        f"to be remembered, from {repositories} public\nrepositories, and in the same "
        f"{len(material.sessions)} sessions [bold]{len(material.retrievals)} readings[/] of {items} made-up "
        f"items.\n[yellow]Generated:[/] the items and the stores' reports, row estimates, session ids, "
        f"registry, outcomes, the\ntexts' metadata, the stories, reviews, unreadable records "
        f"(seed {material.recipe.seed}).\n",
        highlight=False,
        soft_wrap=True,
    )


def print_result(console: Console, result: Result, seconds: float) -> None:
    """Every table, and at the end what happened to retrievals and the one sentence."""
    for table in _tables(result):
        console.print()
        console.print(table)
    console.print()
    if result.examined.report.intact:
        console.print(chains_table(result.examined.report))
    else:
        print_report(result.examined.report)
    console.print()
    for line in told(result):
        console.print(line, highlight=False)
    if result.examined.reruns.kept:
        console.print()
        console.print(reruns_table(result.examined.reruns.kept, _TELLING_RERUNS))
    console.print()
    console.print(_sentence(result, seconds), highlight=False)


def _tables(result: Result) -> Iterator[RenderableType]:
    """Actions, memories, retrievals, what could not be read, who is waited for, the sessions."""
    answers, quality = result.answers, result.examined.quality
    counting = "high_stakes: what is not allowed is not carried out, and its rows do not count"
    advising = "standard: verdicts are advice, the caller goes on, and all rows count"
    yield causes_table(answers)
    yield examples_table(answers)
    yield growth_table(answers, MESSAGES, counting)
    yield growth_table(answers, WRITES, advising)
    yield repeats_table(answers)
    yield settled_table(answers)
    yield decisions_table(answers)
    yield held_examples_table(answers)
    yield quarantine_table(answers)
    yield statistics_table(result.examined.statistics)
    yield items_table(answers)
    yield story_table(answers)
    yield override_table(answers)
    yield flags_table(answers)
    yield posture_table(quality)
    yield coverage_table(quality)
    yield alarms_table(quality)
    yield dead_letters_table(answers)
    yield escalations_table(answers)
    yield Columns(sessions_tables(answers), padding=(0, 4))


def _sentence(result: Result, seconds: float) -> str:
    answers = result.answers
    took = f"[dim]The demo took {seconds:.1f} s.[/]"
    if result.well:
        return (
            f"[bold green]✓ All {answers.published} inputs were answered, each once, "
            f"the ledger is intact ({result.examined.report.records} records),\n"
            "  and every decision came out the same when it was executed again:\n"
            f"  {_reruns(result)}.[/]\n{took}"
        )
    missing = [str(one.fields) for one in answers.unanswered[:_TELLING_UNANSWERED]]
    ledger = "intact" if result.examined.report.intact else "not intact"
    statistics = "equal" if result.examined.statistics.equal else "not equal"
    counts = (
        f"{len(answers.unanswered)} of {answers.published} inputs unanswered, "
        f"{answers.answered_twice} answered twice, {answers.held} memories still held, "
        f"{answers.unfounded} items shown that nobody decided on, the ledger {ledger}, "
        f"reruns: {_reruns(result)}, statistics {statistics}."
    )
    kept = f"Kept for you to look at: {result.place.folder}. {took}"
    return "\n".join([f"[bold red]Not well:[/] {counts}", *missing, kept])


def _reruns(result: Result) -> str:
    """Each kind with its count; a status that is not the good one is named."""
    parts = [
        f"{count} {PLURALS[kind]}" + ("" if status == "identical" else f" {status}")
        for kind, counts in result.examined.reruns.by_kind.items()
        for status, count in counts.items()
        if count
    ]
    return ", ".join(parts) or "none"
