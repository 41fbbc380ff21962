"""Escalated actions and retrievals for the verbs of `sluice escalations`, read from the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from sluice.core.foundation.clock import read_milliseconds
from sluice.core.foundation.input_record import read_coordinates
from sluice.core.foundation.requests import Answer, take_input
from sluice.ports import PortUnavailable
from sluice_topics.catalog import ESCALATIONS
from sluice_topics.json_text import parse
from sluice_topics.record_reading import read_ledger_record
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
    from sluice.adapters.kafka.kafka_quarantine import KafkaQuarantine, Place

Opened = EscalationOpened | RetrievalEscalationOpened
Counted = ApprovalCounted | RetrievalApprovalCounted
Resolved = EscalationResolved | RetrievalEscalationResolved
Expired = EscalationExpired | RetrievalEscalationExpired
Event = Opened | EscalationReminded | EscalationRerouted | Counted | Resolved | Expired
_TURN = ("group", "remind_at", "next_group", "next_at")
OTHER_INPUT = "what lies there is not what was decided on: its digest is another"


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
        return next((event for event in reversed(self.events) if isinstance(event, Counted)), None)

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
        return tuple(turn.group for turn in self._turns)

    @property
    def turn(self) -> dict[str, Any]:
        """Which group has it now (`group`), and when time does something about it; empty as `groups`."""
        last = self._turns[-1:]
        return {name: getattr(item, name) for item in last for name in _TURN}

    @property
    def _turns(self) -> list[Any]:
        routed = [event for event in self.events if isinstance(event, EscalationOpened | EscalationRerouted)]
        return [event for event in routed if event.group is not None]

    @property
    def digest(self) -> str:
        """The digest of what waits."""
        opened = self.opened
        return opened.action_digest if isinstance(opened, EscalationOpened) else opened.request_hash

    @property
    def state(self) -> str:
        """A word: how it stands, or how it ended."""
        last = self.events[-1]
        if isinstance(last, Resolved):
            return "denied" if last.decision == "deny" else _describe_approved(last)
        return "expired" if isinstance(last, Expired) else "waiting"


def _describe_approved(end: Resolved) -> str:
    is_blocked = isinstance(end, EscalationResolved) and end.outcome != "ALLOW"
    return "approved, and blocked all the same" if is_blocked else "approved"


async def read_escalations(kafka: KafkaQuarantine) -> dict[str, Escalated]:
    """Every one of the ledger, by its id, in the order in which they opened."""
    escalations: dict[str, Escalated] = {}
    async for record in kafka.read_escalations():
        event = _parse_event(record.value)
        if event is None or isinstance(event, GrantGiven):
            continue
        escalation = escalations.get(event.escalation_id)
        if isinstance(event, Opened):
            escalations[event.escalation_id] = Escalated(event, (event,))
        elif escalation is not None:
            escalations[event.escalation_id] = Escalated(escalation.opened, (*escalation.events, event))
    return escalations


def _parse_event(value: bytes | None) -> Any:
    """The event of an escalation; None for others, and for what a stranger wrote: that must not end the
    command with which people answer (`sluice ledger verify` names it)."""
    fields = parse(value or b"")
    record = read_ledger_record(ESCALATIONS, fields) if isinstance(fields, dict) else None
    return record if isinstance(record, Event | GrantGiven) else None


async def find_grant(kafka: KafkaQuarantine, grant_id: str) -> GrantGiven | None:
    """The record by which a standing grant was given; None for an unknown id."""
    async for record in kafka.read_escalations():
        if grant_id.encode() in (record.value or b""):
            event = _parse_event(record.value)
            if isinstance(event, GrantGiven) and event.grant_id == grant_id:
                return event
    return None


async def fetch_whole(kafka: KafkaQuarantine, name: str) -> Escalated | None:
    """All that topics hold of one; None for an unknown id."""
    escalation = (await read_escalations(kafka)).get(name)
    if escalation is None:
        return None
    opened, last = escalation.opened, escalation.events[-1]
    coordinates, since = read_coordinates(name), read_milliseconds(opened.opened_at)
    verdict = resolved = None
    if isinstance(opened, EscalationOpened):
        verdict = await kafka.fetch_verdict(opened.verdict_id, coordinates[1], since)
    if isinstance(last, EscalationResolved) and last.resolved_verdict_id is not None:
        resolved = await kafka.fetch_verdict(last.resolved_verdict_id, coordinates[1], since)
    action, why = await _fetch_input(kafka, coordinates, escalation.digest)
    approved, counted = None, escalation.last_counted
    if escalation.is_narrowed and counted is not None and counted.input is not None:
        at = counted.input
        review, _ = await _fetch_input(kafka, (at.topic, at.partition, at.offset), at.digest)
        approved = None if review is None else orjson.loads(review)["parameters"]
    first, second = (None if record is None else orjson.loads(record) for record in (verdict, resolved))
    return Escalated(opened, escalation.events, approved, first, second, action, why)


async def _fetch_input(kafka: KafkaQuarantine, coordinates: Place, digest: str) -> tuple[bytes | None, str]:
    """The input at a place, or why it cannot be read."""
    try:
        answer = take_input(Answer("answered", await kafka.fetch_content(coordinates)), digest)
    except PortUnavailable as error:
        return None, str(error)
    return answer, "" if answer is not None else OTHER_INPUT
