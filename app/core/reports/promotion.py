"""From flag-only to enforce, one class at a time: the written criteria, and the revision that follows.

Seed 004, "Safe rollout" and "Flag-only mode left permanent". The numbers are the quality bundle's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from app.core.foundation.clock import rfc3339
from app.core.foundation.errors import BundleError
from app.core.quality_bundle.quality_bundle import load_quality_bundle
from app.core.reports.report_figures import FLAG_ONLY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.quality_bundle.quality_bundle import QualityBundle
    from app.core.reports.observed import Observed

_ENFORCE = "enforce"
_WHICH_COUNT = "under the bundle's present tables for the class, at tiers where it can be denied"


class Criterion(NamedTuple):
    """What was found against what is needed, both in words."""

    name: str
    found: str
    needed: str
    met: bool


def in_flag_only(bundle: QualityBundle, content_class: str) -> bool:
    """Whether there is something to promote."""
    return bundle.rollout_of(content_class) == FLAG_ONLY


def criteria(bundle: QualityBundle, content_class: str, observed: Observed) -> tuple[Criterion, ...]:
    """Every criterion, met or not. Days, decisions and false denies are of what `observed` counts."""
    return tuple(_criteria(bundle, content_class, observed))


def _criteria(bundle: QualityBundle, content_class: str, observed: Observed) -> Iterator[Criterion]:
    asked, found = bundle.file.promotion, observed.false_denies
    mode = bundle.rollout_of(content_class)
    yield Criterion("rollout of the class", mode, FLAG_ONLY, mode == FLAG_ONLY)
    days = observed.days
    yield Criterion("days with decisions", str(days), f"at least {asked.min_days}", days >= asked.min_days)
    enough = found.whole >= asked.min_decisions
    needed = f"at least {asked.min_decisions} {_WHICH_COUNT}"
    yield Criterion("decisions", f"{found.whole}{_left_out(observed)}", needed, enough)
    rate = found.rate
    told = "no decision" if rate is None else f"{rate:.2%} ({found.part} of {found.whole})"
    few = rate is not None and rate <= asked.max_false_deny_rate
    yield Criterion("false-deny rate", told, f"at most {asked.max_false_deny_rate:.2%}", few)
    yield _in_order(bundle, content_class)
    yield _strict_enough(bundle, content_class)


def _left_out(observed: Observed) -> str:
    others = (
        (observed.other_tables, "under other tables for the class"),
        (observed.never_denied, "at tiers where it can never be denied"),
    )
    told = " and ".join(f"{count} {why}" for count, why in others if count)
    return f"; left out: {told}" if told else ""


def _in_order(bundle: QualityBundle, content_class: str) -> Criterion:
    """Classes of lower impact come first; of equal impact in any order."""
    rank = bundle.impact_rank(content_class)
    before = [
        name
        for name in sorted(bundle.file.rollout)
        if in_flag_only(bundle, name) and bundle.impact_rank(name) < rank
    ]
    found = f"in flag-only: {', '.join(before)}" if before else "all enforced"
    return Criterion("classes of lower impact", found, "all enforced", not before)


def _strict_enough(bundle: QualityBundle, content_class: str) -> Criterion:
    """What `bundle check` asks of an enforced class, before anybody signs."""
    fault = "none"
    try:
        load_quality_bundle(
            promoted(bundle, content_class, bundle.rollout_since_ms[content_class], "a trial")
        )
    except BundleError as error:
        fault = str(error)
    return Criterion("faults of the bundle with the class enforced", fault, "none", fault == "none")


def promoted(bundle: QualityBundle, content_class: str, at_ms: int, rationale: str) -> bytes:
    """The next revision's document, unsigned: one more class is enforced, since `at_ms`, and nothing else.

    `rationale` goes after the sentence that says so.
    """
    document = _as_written(bundle.file.model_dump(mode="json", exclude_unset=True))
    document["revision"] = bundle.revision + 1
    document["rationale"] = f"{content_class} is promoted from flag-only to enforce: {rationale}"
    document["rollout"][content_class] = {"mode": _ENFORCE, "since": rfc3339(at_ms)}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _as_written(value: Any) -> Any:
    """Whole numbers without a fraction again, as people write seconds; their canonical form is the same."""
    if isinstance(value, dict):
        return {key: _as_written(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_as_written(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def rationale_of(found: tuple[Criterion, ...]) -> str:
    """The criteria as the change log keeps them."""
    return "; ".join(f"{one.name}: {one.found} (needed: {one.needed})" for one in found)
