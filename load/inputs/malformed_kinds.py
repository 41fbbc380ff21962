"""Malformed records of named kinds for the fault runs, made of a readable one: each field wrong once.

Those of actions, which have far more kinds, are in load/inputs/malformed.py; what is readable is given.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from load.inputs.malformed import Maker, kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Fields = dict[str, Any]
NO_TEXT: tuple[Any, ...] = (None, 7, True, [], {}, "")
_LONE_SURROGATE = b'"\\ud800"'


def kinds_of(
    name: str, make: Callable[[str, str], Fields], required: tuple[str, ...], text: str
) -> dict[str, Maker]:
    """`required`: fields that must be there and be what they are; `text`: one that holds any text."""
    made: dict[str, Maker] = {one: maker for one, maker in kinds().items() if one.startswith("whole_")}
    made |= {f"missing_{field}": changed(make, without=field) for field in (*required, "session_id")}
    made |= {
        f"{field}_{json.dumps(value)}": changed(make, {field: value})
        for field in required
        for value in NO_TEXT
        if not (field == "content" and value == "")
    }
    made |= {"unknown_field": changed(make, {"unheard_of": 1})}
    made |= {
        "surrogate": _replaced(make, text, _LONE_SURROGATE),
        "latin_1": _replaced(make, text, b'"caf\xe9"'),
    }
    made |= {"oversize": changed(make, {text: "x" * (1024 * 1024 + 1)}), "cut": _cut(make)}
    return {f"{name}_{one}": maker for one, maker in made.items()}


def changed(
    make: Callable[[str, str], Fields], more: Mapping[str, Any] | None = None, *, without: str | None = None
) -> Maker:
    """A readable one with fields replaced or added, or without one."""

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
