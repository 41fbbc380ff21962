"""What people are told of: an escalation or a held memory that waits, folded from its records, or an alarm.

Folding a record twice changes nothing, so what comes again after a restart does no harm.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from sluice.core.reports.pending_subject import (
    ENDS,
    EXPIRED,
    LEFT,
    OPENS,
    REROUTED,
    Kind,
    PendingSubject,
    Status,
    is_blocked,
    list_approvers,
    read_status,
)
from sluice.core.reports.value_words import may_remember

if TYPE_CHECKING:
    from collections.abc import Mapping

Shown = Literal["escalation", "memory", "alarm"]
"""What a line of `slack.channels` is for."""
MOST_TEXT = 1000
"""Characters of a text of a record that are kept."""
ALARMS = frozenset(("sluice/alarm/v1", "sluice/outcome_alarm/v1"))


@dataclass(frozen=True, slots=True)
class ReportedSubject:
    """`name`: the caller's id of the action, the retrieval or the write; `digest`: of what waits. Only an
    action has a `tier`, only a memory a `source`; `input_digest` is that of the input which holds a memory.

    `groups`: those that got it so far, the present one last; none where every approver may answer. `by`,
    `via`, `why`: who ended it, by which channel (None: with an own key), and the reason given; `came_to`: of
    an approved action that a gate blocked.

    `tool`, `parameters`: of the action itself, as they are shown; None where they are not read.

    `proposed`, `approved`: digests of the action's parameters and of those that the approvals so far are for,
    which `approved_by` gave; `approval`: the place of the newest of these, whose record has the sequence
    `counted`; `narrowed`: its parameters as they are shown, where they are others. `values`: those of the
    action that were looked up and did not simply pass, as EscalationOpened has them, with their texts where
    parameters are shown.

    Of an alarm: `name` is its subject, `tier` its severity, `role` and the one of `groups` the recipient whom
    the bundle names, `reason` its message, `ended_at` when it was raised; `tenant` is "" where the alarm is
    the installation's.
    """

    kind: Kind | Literal["alarm"]
    subject_id: str
    tenant: str
    agent: str
    session: str
    name: str
    digest: str
    tier: str | None
    reason: str
    role: str
    quorum: int | None
    expires_at: str
    own_key: bool = False
    source: str | None = None
    input_digest: str | None = None
    groups: tuple[str, ...] = ()
    next_group: str | None = None
    next_at: str | None = None
    approvals: int = 0
    status: Status | Literal["raised"] = "waiting"
    by: str | None = None
    via: str | None = None
    why: str | None = None
    ended_at: str | None = None
    came_to: str | None = None
    tool: str | None = None
    parameters: str | None = None
    proposed: str | None = None
    approved: str | None = None
    approved_by: tuple[str, ...] = ()
    approval: dict[str, Any] | None = None
    counted: int = -1
    narrowed: str | None = None
    values: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_narrowed(self) -> bool:
        """Whether the approvals so far are for other parameters than the action's."""
        return self.approved != self.proposed and self.approved is not None

    @property
    def may_remember(self) -> bool:
        """Whether a person may say how long its values are known."""
        asked = {"values": self.values, "tier": self.tier, "quorum": self.quorum}
        return self.kind == "action" and may_remember(asked)

    @property
    def group(self) -> str | None:
        """The group whose turn it is."""
        return self.groups[-1] if self.groups else None

    def write_fields(self) -> dict[str, Any]:
        """Write the fields for a record."""
        return {**asdict(self), **{name: list(getattr(self, name)) for name in _LISTS}}

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> ReportedSubject:
        """Read `fields`, of this release or of another one. Raises TypeError where a field is missing."""
        own_fields = {name: fields[name] for name in cls.__slots__ if name in fields}
        lists = {name: tuple(fields.get(name, ())) for name in _LISTS}
        return cls(**{**own_fields, **lists})


def apply_record(subject: ReportedSubject | None, record: Mapping[str, Any]) -> ReportedSubject | None:
    """Apply one record more to a subject; None as long as its opening was not read."""
    schema = record.get("schema")
    if schema in ALARMS:
        return _read_alarm(record)
    if schema in OPENS:
        return _read_opening(record) if subject is None else subject
    if subject is None:
        return None
    if schema in ENDS:
        return _apply_end(subject, record)
    if schema == REROUTED and record["group"] not in subject.groups:
        subject = replace(
            subject,
            groups=(*subject.groups, record["group"]),
            next_group=record["next_group"],
            next_at=record["next_at"],
        )
    if "approval_id" in record and record["sequence"] > subject.counted:
        return _apply_approval(subject, record)
    return subject


def _apply_approval(subject: ReportedSubject, record: Mapping[str, Any]) -> ReportedSubject:
    """Apply an approval that left it waiting, and what the policy demands by then."""
    return replace(
        subject,
        approvals=record["approvals"],
        quorum=record["quorum"],
        tier=record.get("tier") or subject.tier,
        role=record.get("required_role") or subject.role,
        own_key=record.get("own_key") or subject.own_key,
        approved=record.get("approved_parameters"),
        approved_by=tuple(list_approvers(subject.approved_by, record)),
        approval=record["input"],
        counted=record["sequence"],
        narrowed=None,
    )


_LISTS = ("groups", "approved_by", "values")


def _read_opening(record: Mapping[str, Any]) -> ReportedSubject:
    kind, subject = OPENS[record["schema"]], PendingSubject(record)
    group = record.get("group")
    return ReportedSubject(
        kind,
        subject.subject_id,
        subject.tenant,
        subject.agent,
        record["session_id"],
        subject.name,
        subject.digest,
        record.get("tier"),
        record["reason"][:MOST_TEXT],
        subject.role,
        record.get("quorum"),
        record["expires_at"],
        own_key=bool(record.get("own_key")),
        source=record.get("source_id"),
        input_digest=(record.get("input") or {}).get("digest") if kind == "memory" else None,
        groups=() if group is None else (group,),
        next_group=record.get("next_group"),
        next_at=record.get("next_at"),
        proposed=record.get("parameters_digest"),
        values=tuple(record.get("values") or ()),
    )


def _read_alarm(record: Mapping[str, Any]) -> ReportedSubject:
    recipient, raised_at = record["recipient"], record["raised_at"]
    return ReportedSubject(
        "alarm",
        record["alarm_id"],
        record.get("tenant_id", ""),
        record.get("reported_by", ""),
        record.get("session_id", ""),
        record["subject"],
        record.get("quality_bundle_hash", ""),
        record["severity"],
        record["message"][:MOST_TEXT],
        recipient,
        None,
        raised_at,
        groups=(recipient,),
        status="raised",
        ended_at=raised_at,
    )


def _apply_end(subject: ReportedSubject, record: Mapping[str, Any]) -> ReportedSubject:
    schema = record["schema"]
    if schema in EXPIRED:
        return replace(
            subject, status="expired", why=record["reason"][:MOST_TEXT], ended_at=record["expired_at"]
        )
    return replace(
        subject,
        status=read_status(record),
        by=record.get("approver_id"),
        via=(record.get("delegate") or {}).get("channel"),
        why=str(record.get("justification") or record.get("reason"))[:MOST_TEXT],
        ended_at=record["decided_at" if schema in LEFT else "resolved_at"],
        came_to=str(record.get("blockReason"))[:MOST_TEXT] if is_blocked(record) else None,
    )
