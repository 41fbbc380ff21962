"""One thing that waits for a person, or waited: an escalation or a held memory, as its records say.

The terminal, the pages, HTTP and messages render this model, each in its own file, and whoever answers signs
what `write_answer` gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Kind = Literal["action", "retrieval", "memory"]
Status = Literal["waiting", "approved", "denied", "rejected", "expired", "evicted"]
OPENS: dict[str, Kind] = {
    "sluice/escalation_opened/v1": "action",
    "sluice/retrieval_escalation_opened/v1": "retrieval",
    "sluice/quarantine_entered/v1": "memory",
}
LEFT: dict[str, Status] = {
    "sluice/quarantine_approved/v1": "approved",
    "sluice/quarantine_rejected/v1": "rejected",
    "sluice/quarantine_expired/v1": "expired",
    "sluice/quarantine_evicted/v1": "evicted",
}
"""How a memory left the quarantine."""
RESOLVED = frozenset(("sluice/escalation_resolved/v1", "sluice/retrieval_escalation_resolved/v1"))
EXPIRED = frozenset(("sluice/escalation_expired/v1", "sluice/retrieval_escalation_expired/v1"))
ENDS = frozenset((*RESOLVED, *EXPIRED, *LEFT))
REMINDED, REROUTED = "sluice/escalation_reminded/v1", "sluice/escalation_rerouted/v1"
COUNTED = frozenset(("sluice/approval_counted/v1", "sluice/retrieval_approval_counted/v1"))
EVENTS = frozenset((*OPENS, *ENDS, *COUNTED, REMINDED, REROUTED))
"""Every record about something that waits."""
SUBJECT_IDS = ("escalation_id", "memory_id")
NAMES = ("action_id", "request_id", "write_id")
DIGESTS = ("action_digest", "request_hash", "content_digest")
_TURN = ("group", "remind_at", "next_group", "next_at")
_CHANGING = ("approvals", "quorum", "approved_parameters", "tier", "required_role", "own_key", *_TURN)
"""What a record in between may say anew of an escalation."""


def read_status(record: Mapping[str, Any]) -> Status:
    """How it stands after a record that opened it, came in between or ended it."""
    schema = record["schema"]
    if schema in RESOLVED:
        return "approved" if record["decision"] == "approve" else "denied"
    return "expired" if schema in EXPIRED else LEFT.get(schema, "waiting")


def is_blocked(end: Mapping[str, Any]) -> bool:
    """Whether a gate blocked what a person approved, by the record that ended it."""
    return end.get("decision") == "approve" and end.get("outcome", "ALLOW") != "ALLOW"


def list_approvers(before: Iterable[str], counted: Mapping[str, Any]) -> list[str]:
    """List whose approvals count after this one, given those `before` it."""
    dropped = counted.get("dropped") or ()
    return [*(approver for approver in before if approver not in dropped), counted["approver_id"]]


@dataclass(frozen=True, slots=True)
class PendingSubject:
    """`fields`: those of the record that opened it, with what later records say anew; among them `approvals`,
    `approved_by`: whose count so far, and `last_approval`: the coordinates of the newest of these. `records`:
    all that are there, the first one first."""

    fields: Mapping[str, Any]
    records: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]]) -> PendingSubject:
        """The subject of these records, which are all about it, in their order."""
        subject = cls(records[0], (records[0],))
        for record in records[1:]:
            subject = subject.apply(record)
        return subject

    def apply(self, record: Mapping[str, Any]) -> PendingSubject:
        """The subject after one record more."""
        fields = dict(self.fields)
        if record.get("schema") not in ENDS:
            fields |= {name: record[name] for name in _CHANGING if record.get(name) is not None}
        if record.get("schema") == REROUTED:
            fields |= {name: record[name] for name in _TURN}
        if "approval_id" in record:
            approvers = list_approvers(fields.get("approved_by", ()), record)
            fields |= {"approved_by": approvers, "last_approval": record["input"]}
        return PendingSubject(fields, (*self.records, record))

    @property
    def opened(self) -> Mapping[str, Any]:
        """The record that opened it."""
        return self.records[0]

    @property
    def end(self) -> Mapping[str, Any] | None:
        """The record that ended it; None: it waits."""
        return self.records[-1] if self.records[-1]["schema"] in ENDS else None

    @property
    def status(self) -> Status:
        """How it stands, or how it ended."""
        return read_status(self.records[-1])

    @property
    def subject_id(self) -> str:
        """By which it is answered."""
        return str(self._find(SUBJECT_IDS))

    @property
    def name(self) -> str:
        """The caller's id of the action, the retrieval or the write; "" where the record has none."""
        return str(self._find(NAMES) or "")

    @property
    def digest(self) -> str:
        """Of what waits; an answer names it."""
        return str(self._find(DIGESTS))

    @property
    def opened_at(self) -> str:
        """When it began to wait."""
        return str(self.fields.get("opened_at") or self.fields.get("entered_at"))

    @property
    def tenant(self) -> str:
        """Whose it is."""
        return str(self.fields["tenant_id"])

    @property
    def agent(self) -> str:
        """Whose action, retrieval or write it is."""
        return str(self.fields["agent_id"])

    @property
    def role(self) -> str:
        """The role that an answer needs."""
        return str(self.fields.get("required_role", "reviewer"))

    @property
    def code(self) -> str:
        """The word with which its reason begins."""
        return str(self.fields.get("reason")).partition(":")[0]

    @property
    def is_action(self) -> bool:
        """Whether an action waits."""
        return "action_digest" in self.fields

    @property
    def is_narrowed(self) -> bool:
        """Whether the approvals so far are for other parameters than the action's."""
        proposed = self.fields.get("parameters_digest")
        return bool(self.fields.get("approved_parameters", proposed) != proposed)

    @property
    def groups(self) -> tuple[str, ...]:
        """Those to which it has gone so far; empty where every approver may answer."""
        routed = [record for record in self.records if record["schema"] in (*OPENS, REROUTED)]
        return tuple(record["group"] for record in routed if record.get("group") is not None)

    @property
    def turn(self) -> dict[str, Any]:
        """Which group has it now (`group`), and when time does something about it; empty as `groups`."""
        if self.fields.get("group") is None:
            return {}
        return {name: self.fields.get(name) for name in _TURN}

    def write_answer(
        self, decision: str, approver_id: str, justification: str, **more: Any
    ) -> dict[str, Any]:
        """Write the fields of a person's answer, a ReviewDecision's without its signature. `more`: those
        beside; None stands for an absent one."""
        return {
            "subject_id": self.subject_id,
            "session_id": self.fields["session_id"],
            "decision": decision,
            "approver_id": approver_id,
            "digest": self.digest,
            "justification": justification,
            **{name: value for name, value in more.items() if value is not None},
        }

    def _find(self, names: Iterable[str]) -> Any:
        """The first of these fields that it has."""
        return next((self.fields[name] for name in names if self.fields.get(name)), None)


def collect_subjects(records: Iterable[Mapping[str, Any]]) -> dict[str, PendingSubject]:
    """The subjects that these records opened, by their ids, in the order in which they opened; each one's
    records are in their order."""
    subjects: dict[str, PendingSubject] = {}
    for record in records:
        an_id = str(next((record[name] for name in SUBJECT_IDS if name in record), ""))
        if record.get("schema") in OPENS:
            subjects[an_id] = PendingSubject.of([record])
        elif an_id in subjects and record.get("schema") in EVENTS:
            subjects[an_id] = subjects[an_id].apply(record)
    return subjects


def sort_waiting(subjects: Iterable[PendingSubject]) -> list[PendingSubject]:
    """Those that wait, the oldest first."""
    waiting = [subject for subject in subjects if subject.end is None]
    return sorted(waiting, key=lambda subject: (subject.opened_at, subject.opened["sequence"]))
