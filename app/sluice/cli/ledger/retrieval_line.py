"""What a line says of the records about retrievals: one word for what was decided, and then why."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sluice.core.decide.kinds import kind_of
from sluice.core.retrieval.retrieval_kinds import REPORT, RETRIEVAL
from sluice.text.plurals import count_noun

if TYPE_CHECKING:
    from collections.abc import Callable

COLOURS = {
    "pass": "green",
    "flag": "yellow",
    "downgrade": "magenta",
    "deny": "bold red",
    "covered": "green",
    "uncovered": "bold red",
    "warn": "yellow",
    "critical": "bold red",
}
NAMED = 5
"""Item ids in a line at most."""


def describe_record(fields: dict[str, Any]) -> tuple[str, str] | None:
    """The word and the rest; None for a record that is about something else."""
    describe = _DESCRIBING.get(str(fields.get("schema", kind_of(fields).name)))
    return None if describe is None else describe(fields)


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
    items, withheld = _read_items(fields, "items"), _read_items(fields, "withheld")
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
    waiting = _list_item_names(_read_items(fields, "items"))
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
    items = _read_items(fields, "items")
    return "", f"{count_noun(len(items), 'item')}: {_list_item_names(items)}"


def _describe_report(fields: dict[str, Any]) -> tuple[str, str]:
    items = _read_texts(fields.get("items"))
    return (
        "",
        f"{fields.get('reported_by')}: {len(items)} of request {fields.get('request_id')}: {_join(items)}",
    )


def _read_items(fields: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The items of a record that another program wrote; values that are not items are left out."""
    items = fields.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


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
    RETRIEVAL.name: _describe_retrieval,
    REPORT.name: _describe_report,
}
