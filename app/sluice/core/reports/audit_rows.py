"""Rows that answer an auditor's question, made of ledger records one after the other. Pure.

A question takes each record once and gives the rows that the record alone answers, so that rows can be
written while the ledger is read. What it keeps between records is bounded by what is open, not by the ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from sluice.core.foundation.clock import rfc3339
from sluice.core.registry.freezes import ALL
from sluice_topics.catalog import BUNDLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Cell = str | int | bool | None
AuditRow = dict[str, Cell]
"""By column: every column of the question, in its order."""
PLACE = ("at", "kind", "id", "topic", "partition", "sequence", "event_hash")
"""The columns with which each question's rows begin: when and by which record. Null where a row rests on no
single record of the ledger."""
WHO = ("agent_id", "session_id", "tenant_id")
LONGEST = 2000
"""Characters of a cell; the record has all."""
_OF_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_IDS = (
    "reminder_id", "reroute_id", "approval_id", "use_id", "outcome_id", "refusal_id", "dead_letter_id",
    "policy_event_id", "mandate_event_id", "report_event_id", "ledger_event_id", "alarm_id", "grant_id",
    "escalation_id", "verdict_id", "memory_id", "session_id",
)  # fmt: skip
"""The first of these fields that a record has names the record."""
_SUBJECTS = ("action_id", "write_id", "item_id", "mandate_id", "request_id", "report_id", "subject", "tool")


class AuditRecord(NamedTuple):
    """A ledger record: the base name of its topic, and its fields by wire names."""

    topic: str
    fields: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """The word of its schema: "verdict", "memory_decision"."""
        return str(self.fields.get("schema", "")).removeprefix("sluice/").partition("/")[0]


class PolicyChange(NamedTuple):
    """A record of a control topic as the reduction judged it. `name`: "kind/id@revision"; `state`: in force,
    replaced or refused; `signed_by`: who signed it and was allowed to; `spec`: of an entry that counted."""

    at: str
    topic: str
    kind: str
    name: str
    state: str
    signed_by: str
    rationale: str | None
    relaxations: Sequence[str]
    refused_for: str | None
    spec: Mapping[str, Any]

    def concerns(self, tenant: str | None) -> bool:
        """Whether it is about a tenant (None: any). Bundles are every tenant's, and so is a freeze of all."""
        if tenant is None or self.topic == BUNDLES or self.spec.get("tenant_id") == tenant:
            return True
        subject = self.spec.get("subject"), self.spec.get("subject_id")
        return self.name.rpartition("@")[0] == f"org/{tenant}" or subject in {("tenant", tenant), (ALL, ALL)}


class AuditScope(NamedTuple):
    """Which records a question is about: of one tenant, of one agent, decided from one moment until before
    another (RFC 3339). None: any. A record that names no tenant is of none."""

    tenant: str | None = None
    agent: str | None = None
    since: str | None = None
    until: str | None = None

    @classmethod
    def make_between(
        cls, tenant: str | None, agent: str | None, since_ms: int | None, until_ms: int | None
    ) -> AuditScope:
        """The scope between two times in ms since 1970."""
        since, until = (None if at_ms is None else rfc3339(at_ms) for at_ms in (since_ms, until_ms))
        return cls(tenant, agent, since, until)

    def has_time(self, at: str) -> bool:
        """Whether a moment is within the time that is asked about."""
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)

    def has(self, fields: Mapping[str, Any]) -> bool:
        """Whether a record is of the tenant, the agent and the time."""
        return (
            self.has_tenant(fields)
            and (self.agent is None or fields.get("agent_id") == self.agent)
            and self.has_time(str(fields.get("decided_at")))
        )

    def has_tenant(self, fields: Mapping[str, Any]) -> bool:
        """Whether a record is of the tenant."""
        return self.tenant is None or fields.get("tenant_id") == self.tenant


class AuditQuestion:
    """A question of an auditor. `name` is its verb, `title` the question, `own` its columns behind PLACE."""

    name: ClassVar[str]
    title: ClassVar[str]
    own: ClassVar[tuple[str, ...]]
    needs_agent: ClassVar[bool] = False
    needs_policy: ClassVar[bool] = False
    """Whether it is also about the control topics."""
    needs_inputs: ClassVar[bool] = False
    """Whether it is also about inputs that no record answers."""

    def __init__(self, scope: AuditScope, changes: Sequence[PolicyChange] = ()) -> None:
        """`changes`: of the control topics, in their order."""
        self.scope = scope
        self.changes = [change for change in changes if scope.has_time(change.at)]
        self.begin_partition()

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column, in order."""
        return (*PLACE, *self.own)

    def take(self, record: AuditRecord) -> Iterator[AuditRow]:
        """Take the next record of a partition; give the rows that it answers."""
        raise NotImplementedError

    def begin_partition(self) -> None:
        """The records of a partition follow: all of them, in the order of their chain."""

    def finish(self) -> Iterator[AuditRow]:
        """The rows that only the whole ledger answers, and those of the control topics."""
        return iter(())

    def make_row(self, record: AuditRecord, **cells: Cell) -> AuditRow:
        """A row about a record: its place and who it is of, and these cells."""
        fields = record.fields
        about: AuditRow = {
            "at": _read_text(fields.get("decided_at")),
            "kind": record.kind,
            "id": name_record(fields),
            "topic": record.topic,
            "partition": fields.get("partition"),
            "sequence": fields.get("sequence"),
            "event_hash": _read_text(fields.get("event_hash")),
            **{name: _read_text(fields.get(name)) for name in WHO},
            **cells,
        }
        return self._order(about)

    def make_control_row(self, change: PolicyChange, **cells: Cell) -> AuditRow:
        """A row about a record of a control topic, which is in no chain."""
        about: AuditRow = {"at": change.at, "kind": change.kind, "id": change.name, "topic": change.topic}
        return self._order(about | cells)

    def _order(self, cells: AuditRow) -> AuditRow:
        return {name: shorten(cells.get(name)) for name in self.columns}


def name_record(fields: Mapping[str, Any]) -> str | None:
    """The id of a ledger record."""
    return next((str(fields[name]) for name in _IDS if fields.get(name)), None)


def find_subject(fields: Mapping[str, Any]) -> str | None:
    """The id of what a record is about, as its caller named it."""
    return next((str(fields[name]) for name in _SUBJECTS if fields.get(name)), None)


def read_decision(record: AuditRecord) -> str:
    """What a record decided, in its own word; of one that decides nothing, what it says has happened."""
    fields = record.fields
    named = (fields.get(name) for name in ("decision", "outcome", "action"))
    return next((value for value in named if isinstance(value, str)), record.kind.replace("_", " "))


def read_reason(fields: Mapping[str, Any]) -> str | None:
    """Why, in one line."""
    code = fields.get("blockReason") or fields.get("reason") or fields.get("code")
    parts = [str(part) for part in (code, fields.get("message") or fields.get("justification")) if part]
    return ": ".join(parts) or None


def describe_person(fields: Mapping[str, Any]) -> str:
    """Who answered: the approver, and the delegate that signed for the approver and by which channel."""
    delegate = fields.get("delegate")
    by = f" by {delegate['id']} ({delegate['channel']})" if isinstance(delegate, dict) else ""
    return f"{fields.get('approver_id')}{by}"


def guard_cell(cell: Cell) -> Cell:
    """A cell of a CSV file: one that a spreadsheet would run as a formula begins with an apostrophe."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_OF_FORMULAS) else cell


def shorten(cell: Cell) -> Cell:
    """A cell of at most `LONGEST` characters."""
    if isinstance(cell, str) and len(cell) > LONGEST:
        return f"{cell[:LONGEST]}…"
    return cell


def _read_text(value: object) -> str | None:
    return None if value is None else str(value)
