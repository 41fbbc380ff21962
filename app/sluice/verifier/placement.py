"""Whether a record lies where it belongs: its topic, its partition, its decision id.

Which record lies in which topic, and how its decision id is made, is written here from the published
description of the records, not taken from the writer's models: if the two differ, a verification says so.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .export import NumberSet
from .ledger_findings import LedgerFinding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .export import Located
    from .ledger_findings import Code
    from .ledger_record import Coordinates, Opened


@dataclass(frozen=True, slots=True)
class RecordKind:
    """Where a schema's records lie and which field, if any, names the decision.

    The id is "<word>:<topic>:<partition>:<offset>" of the record's own input; no word: it is not made from
    that input (the end of an escalation or of a held memory carries the id that its beginning was
    given). `many`: one input may
    have several such records, the second and later with ":2", ":3" … at the end. `of`: the topic of the
    inputs that it decides, where there is only one.
    """

    topic: str
    id_field: str | None = None
    word: str | None = None
    many: bool = False
    of: str | None = None


ACTIONS, WRITES, RETRIEVALS, REVIEWS = (
    "gate.actions.proposed",
    "gate.memory.writes.proposed",
    "gate.memory.retrievals.proposed",
    "gate.reviews",
)

KINDS: dict[str, RecordKind] = {
    "sluice/verdict/v1": RecordKind("gate.verdicts", "verdict_id", "verdict", of=ACTIONS),
    "sluice/resolved_verdict/v1": RecordKind("gate.verdicts", "verdict_id", "resolved", of=REVIEWS),
    "sluice/escalation_opened/v1": RecordKind("gate.escalations", "escalation_id", "escalation", of=ACTIONS),
    "sluice/escalation_reminded/v1": RecordKind("gate.escalations", "reminder_id"),
    "sluice/escalation_rerouted/v1": RecordKind("gate.escalations", "reroute_id"),
    "sluice/escalation_resolved/v1": RecordKind("gate.escalations", "escalation_id"),
    "sluice/escalation_expired/v1": RecordKind("gate.escalations", "escalation_id"),
    "sluice/grant_given/v1": RecordKind("gate.escalations", "grant_id", "grant", of=REVIEWS),
    "sluice/grant_used/v1": RecordKind("gate.escalations", "use_id", "use", of=ACTIONS),
    "sluice/grant_revoked/v1": RecordKind("gate.escalations", "grant_id"),
    "sluice/approval_counted/v1": RecordKind("gate.escalations", "approval_id", "approval", of=REVIEWS),
    "sluice/session_folded/v1": RecordKind("gate.session.events"),
    "sluice/reservation_settled/v1": RecordKind(
        "gate.session.events", "outcome_id", "outcome", many=True, of="gate.outcomes"
    ),
    "sluice/mandate_recorded/v1": RecordKind(
        "gate.session.events", "mandate_event_id", "mandate", of="gate.mandates"
    ),
    "sluice/input_refused/v1": RecordKind("gate.session.events", "refusal_id", "refusal"),
    "sluice/memory_decision/v1": RecordKind("gate.memory.decisions", "memory_id", "memory", of=WRITES),
    "sluice/quarantine_entered/v1": RecordKind("gate.quarantine", "memory_id", "memory", of=WRITES),
    "sluice/quarantine_approved/v1": RecordKind("gate.quarantine", "memory_id"),
    "sluice/quarantine_rejected/v1": RecordKind("gate.quarantine", "memory_id"),
    "sluice/quarantine_expired/v1": RecordKind("gate.quarantine", "memory_id"),
    "sluice/quarantine_evicted/v1": RecordKind("gate.quarantine", "memory_id"),
    "sluice/quality_decision/v1": RecordKind(
        "gate.memory.quality_decision", "ledger_event_id", "quality", many=True, of=RETRIEVALS
    ),
    "sluice/retrieval_escalation_opened/v1": RecordKind("gate.escalations", "escalation_id", "escalation"),
    "sluice/retrieval_escalation_resolved/v1": RecordKind("gate.escalations", "escalation_id"),
    "sluice/retrieval_escalation_expired/v1": RecordKind("gate.escalations", "escalation_id"),
    "sluice/retrieval_approval_counted/v1": RecordKind(
        "gate.escalations", "approval_id", "approval", of=REVIEWS
    ),
    "sluice/retrieval_reported/v1": RecordKind("gate.session.events", "report_event_id", "report"),
    "sluice/alarm/v1": RecordKind("gate.alarms", "alarm_id"),
    "sluice/outcome_alarm/v1": RecordKind("gate.alarms", "alarm_id"),
    "sluice/policy_in_force/v1": RecordKind("gate.policy.events", "policy_event_id"),
    "sluice/dead_letter/v1": RecordKind("gate.dead_letters", "dead_letter_id", "dead_letter"),
}


CLOCKS_APART_MS = 60_000
"""Brokers' clocks differ by less than this."""
_PLACE = re.compile(r":([2-9]|[1-9][0-9]+)")


def is_moved(opened: Opened, located: Located) -> bool:
    """A record of another partition says nothing about this partition's chain."""
    return bool(opened.fields["partition"] != located.partition)


class Placement:
    """Checks each record against its place, and each decision id against all before it.

    Holds one bit per input decided, and an 8-byte digest per id that does not follow from one.
    """

    def __init__(self) -> None:
        self._decided: dict[tuple[str, str, int], NumberSet] = {}
        self._named: set[tuple[str, bytes]] = set()
        self._prefix: str | None = None

    def check(self, opened: Opened, located: Located) -> Iterator[LedgerFinding]:
        """Every finding about the place of this one record; of a moved one, only that it is moved."""
        if stray := _describe_stray(opened, located):
            yield _make_finding("moved", opened, located, stray)
            return
        schema = opened.fields["schema"]
        kind = KINDS.get(schema) if isinstance(schema, str) else None
        if kind is None or not located.topic.endswith(kind.topic):
            home = f"belongs to {kind.topic}" if kind else "is not a record of the ledger"
            yield _make_finding("misplaced", opened, located, f"schema {schema!r} {home}")
        else:
            yield from self._check_surroundings(kind, opened, located)
            if kind.id_field is not None:
                yield from self._check_identity(kind, kind.id_field, opened, located)

    def _check_surroundings(
        self, kind: RecordKind, opened: Opened, located: Located
    ) -> Iterator[LedgerFinding]:
        """Check what lies outside the hash against the record."""
        prefix = located.topic.removesuffix(kind.topic)
        self._prefix = prefix if self._prefix is None else self._prefix
        if prefix != self._prefix:
            message = f"the topic's prefix is {prefix!r}, that of the records before is {self._prefix!r}"
            yield _make_finding("misplaced", opened, located, message)
        session = opened.fields.get("session_id")
        if isinstance(session, str) and located.key != session.encode("utf-8", "surrogatepass"):
            message = f"the Kafka key is {located.key!r}, the record is of session {session!r}"
            yield _make_finding("key_mismatch", opened, located, message)
        came = None if opened.input is None else opened.input.timestamp
        if (
            came is not None
            and located.timestamp_ms is not None
            and located.timestamp_ms < came - CLOCKS_APART_MS
        ):
            message = f"the broker's time of the record is {located.timestamp_ms}, of its input {came}"
            yield _make_finding("too_early", opened, located, message)

    def _check_identity(
        self, kind: RecordKind, field: str, opened: Opened, located: Located
    ) -> Iterator[LedgerFinding]:
        name = opened.fields.get(field)
        if not isinstance(name, str):
            yield _make_finding("foreign_id", opened, located, f"{field} is not a string")
        elif not _is_derived(kind, name, opened.input):
            message = f"{field} {name!r} does not follow from the input {opened.input}"
            yield _make_finding("foreign_id", opened, located, message)
        elif not self._note_first_sight(kind, name, opened):
            yield _make_finding("duplicate_id", opened, located, f"{field} {name!r} was already given")

    def _note_first_sight(self, kind: RecordKind, name: str, opened: Opened) -> bool:
        schema, source = opened.fields["schema"], opened.input
        if source is not None and name == f"{kind.word}:{source}":
            series = (schema, source.topic, source.partition)
            return self._decided.setdefault(series, NumberSet()).add(source.offset)
        token = (schema, hashlib.blake2b(name.encode(), digest_size=8).digest())
        new = token not in self._named
        self._named.add(token)
        return new


def _is_derived(kind: RecordKind, name: str, source: Coordinates | None) -> bool:
    """Whether the id is the one that follows from the record's input, where it has to."""
    if kind.word is None:
        return True
    first = f"{kind.word}:{source}"
    if source is None or kind.of not in (None, source.topic) or not name.startswith(first):
        return False
    rest = name[len(first) :]
    return not rest or (kind.many and _PLACE.fullmatch(rest) is not None)


def _describe_stray(opened: Opened, located: Located) -> str:
    stated, source = opened.fields["partition"], opened.input
    if stated != located.partition:
        return f"the record says that it is of partition {stated}"
    if source is not None and source.partition != located.partition:
        return f"its input lies in partition {source.partition}"
    return ""


def _make_finding(code: Code, opened: Opened, located: Located, message: str) -> LedgerFinding:
    sequence = opened.entry.sequence
    return LedgerFinding(code, located.partition, sequence, located.topic, located.offset, message)
