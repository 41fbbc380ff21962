"""Decisions as events of the Open Cybersecurity Schema Framework, for a SIEM. Pure.

Class API Activity (6003) with the profile security_control: an agent asked to call something, and a control
let it or did not. The version is pinned: another one may mean something else by a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice_topics.catalog import MEMORY_DECISIONS, QUALITY_DECISIONS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Mapping

OCSF_VERSION = "1.6.0"
TOPICS = (VERDICTS, MEMORY_DECISIONS, QUALITY_DECISIONS)
"""The topics whose records are decisions on what an agent asked for."""
CATEGORY, CLASS = 6, 6003
ACTIVITY = 99
"""Other: to create, read, update or delete is not what was done, but to ask whether it may be done."""
LONGEST = 1024
"""Characters of a reason."""


class Disposition(NamedTuple):
    """What came of it: OCSF's `action_id`, `disposition_id` and caption, and `severity_id`."""

    action_id: int
    disposition_id: int
    caption: str
    severity_id: int


ALLOWED = Disposition(1, 1, "Allowed", 1)
APPROVED = Disposition(1, 8, "Approved", 1)
LOGGED = Disposition(1, 17, "Logged", 2)
"""Shadow mode: the policy objected, and nothing was held up."""
TAGGED = Disposition(1, 18, "Tagged", 2)
BLOCKED = Disposition(2, 2, "Blocked", 3)
QUARANTINED = Disposition(2, 3, "Quarantined", 3)
WAITS = Disposition(2, 99, "Waits for a person", 2)

_WORDS = {
    "ALLOW": ALLOWED,
    "ESCALATE": WAITS,
    "BLOCK": BLOCKED,
    "allow": ALLOWED,
    "quarantine": QUARANTINED,
    "reject": BLOCKED,
    "pass": ALLOWED,
    "flag": TAGGED,
    "downgrade": TAGGED,
    "deny": BLOCKED,
}
_OPERATIONS = {VERDICTS: "execute_tool", MEMORY_DECISIONS: "memory_write", QUALITY_DECISIONS: "memory_read"}
_ID_FIELDS = {VERDICTS: "verdict_id", MEMORY_DECISIONS: "memory_id", QUALITY_DECISIONS: "ledger_event_id"}
_UNMAPPED = (
    "bundle_hash",
    "enforcement",
    "escalationId",
    "event_hash",
    "outcome",
    "partition",
    "rerun_hash",
    "sequence",
    "shadowAction",
    "shadowOutcome",
    "tier",
)
"""What else of a record goes along as it is: none of it is content."""


def build_event(topic: str, record: Mapping[str, Any], logged_ms: int) -> dict[str, Any]:
    """The event of a decision. `topic`: one of TOPICS, the base name; `logged_ms`: when the broker took the
    record, ms since 1970. Has ids and reasons, and no content. Raises KeyError for a record of another
    kind."""
    disposition = find_disposition(record)
    reason = record.get("blockReason") if topic == VERDICTS else record.get("reason")
    agent = record.get("agent_id") or "unknown"
    policy = {"name": record.get("policy_bundle_id"), "uid": record.get("bundle_hash")}
    event: dict[str, Any] = {
        "activity_id": ACTIVITY,
        "activity_name": "Evaluate",
        "category_uid": CATEGORY,
        "class_uid": CLASS,
        "type_uid": CLASS * 100 + ACTIVITY,
        "time": record["input"]["timestamp"],
        "severity_id": disposition.severity_id,
        "action_id": disposition.action_id,
        "disposition_id": disposition.disposition_id,
        "disposition": disposition.caption,
        "is_alert": disposition.severity_id > 1,
        "status_id": 1,
        "actor": _leave_out(
            {"user": {"uid": agent, "type_id": 99, "type": "Agent"}, **_find_session(record)}
        ),
        "api": _leave_out(
            {"operation": _OPERATIONS[topic], "request": _leave_out({"uid": record.get("request_id")})}
        ),
        "src_endpoint": {"uid": agent},
        "metadata": _leave_out(
            {
                "version": OCSF_VERSION,
                "profiles": ["security_control"],
                "product": {"name": "Sluice", "vendor_name": "Sluice"},
                "uid": record[_ID_FIELDS[topic]],
                "event_code": record["schema"],
                "original_time": record["decided_at"],
                "logged_time": logged_ms,
                "tenant_uid": record.get("tenant_id"),
                "correlation_uid": record.get("traceId"),
            }
        ),
        "resources": _leave_out_empty(
            record.get("action_id") or record.get("write_id") or record.get("item_id")
        ),
        "policy": _leave_out(policy),
        "message": None if reason is None else str(reason)[:LONGEST],
        "unmapped": _leave_out({name: record.get(name) for name in _UNMAPPED}),
    }
    return _leave_out(event)


def find_disposition(record: Mapping[str, Any]) -> Disposition:
    """What came of a decision. Raises KeyError for a word that no decision has."""
    word = record.get("outcome") or record["action"]
    hidden = record.get("shadowOutcome") or record.get("shadowAction")
    if hidden is not None and _WORDS[hidden].action_id != _WORDS[word].action_id:
        return LOGGED
    if word == "ALLOW" and "approvals" in record:
        return APPROVED
    return _WORDS[word]


def _find_session(record: Mapping[str, Any]) -> dict[str, Any]:
    session = record.get("session_id")
    return {} if session is None else {"session": {"uid": session}}


def _leave_out(fields: dict[str, Any]) -> dict[str, Any]:
    """Without what there is not: OCSF has no null."""
    return {name: value for name, value in fields.items() if value is not None and value != {}}


def _leave_out_empty(uid: object) -> list[dict[str, Any]] | None:
    return None if uid is None else [{"uid": uid}]
