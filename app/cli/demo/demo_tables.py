"""The tables of a demo's result: how they look, and those that list and sum up what became of the inputs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from app.cli.output import shown
from app.demo.result import by_session, cause_of, counted, escalations_by_reason, examples_of, settled
from topics.catalog import DEAD_LETTERS, VERDICTS

if TYPE_CHECKING:
    from app.demo.demo_answers import Answers
    from app.demo.result import SessionTally
    from app.verifier.findings import Report

COLOURS = {"allowed": "green", "denied": "bold red", "needs_human": "yellow"}


def table(title: str, *columns: Column | str) -> Table:
    """A table that stands by its header's line alone; a column given by name keeps its whole text."""
    whole = (Column(one, no_wrap=True) if isinstance(one, str) else one for one in columns)
    return Table(
        *whole,
        title=title,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )


def number(header: str) -> Column:
    """A column of numbers."""
    return Column(header, justify="right", no_wrap=True)


def cut(header: str, width: int | None = None) -> Column:
    """A column of one line a cell, cut at `width` or where the screen ends."""
    return Column(header, no_wrap=True, overflow="ellipsis", max_width=width)


def wrapped(header: str) -> Column:
    """A column of sentences, over as many lines as they need: it gives way to the others."""
    return Column(header, overflow="fold")


def word(verdict: str) -> str:
    """A verdict in its colour."""
    return f"[{COLOURS[verdict]}]{shown(verdict)}[/]"


def count(value: int | str) -> str:
    """A whole number with its thousands apart."""
    return f"{int(value):,}".replace(",", " ")


def shortened(parameters: dict[str, Any]) -> str:
    """An action's parameters in a line: of a single one its text, else JSON."""
    if len(parameters) == 1:
        (only,) = parameters.values()
        return " ".join(str(only).split())
    return " ".join(json.dumps(parameters, ensure_ascii=False).split())


_BAR = "█"
_BAR_WIDTH = 30
_SETTLED_SHOWN = 6
_EXAMPLES = 3
_SENT = {"action": "first", "repeat": "again, the same bytes", "conflict": "again, other bytes"}


def causes_table(answers: Answers) -> Table:
    """Verdicts by word, gate and kind of reason."""
    rows = counted(answers)
    most = max((times for _, times in rows), default=1)
    made = table("Verdicts by gate and reason", "verdict", "gate", "reason", number("count"), "")
    for cause, times in rows:
        bar = f"[{COLOURS[cause.verdict]}]{_BAR * max(1, times * _BAR_WIDTH // most)}[/]"
        made.add_row(word(cause.verdict), shown(cause.gate), shown(cause.kind or "-"), str(times), bar)
    return made


def examples_table(answers: Answers) -> Table:
    """Some verdicts of each kind, one a line."""
    made = table(
        "Some of them", cut("proposed action", 30), number("rows"), "verdict", "gate", cut("reason", 34)
    )
    made.caption = "rows: generated estimates"
    for one in examples_of(answers, _EXAMPLES):
        fields = one.planned.fields
        proposed = f"{fields['toolName']} {shortened(fields['parameters'])}"
        made.add_row(shown(proposed), count(fields["rows_affected"]), *_verdict(one.body))
    return made


def growth_table(answers: Answers, session_id: str, how: str) -> Table:
    """One session step by step, until a limit bites."""
    title = f"Session {session_id}, step by step"
    made = table(
        title, cut("tool", 22), number("rows"), number("total"), "verdict", "gate", cut("reason", 34)
    )
    made.caption = how
    for one in answers.of(VERDICTS):
        if one.planned.session_id == session_id:
            fields = one.planned.fields
            numbers = (fields["rows_affected"], _total_after(one.body))
            made.add_row(shown(fields["toolName"]), *map(count, numbers), *_verdict(one.body))
    return made


def repeats_table(answers: Answers) -> Table:
    """The action id that came three times."""
    made = table("One action id, three times", "action", "sent", "verdict", "why", number("total"))
    verdicts = list(answers.of(VERDICTS))
    repeated = {one.planned.fields["action_id"] for one in verdicts if one.planned.kind == "repeat"}
    for one in verdicts:
        action_id = one.planned.fields["action_id"]
        if action_id in repeated:
            sent = _SENT[one.planned.kind]
            total = count(_total_after(one.body))
            made.add_row(shown(action_id), sent, word(one.body["verdict"]), shown(_why(one.body)), total)
    return made


def settled_table(answers: Answers) -> Table:
    """Some outcomes that replaced an estimate."""
    found = settled(answers)
    title = f"Outcomes: {len(found)} reservations settled, for example"
    made = table(title, cut("action", 34), "session", number("reserved"), number("really"), number("total"))
    made.caption = "without an enforcement point's signature an outcome may raise a total, never lower it"
    for one in found[:_SETTLED_SHOWN]:
        body = one.body
        numbers = (body["reserved"], body["actual"], body["aggregateRowsAffected"])
        made.add_row(shown(body["action_id"]), shown(body["session_id"]), *map(count, numbers))
    return made


def dead_letters_table(answers: Answers) -> Table:
    """Every unreadable record with the place of its error."""
    title = "Dead letters: records that could not be read, between readable ones"
    made = table(title, "what was sent", "code", cut("path", 24), cut("message", 35))
    for one in answers.of(DEAD_LETTERS):
        body = one.body
        cells = (one.planned.fields.get("what", "-"), body["code"], body["path"], body["message"])
        made.add_row(*map(shown, cells))
    return made


def escalations_table(answers: Answers) -> Table:
    """Escalations by tier, who may approve, and why."""
    title = f"Escalations opened: {len(answers.escalations)}"
    made = table(title, "tier", "who may approve", "reason", number("count"))
    for (tier, role, reason), times in escalations_by_reason(answers):
        made.add_row(shown(tier), shown(role), shown(reason), str(times))
    return made


def _verdict(body: dict[str, Any]) -> tuple[str, str, str]:
    cause = cause_of(body)
    return word(cause.verdict), shown(cause.gate), shown(cause.reason or "-")


def _why(body: dict[str, Any]) -> str:
    first = body.get("duplicate_of")
    return f"duplicate_of {first.removeprefix('verdict:')}" if first else cause_of(body).reason or "-"


def _total_after(body: dict[str, Any]) -> int | str:
    total: int | str = body["session"]["after"]["aggregateRowsAffected"]
    return total


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
