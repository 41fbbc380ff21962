"""The quality gate's three dimensions on one item (seed 004, "What"): freshness, confidence, provenance.

What there is to know of the item is in its facts: its metadata read, each fault named and none forgiven.
Absent or malformed metadata is a fact like any other; it fails its dimension (seed 004, "Failure modes").
What holds is in the bundle. Rollout, shadow mode and overrides are applied afterwards, by the caller.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from sluice.core.foundation.canonical import MAX_SAFE_INTEGER
from sluice.core.foundation.clock import span
from sluice.core.metadata.moments import parse_time
from sluice.core.quality_bundle.severity import DIMENSIONS, SEVERITY, is_milder

if TYPE_CHECKING:
    from sluice.core.metadata.provenance import ProvenanceState, ProvenanceStatus
    from sluice.core.quality_bundle.lookup import Cell, ClassLimit, Lookup
    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.retrieval.provenance_check import ProvenanceCheck
    from sluice_topics.records.retrieval_inputs import RetrievedItem
    from sluice_topics.records.retrievals import (
        AutonomyTier,
        Dimension,
        QualityFlag,
        QualityOutcome,
        ReasonCode,
    )

    _Result = tuple[QualityOutcome | None, str]
    """The outcome of a dimension that failed, None for one that passed; and the detail."""

_CLASS_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
NO_TIME = "malformed: not an RFC 3339 date-time with an offset"
FUTURE = "in the future"
NUMBERS = (float, int)
"""What JSON's numbers are read as; a truth value is none of them."""


def read_facts(
    item: RetrievedItem, content_class: str | None, tool: str | None, check: ProvenanceCheck, now_ms: int
) -> ItemFacts:
    """The facts of an item that is read at `now_ms` for a tool; `check`: where its reference leads."""
    age_ms, age_problem = _read_age(item, now_ms, check)
    confidence, confidence_problem = read_confidence(item.confidence_score)
    return ItemFacts(content_class, age_ms, age_problem, confidence, confidence_problem, check.state, tool)


def read_class(value: Any) -> str | None:
    """A content class, None for what cannot be one."""
    return value if isinstance(value, str) and _CLASS_NAME.fullmatch(value) else None


def read_confidence(value: Any) -> tuple[float | None, str | None]:
    """The score and its problem; a number that is no score is kept as far as a ledger can hold it."""
    if value is None:
        return None, "missing"
    if type(value) not in NUMBERS:
        return None, "malformed: not a number"
    if 0 <= value <= 1:
        return value, None
    holds = isfinite(value) if isinstance(value, float) else abs(value) <= MAX_SAFE_INTEGER
    return value if holds else None, "malformed: not within 0 and 1"


def _read_age(item: RetrievedItem, now_ms: int, check: ProvenanceCheck) -> tuple[int | None, str | None]:
    """An assertion stands in the timestamp's place: a bad one is not passed over for a timestamp."""
    asserted = item.freshness_assertion
    if isinstance(asserted, dict):
        at_ms, problem = check.asserted_ms, check.assertion_problem or NO_TIME
    else:
        at_ms, problem = _read(item.timestamp if asserted is None else asserted)
    if at_ms is None:
        return None, problem
    return now_ms - at_ms, FUTURE if at_ms > now_ms else None


def _read(value: Any) -> tuple[int | None, str]:
    if value is None or value == "":
        return None, "missing"
    if not isinstance(value, str):
        return None, "malformed: not a string"
    return parse_time(value), NO_TIME


UNKNOWN_CLASS = "unknown content class"
_MS = 1000


class ItemFacts(NamedTuple):
    """What the gate judges. A problem is "missing", "malformed: ..." or "in the future", None if there is
    none; what has a problem may be None. `age_ms`: how old the content is, below 0 from the future."""

    content_class: str | None
    age_ms: int | None
    age_problem: str | None
    confidence: float | None
    confidence_problem: str | None
    provenance: ProvenanceState
    tool_name: str | None


class JudgedDimension(TypedDict):
    """A dimension's result as an item's record has it, its fields in canonical order. `outcome` is pass where
    it passed."""

    detail: str
    dimension: Dimension
    outcome: QualityOutcome
    passed: bool


class Quality(NamedTuple):
    """What the three come to: the most severe outcome, and the flag and code of each that failed.

    A dimension that failed has both also where the matrix says pass. `reason` is None for a pass.
    """

    outcome: QualityOutcome
    flags: tuple[QualityFlag, ...]
    codes: tuple[ReasonCode, ...]
    dimensions: tuple[JudgedDimension, ...]
    reason: str | None


def judge_item(bundle: QualityBundle, tier: AutonomyTier, facts: ItemFacts) -> Quality:
    """The quality gate on one item."""
    return judge(bundle.lookup, tier, facts)


def judge(lookup: Lookup, tier: str, facts: ItemFacts) -> Quality:
    """The outcome of an item, its flags and codes, by a bundle's tables alone."""
    limit = lookup.limit(facts.tool_name, facts.content_class)
    return judge_by(lookup.cell(tier, facts.content_class), limit, facts)


def judge_by(cell: Cell, limit: ClassLimit | None, facts: ItemFacts) -> Quality:
    """The outcome of an item, its flags and codes, by what the tables hold for its class."""
    if cell.is_known:
        fresh, sure, traced = (
            _judge_age(cell, limit, facts),
            _judge_score(cell, facts),
            _judge_provenance(cell, facts),
        )
    else:
        fresh, sure = (cell.freshness, UNKNOWN_CLASS), (cell.confidence, UNKNOWN_CLASS)
        traced = cell.provenance, UNKNOWN_CLASS
    judged: list[JudgedDimension] = [
        {
            "detail": detail,
            "dimension": dimension,
            "outcome": "pass" if outcome is None else outcome,
            "passed": outcome is None,
        }
        for dimension, (outcome, detail) in zip(DIMENSIONS, (fresh, sure, traced), strict=True)
    ]
    results = tuple(judged)
    if fresh[0] is sure[0] is traced[0] is None:
        return Quality("pass", (), (), results, None)
    return _combine_failed(results, facts.provenance.status)


def _judge_age(cell: Cell, limit: ClassLimit | None, facts: ItemFacts) -> _Result:
    if limit is None:
        return None, "the bundle has no time to live for this class"
    age_ms = facts.age_ms
    if facts.age_problem is not None or age_ms is None:
        return cell.freshness, facts.age_problem or "missing"
    passes = limit.ms is None or age_ms <= limit.ms
    detail = f"{span(age_ms)} old ({age_ms / _MS:.3f} s); {limit.text}"
    return None if passes else cell.freshness, detail


def _judge_score(cell: Cell, facts: ItemFacts) -> _Result:
    minimum, score = cell.minimum, facts.confidence
    if minimum is None:
        return None, "the bundle has no minimum for this class"
    if facts.confidence_problem is not None or score is None:
        return cell.confidence, facts.confidence_problem or "missing"
    if score >= minimum:
        return None, f"{score} of at least {cell.least}"
    return cell.confidence, f"{score} is below {cell.least}"


def _judge_provenance(cell: Cell, facts: ItemFacts) -> _Result:
    status, detail = facts.provenance
    if status == "verified" or (status == "missing" and not cell.required):
        return None, detail
    return cell.unregistered if status == "unregistered_scheme" else cell.provenance, detail


def _combine_failed(results: tuple[JudgedDimension, ...], status: ProvenanceStatus) -> Quality:
    failed = [result for result in results if not result["passed"]]
    decided = max(failed, key=lambda result: SEVERITY[result["outcome"]])
    missing: QualityFlag = "provenance_missing" if status == "missing" else "provenance_unverified"
    flags = tuple(_FLAGS.get(result["dimension"], missing) for result in failed)
    codes = tuple(_CODES[result["dimension"]] for result in failed)
    outcome = decided["outcome"]
    reason = None if outcome == "pass" else f"{decided['dimension']}: {decided['detail']}"
    return Quality(outcome, flags, codes, results, reason)


_FLAGS: dict[Dimension, QualityFlag] = {"freshness": "stale", "confidence": "low_confidence"}
_CODES: dict[Dimension, ReasonCode] = {
    "freshness": "FRESHNESS_TTL_EXCEEDED",
    "confidence": "CONFIDENCE_BELOW_MINIMUM",
    "provenance": "PROVENANCE_FAILED",
}


def apply_rollout(
    bundle: QualityBundle, content_class: str | None, outcome: QualityOutcome
) -> tuple[QualityOutcome, QualityOutcome | None]:
    """What the quality gate's outcome comes to, and in flag-only what it would have been, else None.

    The items of a class in flag-only are judged and never withheld (seed 004, "Safe rollout").
    """
    if bundle.rollout_of(content_class) != "flag_only":
        return outcome, None
    return ("flag" if is_milder("flag", outcome) else outcome), outcome
