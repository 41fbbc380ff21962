"""What was not decided: inputs that were refused, could not be read or have no record, questions that nobody
answered, denials because something was missing, and gates that only observed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.actions.pipeline import BUDGET_EXCEEDED, DEADLINE_ELAPSED, INCONCLUSIVE, PORT_BUSY
from sluice.core.decide.kinds import DECISIONS
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.refusals import INTERNAL_ERROR
from sluice.core.reports.audit_rows import (
    WHO,
    AuditQuestion,
    AuditRecord,
    AuditRow,
    find_subject,
    read_reason,
)
from sluice.core.reports.gate_marks import mark_gate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.reports.audit_rows import AuditScope, PolicyChange

FAIL_CLOSED = frozenset(
    {
        *(BUDGET_EXCEEDED, DEADLINE_ELAPSED, PORT_BUSY, INTERNAL_ERROR),
        *("unknown_agent", "unknown_bundle", "unregistered_tool", "no_quality_bundle", "unsigned_agent"),
    }
)
"""Codes of denials that judge nothing: something was missing, late or broken."""
_UNANSWERED = {
    "escalation_expired": "nobody answered in time",
    "retrieval_escalation_expired": "nobody answered in time",
    "quarantine_expired": "nobody reviewed in time",
    "quarantine_evicted": "it made room before anybody reviewed it",
}
_UNREAD = {"input_refused": "the input was refused", "dead_letter": "the input could not be read"}
NO_RECORD = "no record answers the input"


_PAGE = 8192
"""Offsets of a page: a forged offset near the largest costs one page and not the space up to it."""


class AnsweredOffsets:
    """Of one partition of an input topic: a bit for each offset that a record of the ledger answers. `end`:
    behind the last one."""

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}
        self.end = 0

    def add(self, offset: int) -> None:
        """A record answers the input at this offset."""
        page, index = divmod(offset, _PAGE)
        self._pages.setdefault(page, bytearray(_PAGE // 8))[index // 8] |= 1 << index % 8
        self.end = max(self.end, offset + 1)

    def has(self, offset: int) -> bool:
        """Whether one does."""
        page, index = divmod(offset, _PAGE)
        return page in self._pages and bool(self._pages[page][index // 8] >> index % 8 & 1)


class Undecided(AuditQuestion):
    """Inputs, gates and questions without a judgement. `what` says which kind, `reason` the record's own."""

    name = "undecided"
    title = "What was not decided?"
    own = (*WHO, "subject", "what", "gate", "came_to", "reason")
    needs_inputs = True

    def __init__(self, scope: AuditScope, changes: Sequence[PolicyChange] = ()) -> None:
        """See AuditQuestion."""
        super().__init__(scope, changes)
        self._answered: dict[tuple[str, int], AnsweredOffsets] = {}

    def take(self, record: AuditRecord) -> Iterator[AuditRow]:
        """See AuditQuestion."""
        fields = record.fields
        if isinstance(source := fields.get("input"), dict):
            partition = str(source.get("topic")), int(source.get("partition", 0))
            self._answered.setdefault(partition, AnsweredOffsets()).add(int(source.get("offset", 0)))
        if not self._is_meant(record):
            return
        for what, gate, reason in _find_undecided(record):
            cells = {"subject": find_subject(fields), "what": what, "gate": gate, "reason": reason}
            came_to = fields.get("verdict") or _read_word(fields)
            yield self.make_row(record, **{**cells, "came_to": came_to, **_claim_ids(record)})

    def take_input(self, record: InputRecord) -> Iterator[AuditRow]:
        """Take an input, after all records of the ledger; a row where none of them answers it. Inputs name
        their tenant by their agent alone, so they are of no tenant here."""
        answered = self._answered.get((record.topic, record.partition), AnsweredOffsets())
        at = rfc3339(record.timestamp_ms)
        if answered.has(record.offset) or self.scope.tenant is not None or not self.scope.has_time(at):
            return
        if self.scope.agent is not None and self.scope.agent.encode() not in (record.value or b""):
            return
        is_passed = record.offset < answered.end
        reason = (
            "later inputs of its partition are answered" if is_passed else "no later input is answered either"
        )
        row: AuditRow = dict.fromkeys(self.columns)
        about: AuditRow = {"at": at, "kind": "input", "id": record.decision_id, "topic": record.topic}
        session = (record.key or b"").decode("utf-8", "replace") or None
        about |= {"partition": record.partition, "session_id": session, "what": NO_RECORD, "reason": reason}
        yield row | about

    def _is_meant(self, record: AuditRecord) -> bool:
        fields, scope = record.fields, self.scope
        if record.kind not in _UNREAD:
            return scope.has(fields)
        ids = fields.get("ids") or {}
        of_agent = scope.agent is None or ids.get("agent_id") == scope.agent
        return scope.tenant is None and of_agent and scope.has_time(str(fields.get("decided_at")))


def _find_undecided(record: AuditRecord) -> Iterator[tuple[str, str | None, str | None]]:
    """What was not judged, the gate, and why."""
    fields, kind = record.fields, record.kind
    if kind in _UNREAD:
        yield _UNREAD[kind], None, read_reason(fields)
    elif kind in _UNANSWERED:
        yield _UNANSWERED[kind], None, read_reason(fields)
    elif kind == "retrieval_reported":
        if uncovered := fields.get("uncovered"):
            missing = fields["reported"] - fields["covered"]
            reason = f"{missing} of {fields['reported']}: {', '.join(map(str, uncovered))}"
            yield "items were returned without a decision", None, reason
    elif fields.get("schema") in DECISIONS and not fields.get("duplicate_of"):
        yield from _find_unjudged(fields)
        for result in fields.get("gateResults") or ():
            yield from _find_silent(result)


def _find_unjudged(fields: Mapping[str, Any]) -> Iterator[tuple[str, str | None, str | None]]:
    """A decision that rests on something missing."""
    reason = read_reason(fields)
    codes = {str(code).lower() for code in fields.get("reason_codes") or ()}
    codes.add(str(reason).partition(":")[0])
    if codes & FAIL_CLOSED:
        yield "denied or left open without a judgement", None, reason
    elif INCONCLUSIVE in codes:
        yield "could not be judged", None, reason


def _find_silent(result: Mapping[str, Any]) -> Iterator[tuple[str, str | None, str | None]]:
    """A gate that only observed, or that had no answer in time and held nothing up."""
    mark = mark_gate(result)
    detail = result.get("detail") or {}
    if mark.state == "observed":
        yield "a gate only observed", str(result.get("gate")), str(detail.get("objection") or mark.words)
    elif mark.state == "idle" and "status" in detail:
        yield "a gate was skipped", str(result.get("gate")), mark.words


def _read_word(fields: Mapping[str, Any]) -> str | None:
    named = (fields.get(name) for name in ("outcome", "action"))
    return next((value for value in named if isinstance(value, str)), None)


def _claim_ids(record: AuditRecord) -> dict[str, str | None]:
    """The ids that an unreadable input claims."""
    ids = record.fields.get("ids")
    if record.kind != "dead_letter" or not isinstance(ids, dict):
        return {}
    return {name: ids.get(name) for name in ("agent_id", "session_id")} | {"subject": find_subject(ids)}
