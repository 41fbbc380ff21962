"""Escalated actions and retrievals for the verbs of `sluice escalations`: read from the ledger, and shown."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from sluice.cli.ledger.held_memories import left, through
from sluice.cli.output import console, quoted, shown
from sluice.core.foundation.arrival import coordinates_of
from sluice.core.foundation.clock import milliseconds_of, span
from sluice.core.foundation.requests import Answer, input_in
from sluice.ports import PortUnavailable
from sluice_topics.catalog import CATALOG, ESCALATIONS, wire_schema
from sluice_topics.records import (
    ApprovalCounted,
    EscalationExpired,
    EscalationOpened,
    EscalationReminded,
    EscalationRerouted,
    EscalationResolved,
    GrantGiven,
    RetrievalApprovalCounted,
    RetrievalEscalationExpired,
    RetrievalEscalationOpened,
    RetrievalEscalationResolved,
)

if TYPE_CHECKING:
    from rich.console import Console

    from sluice.adapters.kafka.kafka_quarantine import KafkaQuarantine, Place

Opened = EscalationOpened | RetrievalEscalationOpened
Counted = ApprovalCounted | RetrievalApprovalCounted
Resolved = EscalationResolved | RetrievalEscalationResolved
Expired = EscalationExpired | RetrievalEscalationExpired
Event = Opened | EscalationReminded | EscalationRerouted | Counted | Resolved | Expired
_MODELS = {
    wire_schema(model): model
    for topic in CATALOG
    if topic.name == ESCALATIONS
    for model in topic.records
    if issubclass(model, Event | GrantGiven)
}
_TURN = ("group", "remind_at", "next_group", "next_at")
OTHER_INPUT = "what lies there is not what was decided on: its digest is another"
_COLOURS = {"waiting": "yellow", "approved": "green"}


@dataclass(frozen=True, slots=True)
class Escalated:
    """One escalation: `events` from its opening to its end, the verdict that opened it and the one that
    resolved it, if any, and the bytes of the action or retrieval; None: see `no_action`. `approved`: the
    parameters of the approvals so far where they are others than the action's, and can still be read."""

    opened: Opened
    events: tuple[Event, ...]
    approved: dict[str, Any] | None = None
    verdict: dict[str, Any] | None = None
    resolved: dict[str, Any] | None = None
    action: bytes | None = None
    no_action: str = ""

    @property
    def last_counted(self) -> Counted | None:
        """The newest approval that counts while it waits."""
        return next((one for one in reversed(self.events) if isinstance(one, Counted)), None)

    @property
    def approvals(self) -> int:
        """Counted so far."""
        last = self.last_counted
        return 0 if last is None else last.approvals

    @property
    def is_narrowed(self) -> bool:
        """Whether the approvals so far are for other parameters than the action's."""
        last, opened = self.last_counted, self.opened
        if not isinstance(last, ApprovalCounted) or not isinstance(opened, EscalationOpened):
            return False
        return last.approved_parameters != opened.parameters_digest

    @property
    def groups(self) -> tuple[str, ...]:
        """Those to which it has gone so far; empty where every approver may answer."""
        return tuple(one.group for one in self._turns)

    @property
    def turn(self) -> dict[str, Any]:
        """Which group has it now (`group`), and when time does something about it; empty as `groups`."""
        last = self._turns[-1:]
        return {name: getattr(one, name) for one in last for name in _TURN}

    @property
    def _turns(self) -> list[Any]:
        given = [one for one in self.events if isinstance(one, EscalationOpened | EscalationRerouted)]
        return [one for one in given if one.group is not None]

    @property
    def digest(self) -> str:
        """Of what waits."""
        opened = self.opened
        return opened.action_digest if isinstance(opened, EscalationOpened) else opened.request_hash

    @property
    def state(self) -> str:
        """A word: how it stands, or how it ended."""
        last = self.events[-1]
        if isinstance(last, Resolved):
            return "denied" if last.decision == "deny" else _approved(last)
        return "expired" if isinstance(last, Expired) else "waiting"


def _approved(end: Resolved) -> str:
    is_blocked = isinstance(end, EscalationResolved) and end.outcome != "ALLOW"
    return "approved, and blocked all the same" if is_blocked else "approved"


async def escalations(kafka: KafkaQuarantine) -> dict[str, Escalated]:
    """Every one of the ledger, by its id, in the order in which they opened."""
    found: dict[str, Escalated] = {}
    async for record in kafka.escalations():
        event = _event_in(record.value)
        if event is None or isinstance(event, GrantGiven):
            continue
        known = found.get(event.escalation_id)
        if isinstance(event, Opened):
            found[event.escalation_id] = Escalated(event, (event,))
        elif known is not None:
            found[event.escalation_id] = Escalated(known.opened, (*known.events, event))
    return found


def _event_in(value: bytes | None) -> Any:
    """The event of an escalation; None for others, and for what a stranger wrote: that must not end the
    command with which people answer (`sluice ledger verify` names it)."""
    try:
        fields = orjson.loads(value or b"{}")
        model = _MODELS.get(str(fields.get("schema"))) if isinstance(fields, dict) else None
        return None if model is None else model.model_validate(fields)
    except ValueError:
        return None


async def given_grant(kafka: KafkaQuarantine, grant_id: str) -> GrantGiven | None:
    """The record by which a standing grant was given; None for an unknown id."""
    async for record in kafka.escalations():
        if grant_id.encode() in (record.value or b""):
            event = _event_in(record.value)
            if isinstance(event, GrantGiven) and event.grant_id == grant_id:
                return event
    return None


async def whole(kafka: KafkaQuarantine, name: str) -> Escalated | None:
    """All that topics hold of one; None for an unknown id."""
    found = (await escalations(kafka)).get(name)
    if found is None:
        return None
    opened, last = found.opened, found.events[-1]
    place, since = coordinates_of(name), milliseconds_of(opened.opened_at)
    verdict = resolved = None
    if isinstance(opened, EscalationOpened):
        verdict = await kafka.verdict(opened.verdict_id, place[1], since)
    if isinstance(last, EscalationResolved) and last.resolved_verdict_id is not None:
        resolved = await kafka.verdict(last.resolved_verdict_id, place[1], since)
    action, why = await _input(kafka, place, found.digest)
    approved, counted = None, found.last_counted
    if found.is_narrowed and counted is not None and counted.input is not None:
        at = counted.input
        review, _ = await _input(kafka, (at.topic, at.partition, at.offset), at.digest)
        approved = None if review is None else orjson.loads(review)["parameters"]
    first, second = (None if one is None else orjson.loads(one) for one in (verdict, resolved))
    return Escalated(opened, found.events, approved, first, second, action, why)


async def _input(kafka: KafkaQuarantine, place: Place, digest: str) -> tuple[bytes | None, str]:
    """The input at a place, or why it cannot be read."""
    try:
        found = input_in(Answer("answered", await kafka.content(place)), digest)
    except PortUnavailable as error:
        return None, str(error)
    return found, "" if found is not None else OTHER_INPUT


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
    counted = one.last_counted
    needed = opened.quorum if counted is None else counted.quorum
    quorum = f", {one.approvals} of {needed} approvals" if needed else ""
    quorum += " for other parameters" if one.is_narrowed else ""
    of = _demanded(one, "tier") if isinstance(opened, EscalationOpened) else f"{len(opened.items)} items"
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


def now_ms() -> int:
    """By this machine's clock."""
    return time.time_ns() // 1_000_000


def line(text: str, to: Console = console) -> None:
    """One line, however long."""
    to.print(text, soft_wrap=True, highlight=False)
