"""What a line says of a record: one word for what was decided, and then why; and what one says of each event
of a pending subject. Texts are as the record has them, not escaped."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sluice.core.decide.kinds import kind_of
from sluice.core.reports.pending_subject import COUNTED, EXPIRED, OPENS, REMINDED, REROUTED, read_status
from sluice.core.reports.value_words import write_known_until
from sluice.core.retrieval.retrieval_kinds import REPORT, RETRIEVAL
from sluice.text.plurals import count_noun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

COLOURS = {
    "pass": "green",
    "flag": "yellow",
    "downgrade": "magenta",
    "deny": "bold red",
    "covered": "green",
    "uncovered": "bold red",
    "warn": "yellow",
    "critical": "bold red",
    "allowed": "green",
    "denied": "bold red",
    "needs_human": "yellow",
    "allow": "green",
    "reject": "bold red",
    "quarantine": "yellow",
    "quarantine_entered": "yellow",
    "quarantine_approved": "green",
    "quarantine_rejected": "red",
    "quarantine_expired": "red",
    "quarantine_evicted": "red",
}
NAMED = 5
"""Item ids in a line at most."""
_REASONS = (
    "blockReason",
    "reason",
    "message",
    "toolName",
    "tool_name",
    "rows_affected",
    "decision",
    "justification",
    "content",
)
_DECISION = "sluice/memory_decision/v1"
POLICY = "sluice/policy_in_force/v1"
_SHORT_DIGEST = 19
MOST_NAMED = 3
"""Entries of one kind of change that a line about the policy names."""
LONGEST = 80
"""Characters of a memory's content in its line."""


def describe_record(fields: dict[str, Any]) -> tuple[str, str]:
    """The word and the rest."""
    describe = _DESCRIBING.get(str(fields.get("schema", kind_of(fields).name)), _describe_other)
    return describe(fields)


def _describe_other(fields: dict[str, Any]) -> tuple[str, str]:
    return _describe_kind(fields), _describe_reason(fields)


def _describe_kind(fields: dict[str, Any]) -> str:
    """Describe the decision, or the kind of the record."""
    verdict, schema = fields.get("verdict"), fields.get("schema")
    if isinstance(verdict, str):
        return verdict
    if schema == _DECISION:
        return str(fields.get("action"))
    return schema.split("/")[1] if isinstance(schema, str) and "/" in schema else ""


def _describe_reason(fields: dict[str, Any]) -> str:
    reason = read_first(fields, _REASONS)
    gates = read_objects(fields, "gateResults")
    before = [gate.get("gate") for gate in gates if gate.get("passed") is False][-1:]
    before += [fields[name] for name in ("approver_id", "how") if fields.get(name) is not None]
    sentence = "" if reason is None else str(reason)
    if reason is fields.get("content") and len(sentence) > LONGEST:
        sentence = sentence[:LONGEST] + "…"
    return _describe_trust(fields) + ": ".join(str(part) for part in [*before, sentence] if part)


def describe_policy(fields: dict[str, Any]) -> str:
    """The policy in force in numbers, with the first entries of what is lost or new; `fields`: its
    record's."""
    words = {"gone": "gone", "lowered": "older", "replaced": "replaced", "added": "new"}
    changed = [_describe_changed(fields.get(name), word) for name, word in words.items()]
    changed += [_describe_accepted(fields)]
    digest = str(fields.get("digest"))[:_SHORT_DIGEST]
    sentence = "; ".join(filter(None, changed)) or "unchanged"
    entries = count_noun(fields.get("entries"), "entry", "entries")
    return f"{fields.get('trigger')}: {entries}, {digest}: {sentence}"


def _describe_accepted(fields: dict[str, Any]) -> str:
    losses = read_objects(fields, "accepted")
    who = sorted({str(name) for loss in losses for name in loss.get("approvers") or ()})
    return f"the loss accepted by {' and '.join(who)}" if who else ""


def _describe_changed(changes: Any, word: str) -> str:
    if not isinstance(changes, dict) or not changes.get("total"):
        return ""
    first = read_objects(changes, "named")[:MOST_NAMED]
    texts = [f"{entry.get('entry')} {entry.get('before') or ''}→{entry.get('now') or ''}" for entry in first]
    return f"{changes['total']} {word} ({', '.join(texts)}{', …' if changes['total'] != len(texts) else ''})"


def _describe_trust(fields: dict[str, Any]) -> str:
    score = fields.get("trustScore")
    total = score.get("total") if isinstance(score, dict) else None
    return f"trust {total}, " if isinstance(total, int | float) else ""


def describe_memory_event(event: Mapping[str, Any]) -> str:
    """What became of a quarantined memory, and why."""
    word = "entered" if event["schema"] in OPENS else read_status(event)
    if "approver_id" in event:
        why = f"by {event['approver_id']}{_describe_channel(event)}: {event['justification']}"
    else:
        why = f"{event['reason']}, {event['by']}" if "by" in event else event["reason"]
    return f"{word}: {why}"


def _describe_channel(event: Mapping[str, Any]) -> str:
    """Describe how a person without a key there answered: by which channel, and which delegate signed."""
    delegate = event.get("delegate")
    return "" if delegate is None else f" ({delegate['channel']}, through {delegate['id']})"


def describe_escalation_event(event: Mapping[str, Any]) -> str:
    """What became of an escalation, by whom, and why."""
    schema = event["schema"]
    if schema in OPENS or schema in EXPIRED:
        return f"{'opened' if schema in OPENS else 'expired'}: {event['reason']}"
    if schema == REMINDED:
        return f"reminded: {event['group']}"
    if schema == REROUTED:
        return f"went on from {event['from_group']} to {event['group']}"
    who = f"by {event['approver_id']}{_describe_channel(event)}: {event['justification']}"
    if schema in COUNTED:
        dropped, because = event.get("dropped"), event.get("dropped_because")
        gone = "" if dropped is None else f"; no longer counted: {', '.join(dropped)}"
        why = f" ({because})" if because else ""
        return f"approval {event['approvals']} of {event['quorum']} {who}{gone}{why}"
    return f"{read_status(event)} {who}{_describe_consequence(event)}"


def _describe_consequence(end: Mapping[str, Any]) -> str:
    if end.get("usable_until"):
        return f", to be asked for again until {end['usable_until']}"
    if end.get("known_until"):
        return f"; {write_known_until(end['known_until'])}"
    reason = end.get("blockReason")
    return f", came to {end['outcome']}: {reason}" if reason else ""


def read_first(fields: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The first of these fields that the record has; None: none of them."""
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _describe_decision(fields: dict[str, Any]) -> tuple[str, str]:
    outcome, hidden, override = (fields.get(name) for name in ("outcome", "would_have_been", "override"))
    parts = [
        ", ".join(_read_texts(fields.get("flags_set"))),
        str(fields.get("reason") or ""),
        f"would have been {hidden}" if hidden not in (None, outcome) else "",
        f"override of {override.get('approver_id')}" if isinstance(override, dict) else "",
    ]
    return str(outcome), "; ".join(part for part in parts if part)


def _describe_served(fields: dict[str, Any]) -> tuple[str, str]:
    items, withheld = read_objects(fields, "items"), read_objects(fields, "withheld")
    counts = Counter(str(item.get("outcome")) for item in items)
    outcomes = [f"{count} {outcome}" for outcome, count in counts.items()]
    denied = [f"withheld: {_list_item_names(withheld)}"] if withheld else []
    sentence = "; ".join([", ".join(outcomes) or "nothing", *denied])
    return "served", f"{len(items)} of {count_noun(len(items) + len(withheld), 'item')}: {sentence}"


def _describe_reported(fields: dict[str, Any]) -> tuple[str, str]:
    missing = _read_texts(fields.get("uncovered"))
    items = count_noun(fields.get("reported"), "item has", "items have")
    counts = f"{fields.get('covered')} of {items} a decision"
    without = f"; without one: {_join(missing)}" if missing else ""
    word = "uncovered" if missing else "covered"
    return word, f"{fields.get('reported_by')}: {counts}{without}"


def _describe_escalation(fields: dict[str, Any]) -> tuple[str, str]:
    waiting = _list_item_names(read_objects(fields, "items"))
    return (
        "retrieval_escalation_opened",
        f"{fields.get('tool_category')}: {fields.get('reason')}; waiting: {waiting}",
    )


def _describe_resolved(fields: dict[str, Any]) -> tuple[str, str]:
    word = "retrieval_approved" if fields.get("decision") == "approve" else "retrieval_denied"
    return word, f"{fields.get('approver_id')}: {fields.get('justification')}"


def _describe_alarm(fields: dict[str, Any]) -> tuple[str, str]:
    return str(fields.get("severity")), f"to {fields.get('recipient')}: {fields.get('message')}"


def _describe_retrieval(fields: dict[str, Any]) -> tuple[str, str]:
    items = read_objects(fields, "items")
    return "", f"{count_noun(len(items), 'item')}: {_list_item_names(items)}"


def _describe_report(fields: dict[str, Any]) -> tuple[str, str]:
    items = _read_texts(fields.get("items"))
    return (
        "",
        f"{fields.get('reported_by')}: {len(items)} of request {fields.get('request_id')}: {_join(items)}",
    )


def read_objects(fields: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of objects in a record that another program wrote; what is none is left out."""
    members = fields.get(name)
    return [member for member in members if isinstance(member, dict)] if isinstance(members, list) else []


def _read_texts(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _list_item_names(items: list[dict[str, Any]]) -> str:
    return _join([str(item.get("item_id")) for item in items])


def _join(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


_DESCRIBING: dict[str, Callable[[dict[str, Any]], tuple[str, str]]] = {
    "sluice/quality_decision/v1": _describe_decision,
    "sluice/served_retrieval/v1": _describe_served,
    "sluice/retrieval_reported/v1": _describe_reported,
    "sluice/retrieval_escalation_opened/v1": _describe_escalation,
    "sluice/retrieval_escalation_resolved/v1": _describe_resolved,
    "sluice/alarm/v1": _describe_alarm,
    POLICY: lambda fields: (_describe_kind(fields), describe_policy(fields)),
    RETRIEVAL.name: _describe_retrieval,
    REPORT.name: _describe_report,
}
