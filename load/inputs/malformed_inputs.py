"""Every kind of unreadable input of the fault runs, by topic: a readable record with each field wrong once.

Those of actions, which have far more kinds, are in load/inputs/malformed.py; what is readable is given.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from load.inputs.malformed import Maker, kinds
from load.inputs.memory_traffic import QUALITY
from load.installations.neutral_policy import AGENT
from sluice_topics.catalog import ACTIONS, MEMORY_WRITES, REPORTED, RETRIEVALS, REVIEWS
from sluice_topics.records.retrieval_inputs import MAX_ITEMS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Fields = dict[str, Any]
NO_TEXT: tuple[Any, ...] = (None, 7, True, [], {}, "")
_LONE_SURROGATE = b'"\\ud800"'


def kinds_of(
    name: str, make: Callable[[str, str], Fields], required: tuple[str, ...], text: str
) -> dict[str, Maker]:
    """`required`: fields that must be there and be what they are; `text`: one that holds any text."""
    made: dict[str, Maker] = {name: maker for name, maker in kinds().items() if name.startswith("whole_")}
    made |= {f"missing_{field}": change(make, without=field) for field in (*required, "session_id")}
    made |= {
        f"{field}_{json.dumps(value)}": change(make, {field: value})
        for field in required
        for value in NO_TEXT
        if not (field == "content" and value == "")
    }
    made |= {"unknown_field": change(make, {"unheard_of": 1})}
    made |= {
        "surrogate": _replace(make, text, _LONE_SURROGATE),
        "latin_1": _replace(make, text, b'"caf\xe9"'),
    }
    made |= {"oversize": change(make, {text: "x" * (1024 * 1024 + 1)}), "cut": _cut(make)}
    return {f"{name}_{key}": maker for key, maker in made.items()}


def change(
    make: Callable[[str, str], Fields], more: Mapping[str, Any] | None = None, *, without: str | None = None
) -> Maker:
    """A readable one with fields replaced or added, or without one."""

    def build(session: str, salt: str) -> bytes:
        fields = {**make(session, salt), **(more or {})}
        return json.dumps({key: value for key, value in fields.items() if key != without}).encode()

    return build


def _replace(make: Callable[[str, str], Fields], field: str, raw: bytes) -> Maker:
    """The field's value given as it is, which `json` would not write."""

    def build(session: str, salt: str) -> bytes:
        return json.dumps({**make(session, salt), field: 0}).encode().replace(b": 0", b": " + raw, 1)

    return build


def _cut(make: Callable[[str, str], Fields]) -> Maker:
    def build(session: str, salt: str) -> bytes:
        whole = json.dumps(make(session, salt)).encode()
        return whole[: len(whole) // 2]

    return build


def memory_kinds() -> dict[str, dict[str, Maker]]:
    """Every kind of unreadable write and review by base topic and name."""
    return {
        MEMORY_WRITES: kinds_of("write", _write, ("write_id", "agent_id", "content", "source"), "content"),
        REVIEWS: kinds_of(
            "review",
            _review,
            ("subject_id", "decision", "approver_id", "digest", "justification", "signature"),
            "justification",
        ),
    }


def _write(session: str, salt: str) -> Fields:
    return {
        "write_id": f"malformed-{salt}",
        "agent_id": AGENT,
        "session_id": session,
        "content": f"malformed {salt}",
        "source": {"id": "load-malformed", "type": "user"},
        **QUALITY,
    }


def _review(session: str, salt: str) -> Fields:
    return {
        "subject_id": f"memory:{MEMORY_WRITES}:0:{int(salt.rpartition('-')[2])}",
        "session_id": session,
        "decision": "approve",
        "approver_id": "load-malformed",
        "digest": f"sha256:{0:064x}",
        "justification": f"malformed {salt}",
        "signature": "AAAA",
    }


_OPTIONAL = ("traceId", "toolName", "tool_category")
_NO_TIER: tuple[Any, ...] = ("", "SANDBOX", "admin", 1, True, ["bounded"])
_TOO_LONG = "x" * 257


def retrieval_kinds() -> dict[str, dict[str, Maker]]:
    """Every kind of unreadable retrieval and report by base topic and name.

    An item's quality fields may hold anything and are judged; wrong here is the request, or an item's frame.
    """
    retrieval = kinds_of("retrieval", make_retrieval, ("request_id", "agent_id", "items"), "tool_category")
    report = kinds_of("report", make_report, ("report_id", "request_id", "agent_id", "items"), "reported_by")
    return {RETRIEVALS: retrieval | _retrievals(), REPORTED: report | _reports()}


def make_retrieval(session: str, salt: str) -> Fields:
    """A readable retrieval."""
    return {
        "request_id": f"malformed-{salt}",
        "agent_id": AGENT,
        "session_id": session,
        "items": [_item(salt)],
        "tool_category": "load.reading",
    }


def _item(salt: str) -> Fields:
    return {
        "item_id": f"malformed-{salt}",
        "content_class": "law",
        "timestamp": "2020-01-01T00:00:00Z",
        "confidence_score": 0.9,
        "provenance_uri": None,
        "provenance_hash": None,
        "freshness_assertion": None,
        "body": "a text",
    }


def make_report(session: str, salt: str) -> Fields:
    """A readable report."""
    return {
        "report_id": f"malformed-{salt}",
        "request_id": f"malformed-{salt}",
        "agent_id": AGENT,
        "session_id": session,
        "items": [f"malformed-{salt}"],
        "reported_by": "load-store",
    }


def _retrievals() -> dict[str, Maker]:
    wrong_items: dict[str, list[Any]] = {
        "not_objects": ["an item"],
        "null": [None],
        "empty": [{}],
        "one_of_two": [_item("x"), {"body": "without an id"}],
        "unknown_field": [_item("x") | {"unheard_of": 1}],
        "served_field": [_item("x") | {"outcome": "pass"}],
        "too_many": [_item("x")] * (MAX_ITEMS + 1),
        "nested": [[_item("x")]],
        "id_too_long": [_item("x") | {"item_id": _TOO_LONG}],
        **{f"id_{value!r}": [_item("x") | {"item_id": value}] for value in NO_TEXT},
    }
    made = {f"items_{name}": change(make_retrieval, {"items": items}) for name, items in wrong_items.items()}
    made |= {
        f"{field}_{value!r}": change(make_retrieval, {field: value})
        for field in _OPTIONAL
        for value in (*NO_TEXT[1:], _TOO_LONG)
    }
    made |= {f"tier_{value!r}": change(make_retrieval, {"autonomy_tier": value}) for value in _NO_TIER}
    made["both_spellings"] = change(make_retrieval, {"traceId": "t", "trace_id": "t"})
    return {f"retrieval_{name}": make for name, make in made.items()}


def _reports() -> dict[str, Maker]:
    wrong_items: dict[str, list[Any]] = {
        "objects": [{"item_id": "x"}],
        "numbers": [1],
        "null": [None],
        "empty_id": [""],
        "too_many": ["x"] * (MAX_ITEMS + 1),
        "too_long": [_TOO_LONG],
    }
    made = {f"items_{name}": change(make_report, {"items": items}) for name, items in wrong_items.items()}
    made |= {f"tier_{value!r}": change(make_report, {"autonomy_tier": value}) for value in _NO_TIER}
    made |= {f"reported_by_{value!r}": change(make_report, {"reported_by": value}) for value in NO_TEXT}
    return {f"report_{name}": make for name, make in made.items()}


def kinds_by_topic() -> dict[str, dict[str, Maker]]:
    """By base topic and name."""
    return {ACTIONS: kinds(), **memory_kinds(), **retrieval_kinds()}
