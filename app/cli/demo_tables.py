"""The tables of a demo's result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from app.cli.output import shown
from app.demo.tally import by_session, cause_of, counted, examples_of, settled
from topics.catalog import DEAD_LETTERS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.demo.answers import Answers
    from app.demo.tally import SessionTally

COLOURS = {"allowed": "green", "denied": "bold red", "needs_human": "yellow"}
_BAR = "█"
_BAR_WIDTH = 24
_SETTLED_SHOWN = 6
_EXAMPLES = 2


def causes_table(answers: Answers) -> Table:
    """Verdicts by word, gate and kind of reason."""
    rows = counted(answers)
    most = max((count for _, count in rows), default=1)
    table = _table("Verdicts by gate and reason", "verdict", "gate", "reason", _number("count"), "")
    for cause, count in rows:
        bar = f"[{COLOURS[cause.verdict]}]{_BAR * max(1, count * _BAR_WIDTH // most)}[/]"
        table.add_row(_word(cause.verdict), shown(cause.gate), shown(cause.kind or "-"), str(count), bar)
    return table


def examples_table(answers: Answers) -> Table:
    """Some verdicts of each kind, one a line."""
    table = _table(
        "Some of them (rows: generated estimates)",
        _cut("action", 25),
        _cut("tool", 20),
        _number("rows"),
        "verdict",
        _cut("gate: reason", 33),
    )
    for one in examples_of(answers, _EXAMPLES):
        fields = one.planned.fields
        table.add_row(
            shown(fields["action_id"]),
            shown(fields["toolName"]),
            _count(fields["rows_affected"]),
            _word(one.body["verdict"]),
            _why(one.body),
        )
    return table


def growth_table(answers: Answers, session_id: str, how: str) -> Table:
    """One session step by step, until a limit bites."""
    table = _table(
        f"Session {session_id}, step by step ({how})",
        _cut("tool", 29),
        _number("rows"),
        _number("session total"),
        "verdict",
        _cut("gate: reason", 36),
    )
    for one in answers.of(VERDICTS):
        if one.planned.session_id == session_id:
            table.add_row(
                shown(one.planned.fields["toolName"]),
                _count(one.planned.fields["rows_affected"]),
                _count(one.body["session"]["after"]["aggregateRowsAffected"]),
                _word(one.body["verdict"]),
                _why(one.body),
            )
    return table


def repeats_table(answers: Answers) -> Table:
    """The action id that came three times."""
    table = _table("One action id, three times", "action", "sent", "verdict", "why", _number("session total"))
    repeated = {
        one.planned.fields["action_id"] for one in answers.of(VERDICTS) if one.planned.kind == "repeat"
    }
    sent = {"action": "first", "repeat": "again, the same bytes", "conflict": "again, other bytes"}
    for one in answers.of(VERDICTS):
        if one.planned.fields["action_id"] in repeated:
            first = one.body.get("duplicate_of")
            why = (
                f"duplicate_of {first.removeprefix('verdict:')}"
                if first
                else cause_of(one.body).reason or "-"
            )
            total = one.body["session"]["after"]["aggregateRowsAffected"]
            cells = (one.planned.fields["action_id"], sent[one.planned.kind])
            table.add_row(*map(shown, cells), _word(one.body["verdict"]), shown(why), _count(total))
    return table


def settled_table(answers: Answers) -> Table:
    """Some outcomes that replaced an estimate."""
    found = settled(answers)
    table = _table(
        f"Outcomes (generated): {len(found)} reservations settled, for example",
        _cut("action", 30),
        _cut("session", 28),
        _number("reserved"),
        _number("really"),
        _number("session total"),
    )
    for one in found[:_SETTLED_SHOWN]:
        body = one.body
        numbers = (body["reserved"], body["actual"], body["aggregateRowsAffected"])
        table.add_row(shown(body["action_id"]), shown(body["session_id"]), *map(_count, numbers))
    table.caption = "without an enforcement point's signature an outcome may raise a total, never lower it"
    return table


def dead_letters_table(answers: Answers) -> Table:
    """Every unreadable record with the place of its error."""
    table = _table(
        "Dead letters: records that could not be read, between readable ones",
        "what was sent",
        "code",
        _cut("path", 20),
        _cut("message", 32),
    )
    for one in answers.of(DEAD_LETTERS):
        cells = (one.planned.fields.get("what", "-"), one.body["code"], one.body["path"], one.body["message"])
        table.add_row(*map(shown, cells))
    return table


def sessions_tables(answers: Answers) -> list[Table]:
    """Totals per session, in two tables to stand side by side."""
    tallies = by_session(answers)
    half = (len(tallies) + 1) // 2
    return [_sessions(part) for part in (tallies[:half], tallies[half:])]


def _sessions(tallies: list[SessionTally]) -> Table:
    words = [_number(f"[{COLOURS[word]}]{letter}[/]") for word, letter in zip(COLOURS, "adn", strict=True)]
    table = _table("Sessions (allowed, denied, needs_human)", _cut("session", 23), *words, _number("rows"))
    for one in tallies:
        verdicts = (str(one.verdicts[word] or "·") for word in COLOURS)
        table.add_row(shown(one.session_id), *verdicts, _count(one.rows))
    return table


def _table(title: str, *columns: Column | str) -> Table:
    return Table(
        *columns, title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False
    )


def _number(header: str) -> Column:
    return Column(header, justify="right", no_wrap=True)


def _cut(header: str, width: int) -> Column:
    return Column(header, no_wrap=True, overflow="ellipsis", max_width=width)


def _word(verdict: str) -> str:
    return f"[{COLOURS[verdict]}]{shown(verdict)}[/]"


def _why(verdict: dict[str, Any]) -> str:
    cause = cause_of(verdict)
    return " ".join(_parts(cause.gate, cause.reason)) or "-"


def _parts(gate: str, reason: str) -> Iterator[str]:
    if reason:
        yield f"[dim]{shown(gate)}:[/]"
        yield shown(reason)


def _count(number: int | str) -> str:
    return f"{int(number):,}".replace(",", " ")
