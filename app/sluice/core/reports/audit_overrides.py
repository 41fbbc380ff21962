"""Overrides: where people, or what people set, let pass what the gates would not have let pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.reports.audit_rows import (
    WHO,
    AuditQuestion,
    AuditRecord,
    AuditRow,
    PolicyChange,
    describe_person,
    find_subject,
    read_decision,
    read_reason,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sluice.core.reports.audit_rows import Cell


class Overrides(AuditQuestion):
    """Approvals of what a gate held up, standing grants and their uses, quality overrides, what shadow mode
    and flag-only hid, accepted losses of policy; and of the control topics thaws, relaxations, tenants that
    go into shadow, overrides and accepted losses."""

    name = "overrides"
    title = "What was overridden, and by whom?"
    own = (*WHO, "subject", "what", "gates_said", "came_to", "by", "why")
    needs_policy = True

    def take(self, record: AuditRecord) -> Iterator[AuditRow]:
        """See AuditQuestion."""
        if record.kind == "policy_in_force":
            yield from self._list_losses(record)
        elif self.scope.has(record.fields):
            for cells in (*_find_answers(record), *_find_modes(record)):
                yield self.make_row(record, **{"subject": find_subject(record.fields), **cells})

    def finish(self) -> Iterator[AuditRow]:
        """The changes of policy that let more pass. One tenant's are those that name it."""
        for change in self.changes:
            if change.state == "refused" or self.scope.agent is not None:
                continue
            for what, why in _find_relaxed(change) if change.concerns(self.scope.tenant) else ():
                yield self.make_control_row(
                    change, subject=change.name, what=what, by=change.signed_by, why=why
                )

    def _list_losses(self, record: AuditRecord) -> Iterator[AuditRow]:
        fields = record.fields
        if self.scope.tenant is not None or self.scope.agent is not None:
            return
        for loss in fields.get("accepted") or () if self.scope.has_time(str(fields["decided_at"])) else ():
            by = " and ".join(loss["approvers"])
            yield self.make_row(record, subject=loss["entry"], what="accepted policy loss", by=by)


def _find_answers(record: AuditRecord) -> Iterator[dict[str, Cell]]:
    """A person's answer, or what stands for one, against what the gates said."""
    fields, kind = record.fields, record.kind
    by, why = describe_person(fields), fields.get("justification")
    if kind == "escalation_resolved" and fields.get("decision") == "approve":
        came_to = fields.get("outcome")
        yield {"what": "approval", "gates_said": "ESCALATE", "came_to": came_to, "by": by, "why": why}
    elif kind == "retrieval_escalation_resolved" and fields.get("decision") == "approve":
        until = f"may be read until {fields.get('usable_until')}"
        yield {"what": "approval", "gates_said": "deny", "came_to": until, "by": by, "why": why}
    elif kind == "quarantine_approved":
        yield {"what": "review", "gates_said": "quarantine", "came_to": "admitted", "by": by, "why": why}
    elif kind == "grant_given":
        until = f"{fields.get('uses')} uses until {fields.get('until')}"
        cells: dict[str, Cell] = {"what": "standing grant", "gates_said": "ESCALATE", "came_to": until}
        yield {**cells, "subject": fields.get("tool"), "by": by, "why": why}
    elif isinstance(grant := fields.get("grant"), dict):
        cells = {"what": "standing grant used", "gates_said": "ESCALATE", "came_to": fields.get("outcome")}
        yield {**cells, "by": str(grant.get("approver_id")), "why": f"grant {grant.get('grant_id')}"}
    if isinstance(override := fields.get("override"), dict):
        read: dict[str, Cell] = {"what": "quality override", "came_to": fields.get("outcome")}
        yield {**read, "by": str(override.get("approver_id")), "why": override.get("justification")}


def _find_modes(record: AuditRecord) -> Iterator[dict[str, Cell]]:
    """What a mode that an operator set let pass."""
    fields = record.fields
    names = ("shadowOutcome", "shadowAction", "would_have_been")
    shadowed = next((str(fields[name]) for name in names if fields.get(name)), None)
    came_to = read_decision(record)
    if shadowed is not None and shadowed != came_to:
        what = "shadow mode" if fields.get("enforcement") == "shadow" else "flag-only"
        yield {"what": what, "gates_said": shadowed, "came_to": came_to, "why": read_reason(fields)}


def _find_relaxed(change: PolicyChange) -> Iterator[tuple[str, str | None]]:
    """What a change of policy lets pass, and why, as far as it says so."""
    spec: Mapping[str, Any] = change.spec
    if change.kind == "freeze" and spec.get("active") is False:
        yield "thaw", spec.get("reason")
    for relaxation in change.relaxations:
        yield "relaxation", relaxation
    if change.kind == "org" and spec.get("enforcement") == "shadow":
        yield "shadow mode set", None
    if change.kind == "quality_override":
        yield "quality override signed", spec.get("justification")
    if change.kind == "policy_loss":
        yield "accepted policy loss signed", spec.get("reason")
