"""The quality bundle of the demo: the one that ships, with one class in flag-only for too long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from app.core.clock import rfc3339
from app.core.strict import json_object

if TYPE_CHECKING:
    from app.demo.library import Library

_DAY_MS = 24 * 3600 * 1000
_HIDDEN = frozenset({"downgrade", "deny"})


def half_rolled_out(shipped: bytes, library: Library, now_ms: int) -> bytes:
    """The document with the library's class in flag-only, and with its cases expecting that."""
    document, rollout = json_object(shipped), library.rollout
    since = rfc3339(now_ms - rollout.days * _DAY_MS)
    classes = {**document["rollout"], rollout.flag_only: {"mode": "flag_only", "since": since}}
    cases = [_under_flag_only(case, rollout.flag_only) for case in document["cases"]]
    return orjson.dumps({**document, "rollout": classes, "cases": cases})


def _under_flag_only(case: dict[str, Any], flag_only: str) -> dict[str, Any]:
    expect = case["expect"]
    if case["item"].get("content_class") != flag_only or expect["outcome"] not in _HIDDEN:
        return case
    return {**case, "expect": {**expect, "outcome": "flag", "would_have_been": expect["outcome"]}}
