"""A demo's result on the screen, for someone who sees Sluice for the first time, and as JSON."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.columns import Columns

from app.cli.demo.demo_memories import (
    decisions_table,
    held_examples_table,
    quarantine_table,
    statistics_table,
)
from app.cli.demo.demo_retrievals import (
    alarms_table,
    coverage_table,
    flags_table,
    hidden,
    items_table,
    override_table,
    posture_table,
    story_table,
)
from app.cli.demo.demo_tables import (
    causes_table,
    chains_table,
    count,
    dead_letters_table,
    escalations_table,
    examples_table,
    growth_table,
    repeats_table,
    sessions_tables,
    settled_table,
)
from app.cli.ledger.ledger import print_report, report_fields
from app.cli.ledger.rerun import PLURALS, reruns_table
from app.demo.inputs.panel_sessions import MESSAGES, WRITES
from app.demo.inputs.readings import STORY_AGAIN
from app.demo.result import by_session, counted, settled
from topics.catalog import DEAD_LETTERS, MEMORY_DECISIONS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from app.demo.demo_answers import Answers
    from app.demo.inputs.material import Material
    from app.demo.result import Result

_PAST = {"deny": "denied", "downgrade": "downgraded"}


def retrieval_sentences(result: Result) -> list[str]:
    """One sentence a line, in rich markup, each with its figures."""
    answers, quality = result.answers, result.examined.quality
    outcomes = quality.overall.outcomes
    readings = sum(1 for _ in answers.retrievals())
    counts = (
        f"[bold]Retrievals:[/] {count(quality.overall.decisions)} items in {readings} readings. "
        f"[green]{outcomes['pass']} passed[/], [yellow]{outcomes['flag']} came with flags[/], "
        f"[magenta]{outcomes['downgrade']} without their body[/], [red]{outcomes['deny']} not at all[/]."
    )
    return [
        counts,
        _hidden(answers, result.material.library.rollout.flag_only, len(quality.alarms)),
        _escalated(answers),
        _acknowledged(answers),
        *_coverage(result),
    ]


def _hidden(answers: Answers, flag_only: str, alarms: int) -> str:
    """What flag-only let through."""
    decisions = [decision for read in answers.retrievals() for decision in read.decisions]
    counts = Counter(found for found in map(hidden, decisions) if found)
    would = " and ".join(f"{_PAST[outcome]} {times}" for outcome, times in sorted(counts.items()))
    too_long = f" for too long ({_many(alarms, 'alarm')} raised)" if alarms else ""
    enforcing = f"enforcing would have {would or 'denied none'} of its items"
    return f"{flag_only} has been in flag-only{too_long}: {enforcing}."


def _escalated(answers: Answers) -> str:
    """What waited for a person."""
    let_through = sum(
        one["override"] is not None
        for read in answers.retrievals()
        if read.planned.fields["request_id"] == STORY_AGAIN
        for one in read.decisions
    )
    opened = _many(len(answers.item_escalations), "denial")
    return (
        f"{opened} at high_privilege went to a person; "
        f"a signed override let {_many(let_through, 'item')} through, flagged."
    )


def _acknowledged(answers: Answers) -> str:
    """Who says what of the flags."""
    flags = [one.body["session"]["flags"] for one in answers.of(VERDICTS)]
    saying = sum(bool(one["acknowledged"]) for one in flags)
    silent = sum(bool(one["outstanding"]) for one in flags)
    return (
        f"{_many(saying, 'action')} acknowledged the flags of what was read before, {silent} did not "
        "and got an advisory."
    )


def _coverage(result: Result) -> list[str]:
    """Of what stores returned."""
    short = [one for one in result.examined.quality.coverage if one.short]
    return [
        f"At {one.tier} a store returned {_many(one.rate.whole - one.rate.part, 'item')} that nobody "
        f"decided on: coverage is below its target."
        for one in short
    ]


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


_MOST_UNANSWERED = 5
_MOST_RERUNS = 10
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
    for line in retrieval_sentences(result):
        console.print(line, highlight=False)
    if result.examined.reruns.kept:
        console.print()
        console.print(reruns_table(result.examined.reruns.kept, _MOST_RERUNS))
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
    missing = [str(one.fields) for one in answers.unanswered[:_MOST_UNANSWERED]]
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


def summary_fields(result: Result, seconds: float) -> dict[str, Any]:
    """{well, run, generated, inputs, answered, unanswered, verdicts, sessions, escalations, settled,
    dead_letters, memory, retrievals, ledger, reruns, not_identical, seconds}; `generated` names what is not
    the panel's.
    """
    answers = result.answers
    return {
        "well": result.well,
        "run": result.place.run,
        "generated": [
            "row estimates",
            "sessions",
            "registry",
            "outcomes",
            "unreadable records",
            "memory metadata",
            "reviews",
            "retrievals",
            "reports of stores",
            "overrides",
        ],
        "inputs": answers.published,
        "answered": answers.answered,
        "unanswered": [one.fields for one in answers.unanswered],
        "verdicts": [
            {"verdict": cause.verdict, "gate": cause.gate, "reason": cause.kind, "count": count}
            for cause, count in counted(answers)
        ],
        "sessions": {
            one.session_id: {"aggregateRowsAffected": one.rows, "aggregateActionCount": one.actions}
            for one in by_session(answers)
        },
        "escalations": len(answers.escalations),
        "settled": len(settled(answers)),
        "dead_letters": [
            {"code": one.body["code"], "path": one.body["path"]} for one in answers.of(DEAD_LETTERS)
        ],
        "memory": {
            "decisions": dict(Counter(one.body["action"] for one in answers.of(MEMORY_DECISIONS))),
            "admitted": len(answers.admitted),
            "statistics": result.examined.statistics.live.fields(),
            "recount_equal": result.examined.statistics.equal,
        },
        "retrievals": _retrievals(result),
        "ledger": report_fields(result.examined.report),
        "reruns": result.examined.reruns.by_kind,
        "not_identical": result.examined.reruns.kept_fields(),
        "seconds": round(seconds, 1),
    }


def _retrievals(result: Result) -> dict[str, Any]:
    """`unfounded`: items that were shown without a decision; `quality`: the quality report."""
    return {
        "readings": sum(1 for _ in result.answers.retrievals()),
        "unfounded": result.answers.unfounded,
        "escalations": len(result.answers.item_escalations),
        "quality": result.examined.quality.fields(),
    }
