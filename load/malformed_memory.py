"""Malformed memory writes and reviews of named kinds, for the fault runs; those of actions are beside."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from load.malformed import Maker, kinds
from load.memory_traffic import QUALITY
from load.policy import AGENT
from topics.catalog import ACTIONS, MEMORY_WRITES, REVIEWS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Fields = dict[str, Any]
_NO_TEXT: tuple[Any, ...] = (None, 7, True, [], {}, "")
_LONE_SURROGATE = b'"\\ud800"'


def kinds_by_topic() -> dict[str, dict[str, Maker]]:
    """Every kind of unreadable input by base topic and name."""
    return {
        ACTIONS: kinds(),
        MEMORY_WRITES: _kinds("write", _write, ("write_id", "agent_id", "content", "source"), "content"),
        REVIEWS: _kinds(
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


def _kinds(
    name: str, make: Callable[[str, str], Fields], required: tuple[str, ...], text: str
) -> dict[str, Maker]:
    """`required`: fields that must be there and be what they are; `text`: one that holds any text."""
    made: dict[str, Maker] = {one: maker for one, maker in kinds().items() if one.startswith("whole_")}
    made |= {f"missing_{field}": _changed(make, without=field) for field in (*required, "session_id")}
    made |= {
        f"{field}_{json.dumps(value)}": _changed(make, {field: value})
        for field in required
        for value in _NO_TEXT
        if not (field == "content" and value == "")
    }
    made |= {"unknown_field": _changed(make, {"unheard_of": 1})}
    made |= {
        "surrogate": _replaced(make, text, _LONE_SURROGATE),
        "latin_1": _replaced(make, text, b'"caf\xe9"'),
    }
    made |= {"oversize": _changed(make, {text: "x" * (1024 * 1024 + 1)}), "cut": _cut(make)}
    return {f"{name}_{one}": maker for one, maker in made.items()}


def _changed(
    make: Callable[[str, str], Fields], more: Mapping[str, Any] | None = None, *, without: str | None = None
) -> Maker:
    def made(session: str, salt: str) -> bytes:
        fields = {**make(session, salt), **(more or {})}
        return json.dumps({one: value for one, value in fields.items() if one != without}).encode()

    return made


def _replaced(make: Callable[[str, str], Fields], field: str, raw: bytes) -> Maker:
    """The field's value given as it is, which `json` would not write."""

    def made(session: str, salt: str) -> bytes:
        return json.dumps({**make(session, salt), field: 0}).encode().replace(b": 0", b": " + raw, 1)

    return made


def _cut(make: Callable[[str, str], Fields]) -> Maker:
    def made(session: str, salt: str) -> bytes:
        whole = json.dumps(make(session, salt)).encode()
        return whole[: len(whole) // 2]

    return made
