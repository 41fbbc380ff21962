"""What an agent did, and what people answered, as rows of an auditor's question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.reports.audit_rows import (
    WHO,
    AuditQuestion,
    AuditRecord,
    AuditRow,
    find_subject,
    read_decision,
    read_reason,
)
from sluice.core.reports.destination_questions import read_registered_tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ANSWERS = {
    "approval_counted": "approved, more are needed",
    "retrieval_approval_counted": "approved, more are needed",
    "quarantine_approved": "approved",
    "quarantine_rejected": "rejected",
    "grant_given": "granted",
    "grant_revoked": "revoked",
}
_COUNTED = frozenset({"approval_counted", "retrieval_approval_counted"})
_RESOLVED = frozenset({"escalation_resolved", "retrieval_escalation_resolved"})
_EXPIRED = frozenset({"escalation_expired", "retrieval_escalation_expired"})


class AgentActivity(AuditQuestion):
    """Every record of what one agent wanted, got and did. Outcomes, refusals and alarms name no agent: they
    are the agent's where they are about one of its actions in the same session."""

    name = "activity"
    title = "What did the agent do?"
    own = (*WHO, "subject", "tool", "decision", "reason", "shadowed")
    needs_agent = True

    def begin_partition(self) -> None:
        """Sessions do not cross partitions, and so no action's outcome does."""
        self._actions: set[tuple[str, str]] = set()

    def take(self, record: AuditRecord) -> Iterator[AuditRow]:
        """See AuditQuestion."""
        fields = record.fields
        if not self.scope.has_tenant(fields) and record.kind not in {"input_refused", "dead_letter"}:
            return
        if self._is_own(record) and self.scope.has_time(str(fields.get("decided_at"))):
            yield self.make_row(
                record,
                agent_id=self.scope.agent,
                subject=find_subject(fields),
                tool=_find_tool(fields),
                decision=_describe_settlement(fields) or read_decision(record),
                reason=read_reason(fields),
                shadowed=_find_shadowed(fields),
            )

    def _is_own(self, record: AuditRecord) -> bool:
        fields, agent = record.fields, self.scope.agent
        session = str(fields.get("session_id"))
        if fields.get("agent_id") == agent:
            if record.kind == "verdict":
                self._actions.add((session, str(fields.get("action_id"))))
            return True
        ids = fields.get("ids")
        if record.kind == "dead_letter":
            return self.scope.tenant is None and isinstance(ids, dict) and ids.get("agent_id") == agent
        subject = fields.get("action_id") or fields.get("subject")
        return "agent_id" not in fields and (session, str(subject)) in self._actions


class PersonAnswers(AuditQuestion):
    """Every answer of a person to an escalation or about a held memory, and every standing grant; who else
    approved the same."""

    name = "approvals"
    title = "Who approved or rejected what, alone or with whom?"
    own = (
        *WHO, "subject", "approver_id", "answer", "together_with", "delegate", "channel", "approver_entry",
        "justification", "came_to",
    )  # fmt: skip

    def begin_partition(self) -> None:
        """An escalation is of one partition."""
        self._approvals: dict[str, list[str]] = {}

    def take(self, record: AuditRecord) -> Iterator[AuditRow]:
        """See AuditQuestion. Who else approved may have done so before the time that is asked about."""
        fields, kind = record.fields, record.kind
        others = self._count(kind, fields)
        if not (kind in _ANSWERS or kind in _RESOLVED) or not self.scope.has(fields):
            return
        delegate = fields.get("delegate") if isinstance(fields.get("delegate"), dict) else {}
        answer = _ANSWERS.get(kind) or ("approved" if fields.get("decision") == "approve" else "denied")
        yield self.make_row(
            record,
            subject=find_subject(fields) or fields.get("memory_id"),
            approver_id=fields.get("approver_id"),
            answer=answer,
            together_with=", ".join(others) if others else "alone",
            delegate=delegate.get("id") if delegate else None,
            channel=delegate.get("channel") if delegate else None,
            approver_entry=fields.get("approver_entry"),
            justification=fields.get("justification"),
            came_to=_describe_end(kind, fields),
        )

    def _count(self, kind: str, fields: Mapping[str, Any]) -> list[str]:
        """The other approvers whose approvals of the same count."""
        escalation = str(fields.get("escalation_id"))
        if kind in _COUNTED:
            approvals = self._approvals.setdefault(escalation, [])
            dropped = set(fields.get("dropped") or ())
            approvals[:] = [name for name in approvals if name not in dropped]
            others = list(approvals)
            approvals.append(str(fields.get("approver_id")))
            return others
        if kind in _RESOLVED or kind in _EXPIRED:
            return self._approvals.pop(escalation, [])
        return []


def _find_tool(fields: Mapping[str, Any]) -> str | None:
    """The registered tool of a verdict; of other records the tool that they name."""
    if isinstance(fields.get("registry_hashes"), dict) and (tool := read_registered_tool(fields)):
        return tool
    named = fields.get("toolName") or fields.get("tool")
    return None if named is None else str(named)


def _describe_settlement(fields: Mapping[str, Any]) -> str | None:
    """What an outcome made of the reserved rows."""
    if "actual" not in fields or "reserved" not in fields:
        return None
    return f"touched {fields['actual']} of {fields['reserved']} reserved rows"


def _find_shadowed(fields: Mapping[str, Any]) -> str | None:
    """What enforcement would have decided, where shadow mode or flag-only hides it."""
    names = ("shadowOutcome", "shadowAction", "would_have_been")
    return next((str(fields[name]) for name in names if fields.get(name)), None)


def _describe_end(kind: str, fields: Mapping[str, Any]) -> str | None:
    if kind == "quarantine_approved":
        return "admitted"
    if kind == "quarantine_rejected":
        return "discarded"
    if kind == "grant_given":
        return f"{fields.get('uses')} uses until {fields.get('until')}"
    if kind in _COUNTED:
        return f"approval {fields.get('approvals')} of {fields.get('quorum')}"
    if kind == "retrieval_escalation_resolved":
        return f"may be read until {until}" if (until := fields.get("usable_until")) else "stays denied"
    return fields.get("outcome")
