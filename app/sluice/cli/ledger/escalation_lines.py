"""Escalated actions and retrievals on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sluice.cli.ledger.escalated_actions import Counted, Event, Expired, Opened, Resolved
from sluice.cli.ledger.held_memories import left, through
from sluice.cli.output import line, now_ms, quoted, shown
from sluice.core.foundation.clock import milliseconds_of, span
from sluice.text.plurals import counted
from sluice_topics.records import (
    EscalationOpened,
    EscalationReminded,
    EscalationRerouted,
    RetrievalEscalationResolved,
)

if TYPE_CHECKING:
    from rich.console import Console

    from sluice.cli.ledger.escalated_actions import Escalated

_COLOURS = {"waiting": "yellow", "approved": "green"}


def print_whole(found: Escalated, to: Console, most: int) -> None:
    """State, whose it is, what gates said, events, and the action, at most so many characters of it."""
    opened = found.opened
    colour = _COLOURS.get(found.state, "red")
    waiting = f", {waits(found, now_ms())}" if found.state == "waiting" else ""
    line(f"[bold]{shown(opened.escalation_id)}[/] [{colour}]{found.state}[/]{waiting}", to)
    line(f"  {whose(opened)}", to)
    for verdict in (found.verdict, found.resolved):
        for gate in () if verdict is None else verdict["gateResults"]:
            if verdict is not None and not gate["passed"]:
                reasons = gate["detail"].get("reasons") or [gate["failureReason"]]
                for reason in reasons:
                    line(f"  {verdict['decided_at']} {shown(gate['gate'])}: {shown(reason)}", to)
    for event in found.events:
        line(f"  {event.decided_at} {_event(event)}", to)
    if found.state == "waiting" and found.approvals:
        _print_approved(found, to, most)
    if found.action is None:
        line(f"  [red]no action:[/] {shown(found.no_action)}", to)
        return
    what = "action" if isinstance(opened, EscalationOpened) else "retrieval"
    line(f"  {what}, {found.digest}:", to)
    to.print(quoted(_indented(orjson.loads(found.action)), most), soft_wrap=True, highlight=False)


def _print_approved(found: Escalated, to: Console, most: int) -> None:
    """What exactly the approvals so far are for."""
    if not found.is_narrowed:
        line("  approved so far: exactly what waits", to)
        return
    line("  approved so far: [bold]other parameters[/]; an approval for others starts the count again:", to)
    if found.approved is None:
        line("  [red]the answer that has them is no longer there[/]", to)
        return
    to.print(quoted(_indented(found.approved), most), soft_wrap=True, highlight=False)


def _indented(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _event(event: Event) -> str:
    if isinstance(event, Opened | Expired):
        return f"{'opened' if isinstance(event, Opened) else 'expired'}: {shown(event.reason)}"
    if isinstance(event, EscalationReminded):
        return f"reminded: {shown(event.group)}"
    if isinstance(event, EscalationRerouted):
        return f"went on from {shown(event.from_group)} to {shown(event.group)}"
    who = f"by {shown(event.approver_id)}{shown(through(event.delegate))}: {shown(event.justification)}"
    if isinstance(event, Counted):
        gone = "" if event.dropped is None else f"; no longer counted: {shown(', '.join(event.dropped))}"
        why = f" ({event.dropped_because})" if event.dropped_because else ""
        return f"approval {event.approvals} of {event.quorum} {who}{gone}{why}"
    return f"{'approved' if event.decision == 'approve' else 'denied'} {who}{_consequence(event)}"


def _consequence(end: Resolved) -> str:
    if isinstance(end, RetrievalEscalationResolved):
        return f", to be asked for again until {end.usable_until}" if end.usable_until else ""
    return f", came to {end.outcome}: {shown(end.block_reason)}" if end.block_reason else ""


def waits(one: Escalated, now_ms: int) -> str:
    """What it needs, and how long it still waits."""
    opened = one.opened
    last = one.last_counted
    needed = opened.quorum if last is None else last.quorum
    quorum = f", {one.approvals} of {counted(needed, 'approval')}" if needed else ""
    quorum += " for other parameters" if one.is_narrowed else ""
    of = (
        _demanded(one, "tier") if isinstance(opened, EscalationOpened) else counted(len(opened.items), "item")
    )
    role = f"{_demanded(one, 'required_role')}{_turn(one, now_ms)}"
    return f"{of}, needs {role}{quorum}, {left(opened.expires_at, now_ms)}"


def _demanded(one: Escalated, name: str) -> str:
    """What the policy demands: as an approval last said, else as at the opening."""
    said = (getattr(event, name, None) for event in reversed(one.events))
    return str(next(value for value in said if value is not None))


def _turn(one: Escalated, now_ms: int) -> str:
    """Which group has it, and when the next one gets it."""
    turn = one.turn
    if not turn:
        return ""
    following = ""
    if turn["next_at"] is not None:
        in_ms = max(0, milliseconds_of(turn["next_at"]) - now_ms)
        following = f", then {shown(turn['next_group'])} in {span(in_ms)}"
    return f" of {shown(turn['group'])}{following}"


def whose(opened: Opened) -> str:
    """The ids of what waits."""
    if isinstance(opened, EscalationOpened):
        own = f"action {shown(opened.action_id)}"
    else:
        own = f"request {shown(opened.request_id)}"
    return (
        f"tenant {shown(opened.tenant_id)}, agent {shown(opened.agent_id)}, "
        f"session {shown(opened.session_id)}, {own}"
    )
