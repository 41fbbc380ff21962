"""What there is to know of an item's quality: its metadata read, each fault named and none forgiven.

Absent or malformed metadata is a fact like any other here; it fails its dimension (seed 004, "Failure
modes").
"""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING, Any

from app.core.foundation.canonical import MAX_SAFE_INTEGER
from app.core.metadata.moments import time_of
from app.core.retrieval.dimensions import ItemFacts

if TYPE_CHECKING:
    from app.core.retrieval.provenance_check import ProvenanceCheck
    from topics.records.retrieval_inputs import RetrievedItem

_CLASS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
NO_TIME = "malformed: not an RFC 3339 date-time with an offset"
FUTURE = "in the future"
NUMBERS = (float, int)
"""What JSON's numbers are read as; a truth value is none of them."""


def facts_of(
    item: RetrievedItem, content_class: str | None, tool: str | None, check: ProvenanceCheck, now_ms: int
) -> ItemFacts:
    """The facts of an item that is read at `now_ms` for a tool; `check`: where its reference leads."""
    age_ms, age_problem = _age(item, now_ms, check)
    confidence, confidence_problem = confidence_of(item.confidence_score)
    return ItemFacts(content_class, age_ms, age_problem, confidence, confidence_problem, check.state, tool)


def class_of(value: Any) -> str | None:
    """A content class, None for what cannot be one."""
    return value if isinstance(value, str) and _CLASS_NAME.fullmatch(value) else None


def confidence_of(value: Any) -> tuple[float | None, str | None]:
    """The score and its problem; a number that is no score is kept as far as a ledger can hold it."""
    if value is None:
        return None, "missing"
    if type(value) not in NUMBERS:
        return None, "malformed: not a number"
    if 0 <= value <= 1:
        return value, None
    holds = isfinite(value) if isinstance(value, float) else abs(value) <= MAX_SAFE_INTEGER
    return value if holds else None, "malformed: not within 0 and 1"


def _age(item: RetrievedItem, now_ms: int, check: ProvenanceCheck) -> tuple[int | None, str | None]:
    """An assertion stands in the timestamp's place: a bad one is not passed over for a timestamp."""
    asserted = item.freshness_assertion
    if isinstance(asserted, dict):
        at_ms, problem = check.asserted_ms, check.assertion_problem or NO_TIME
    elif asserted is not None:
        at_ms, problem = _read(asserted)
    else:
        at_ms, problem = _read(item.timestamp)
    if at_ms is None:
        return None, problem
    return now_ms - at_ms, FUTURE if at_ms > now_ms else None


def _read(value: Any) -> tuple[int | None, str]:
    if value is None or value == "":
        return None, "missing"
    if not isinstance(value, str):
        return None, "malformed: not a string"
    return time_of(value), NO_TIME
