"""What happened to retrievals, in a few sentences."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from app.cli.demo.demo_cells import count
from app.cli.demo.demo_retrievals import hidden
from app.demo.inputs.retrievals import STORY_AGAIN
from topics.catalog import VERDICTS

if TYPE_CHECKING:
    from app.demo.answers import Answers
    from app.demo.result import Result

_PAST = {"deny": "denied", "downgrade": "downgraded"}


def told(result: Result) -> list[str]:
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
