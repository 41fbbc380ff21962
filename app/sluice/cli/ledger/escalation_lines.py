"""Escalated actions and retrievals on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sluice.cli.ledger.escalated_actions import Counted, Event, Expired, Opened, Resolved
from sluice.cli.ledger.quarantined_memories import describe_channel, describe_rest
from sluice.cli.output import clean, print_line, quote, read_clock_ms
from sluice.core.foundation.clock import read_milliseconds, span
from sluice.core.reports.value_words import describe_values, write_known_until
from sluice.text.plurals import count_noun
from sluice_topics.record_reading import find_call
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


def print_whole(escalation: Escalated, to: Console, most: int) -> None:
    """State, whose it is, what gates said, events, and the action, at most so many characters of it."""
    opened = escalation.opened
    colour = _COLOURS.get(escalation.state, "red")
    waiting = f", {describe_wait(escalation, read_clock_ms())}" if escalation.state == "waiting" else ""
    print_line(f"[bold]{clean(opened.escalation_id)}[/] [{colour}]{escalation.state}[/]{waiting}", to)
    print_line(f"  {describe_subject(opened)}", to)
    for verdict in (escalation.verdict, escalation.resolved):
        for gate in () if verdict is None else verdict["gateResults"]:
            if verdict is not None and not gate["passed"]:
                reasons = gate["detail"].get("reasons") or [gate["failureReason"]]
                for reason in reasons:
                    print_line(f"  {verdict['decided_at']} {clean(gate['gate'])}: {clean(reason)}", to)
    _print_values(escalation, to, most)
    for event in escalation.events:
        print_line(f"  {event.decided_at} {_describe_event(event)}", to)
    if escalation.state == "waiting" and escalation.approvals:
        _print_approved(escalation, to, most)
    if escalation.action is None:
        print_line(f"  [red]no action:[/] {clean(escalation.no_action)}", to)
        return
    what = "action" if isinstance(opened, EscalationOpened) else "retrieval"
    print_line(f"  {what}, {escalation.digest}:", to)
    to.print(quote(_indent(orjson.loads(escalation.action)), most), soft_wrap=True, highlight=False)


def _print_values(escalation: Escalated, to: Console, most: int) -> None:
    """Print the looked-up values that did not simply pass."""
    opened = escalation.opened
    if not isinstance(opened, EscalationOpened) or not opened.values:
        return
    action = None if escalation.action is None else find_call(orjson.loads(escalation.action))
    values = [escalated_value.model_dump() for escalated_value in opened.values]
    for words in describe_values(values, opened.agent_id, None if action is None else action[1]):
        print_line(f"  {clean(words.sentence)}", to)
        if words.value is not None:
            to.print(quote(words.value, most), soft_wrap=True, highlight=False)


def _print_approved(escalation: Escalated, to: Console, most: int) -> None:
    """Print what exactly the approvals so far are for."""
    if not escalation.is_narrowed:
        print_line("  approved so far: exactly what waits", to)
        return
    print_line(
        "  approved so far: [bold]other parameters[/]; an approval for others starts the count again:", to
    )
    if escalation.approved is None:
        print_line("  [red]the answer that has them is no longer there[/]", to)
        return
    to.print(quote(_indent(escalation.approved), most), soft_wrap=True, highlight=False)


def _indent(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _describe_event(event: Event) -> str:
    if isinstance(event, Opened | Expired):
        return f"{'opened' if isinstance(event, Opened) else 'expired'}: {clean(event.reason)}"
    if isinstance(event, EscalationReminded):
        return f"reminded: {clean(event.group)}"
    if isinstance(event, EscalationRerouted):
        return f"went on from {clean(event.from_group)} to {clean(event.group)}"
    by = clean(event.approver_id) + clean(describe_channel(event.delegate))
    who = f"by {by}: {clean(event.justification)}"
    if isinstance(event, Counted):
        gone = "" if event.dropped is None else f"; no longer counted: {clean(', '.join(event.dropped))}"
        why = f" ({event.dropped_because})" if event.dropped_because else ""
        return f"approval {event.approvals} of {event.quorum} {who}{gone}{why}"
    return f"{'approved' if event.decision == 'approve' else 'denied'} {who}{_describe_consequence(event)}"


def _describe_consequence(end: Resolved) -> str:
    if isinstance(end, RetrievalEscalationResolved):
        return f", to be asked for again until {end.usable_until}" if end.usable_until else ""
    if end.known_until:
        return f"; {write_known_until(end.known_until)}"
    return f", came to {end.outcome}: {clean(end.block_reason)}" if end.block_reason else ""


def describe_wait(escalation: Escalated, now_ms: int) -> str:
    """Describe what it needs, and how long it still waits."""
    opened = escalation.opened
    last = escalation.last_counted
    needed = opened.quorum if last is None else last.quorum
    quorum = f", {escalation.approvals} of {count_noun(needed, 'approval')}" if needed else ""
    quorum += " for other parameters" if escalation.is_narrowed else ""
    of = (
        _describe_demand(escalation, "tier")
        if isinstance(opened, EscalationOpened)
        else count_noun(len(opened.items), "item")
    )
    role = f"{_describe_demand(escalation, 'required_role')}{_describe_turn(escalation, now_ms)}"
    return f"{of}, needs {role}{quorum}, {describe_rest(opened.expires_at, now_ms)}"


def _describe_demand(escalation: Escalated, name: str) -> str:
    """Describe what the policy demands: as an approval last said, else as at the opening."""
    values = (getattr(event, name, None) for event in reversed(escalation.events))
    return str(next(value for value in values if value is not None))


def _describe_turn(escalation: Escalated, now_ms: int) -> str:
    """Which group has it, and when the next one gets it."""
    turn = escalation.turn
    if not turn:
        return ""
    following = ""
    if turn["next_at"] is not None:
        in_ms = max(0, read_milliseconds(turn["next_at"]) - now_ms)
        following = f", then {clean(turn['next_group'])} in {span(in_ms)}"
    return f" of {clean(turn['group'])}{following}"


def describe_subject(opened: Opened) -> str:
    """The ids of what waits."""
    if isinstance(opened, EscalationOpened):
        own = f"action {clean(opened.action_id)}"
    else:
        own = f"request {clean(opened.request_id)}"
    return (
        f"tenant {clean(opened.tenant_id)}, agent {clean(opened.agent_id)}, "
        f"session {clean(opened.session_id)}, {own}"
    )
