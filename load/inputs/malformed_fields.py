"""Changes that make a readable ProposedAction a wrong one: per field, values that are not its own."""

from __future__ import annotations

from typing import Any

REQUIRED = ("action_id", "agent_id", "session_id", "toolName", "parameters")
_IDS = ("action_id", "agent_id", "session_id", "toolName")
_NO_ID: dict[str, Any] = {
    "integer": 7,
    "float": 1.5,
    "boolean": True,
    "array": ["a"],
    "object": {"id": "a"},
    "empty": "",
    "too_long": "x" * 257,
}

_WRONG_VALUES: dict[str, tuple[Any, ...]] = {
    "parameters": ("{}", 1, False, [], [{"a": 1}]),
    "traceId": (1, "", ["t"]),
    "request_id": ([], 0),
    "policy_bundle_id": ({}, ""),
    "mode": ("STANDARD", "high-stakes", "", 1, True, ["standard"]),
    "deadline_ms": ("50", 1.5, -1, True),
    "tool_description": (1, ["text"]),
    "action_type": ("SQL", "database_read", "", 3),
    "reversible": ("true", 1, 0, "no"),
    "rows_affected": ("12", -1, 1.0, 1e3, False, [1], {"rows": 1}, -(2**80)),
    "reasoning": (3, ["because"], {}),
    "delegate_to": (1, "", False),
    "acknowledged_flags": ("stale", [1], [""], [None], {}, ["x"] * 1001, [["stale"]]),
    "governanceContext": (
        "root",
        [],
        1,
        {"unknown": 1},
        {"rootAgentId": 1},
        {"chainDepth": -1},
        {"chainDepth": "1"},
        {"chainDepth": 1.0},
        {"parentTraceId": []},
        {"rootAgentId": "a", "root_agent_id": "a"},
    ),
    "aggregateRowsAffected": (-1, "1"),
    "aggregateActionCount": (1.5, True),
}

_UNKNOWN = (
    "extra",
    "TOOLNAME",
    "tool-name",
    "tool name",
    "actionId ",
    " session_id",
    "",
    "__proto__",
    "constructor",
    "$ref",
    "schema",
    "verdict",
    "approved",
    "tenant_id",
    "rows_reserved",
    "\u00fcber",
)

_BOTH_SPELLINGS: dict[str, dict[str, Any]] = {
    "tool_name": {"tool_name": "sql.query"},
    "trace_id": {"traceId": "t", "trace_id": "t"},
    "governance_context": {"governanceContext": {}, "governance_context": {}},
    "aggregate_rows_affected": {"aggregateRowsAffected": 1, "aggregate_rows_affected": 1},
    "one_null": {"traceId": None, "trace_id": "t"},
    "proposed_action": {"proposed_action": {"action": "sql.query", "value": {}}},
}

SEED_FORMS: dict[str, Any] = {
    "string": "sql.query",
    "array": ["sql.query", {}],
    "no_action": {"value": {}},
    "no_value": {"action": "sql.query"},
    "null_value": {"action": "sql.query", "value": None},
    "array_value": {"action": "sql.query", "value": []},
    "empty_action": {"action": "", "value": {}},
    "number_action": {"action": 1, "value": {}},
    "more": {"action": "sql.query", "value": {}, "mode": "standard"},
}


def changes() -> dict[str, dict[str, Any]]:
    """By name, the fields to set in a readable action."""
    wrong = {
        f"field_{field}_{count}": {field: value}
        for field, values in _WRONG_VALUES.items()
        for count, value in enumerate(values, start=1)
    }
    ids = {f"field_{field}_{name}": {field: value} for field in _IDS for name, value in _NO_ID.items()}
    nulls = {f"field_{field}_null": {field: None} for field in REQUIRED}
    unknown = {f"unknown_field_{count}": {field: 1} for count, field in enumerate(_UNKNOWN, start=1)}
    flood = {"unknown_fields_thousands": {f"f{count}": count for count in range(5000)}}
    both = {f"both_spellings_{name}": change for name, change in _BOTH_SPELLINGS.items()}
    return wrong | ids | nulls | unknown | flood | both
