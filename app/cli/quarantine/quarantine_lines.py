"""Held memories on the screen: a list of them, one of them whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from app.cli.durations import span
from app.cli.output import console, shown
from app.cli.quarantine.quarantine_read import WORDS
from app.cli.unseen import quoted, visible
from app.core.foundation.clock import milliseconds_of
from topics.records import QuarantineApproved, QuarantineEntered, QuarantineEvicted, QuarantineRejected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from app.cli.quarantine.quarantine_read import Life
    from app.core.reports.from_ledger import Event
    from topics.records import MemoryDecision
    from topics.records.memory import MemoryFinding

_COLOURS = {"waiting": "yellow", "approved": "green", "rejected": "red", "expired": "red", "evicted": "red"}
SHOWN = 4000
"""Characters of a content on the screen; `--json` has all."""


def left(expires_at: str, now_ms: int) -> str:
    """How long a memory still waits, or since when it is over."""
    ms = milliseconds_of(expires_at) - now_ms
    return f"expires in {span(ms)}" if ms > 0 else f"over since {span(-ms)}"


def print_waiting(held: Sequence[QuarantineEntered], now_ms: int) -> None:
    """Two lines each, and how many they are."""
    for one in held:
        _line(f"[bold]{shown(one.memory_id)}[/] trust {one.trust:.3f}, {left(one.expires_at, now_ms)}")
        _line(f"  {_whose(one)}: {shown(one.reason)}")
    _line(f"{len(held)} held" if held else "[green]Nothing is held.[/]")


def print_life(life: Life, now_ms: int, *, to: Console = console, most: int = SHOWN) -> None:
    """State, whose it is, score, findings, events, content."""
    waits = "" if life.entered is None else f", {left(life.entered.expires_at, now_ms)}"
    state = f"[{_COLOURS.get(life.state, 'white')}]{life.state}[/]{waits}"
    _line(f"[bold]{shown(life.memory_id)}[/] {state}", to)
    if life.events:
        _line(f"  {_whose(life.events[0])}, write {shown(life.events[0].write_id)}", to)
    if life.decision is not None:
        _print_decision(life.decision, to)
    for event in life.events:
        _line(_event(event), to)
    _print_content(life, to, most)


def _print_decision(decision: MemoryDecision, to: Console) -> None:
    _line(f"  {decision.decided_at} decided: [bold]{decision.action}[/], {shown(decision.reason)}", to)
    score = decision.trust_score
    if score is not None:
        _line(f"  trust {score.total:.3f}, without caps {score.uncapped:.3f}", to)
    if score is not None and score.dimensions is not None:
        named = score.dimensions.model_dump(by_alias=True)
        _line("    " + ", ".join(f"{name} {value:.3f}" for name, value in named.items()), to)
    for cap in [] if score is None else score.caps:
        _line(f"    at most {cap.value:.3f}: {shown(cap.by)}", to)
    for fault in decision.quality_faults:
        _line(f"  quality: {shown(fault.field)}: {shown(fault.problem)}", to)
    for finding in decision.findings:
        _line(_finding(finding), to)


def _finding(one: MemoryFinding) -> str:
    framed = ", framed" if one.framed else ""
    field = "" if one.field is None else f"in {shown(one.field)}, "
    where = f"{field}{shown(one.form)} {one.start}-{one.end}{framed}"
    return f"  {one.weight} [bold]{shown(one.id)}[/] ({shown(one.kind)}, {where}): {shown(one.reason)}"


def _event(event: Event) -> str:
    word = "entered" if isinstance(event, QuarantineEntered) else WORDS[type(event)]
    if isinstance(event, QuarantineApproved | QuarantineRejected):
        why = f"by {event.approver_id}: {event.justification}"
    else:
        why = f"{event.reason}, {event.by}" if isinstance(event, QuarantineEvicted) else event.reason
    return f"  {event.decided_at} {word}: {shown(why)}"


def _whose(event: Event) -> str:
    source = f"source {shown(event.source_id)} ({event.source_type})"
    return (
        f"tenant {shown(event.tenant_id)}, agent {shown(event.agent_id)}, "
        f"session {shown(event.session_id)}, {source}"
    )


def _print_content(life: Life, to: Console, most: int) -> None:
    if life.content is None:
        to.print(Text.assemble(("  no content: ", "red"), visible(life.no_content)), soft_wrap=True)
        return
    digest = life.decision.content_digest if life.decision else life.events[0].content_digest
    _line(f"  content, {len(life.content)} characters, {digest}:", to)
    to.print(quoted(life.content, most), soft_wrap=True, highlight=False)


def _line(text: str, to: Console = console) -> None:
    to.print(text, soft_wrap=True, highlight=False)
