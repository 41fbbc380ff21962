"""From flag-only to enforce, one class at a time: what the ledger shows, the criteria, the next revision.

Seed 004, "Safe rollout" and "Flag-only mode left permanent". The numbers are the quality bundle's own. A
decision counts if a revision took it that judges the class as the bundle in force does: what laxer tables let
through says nothing of stricter ones. At a tier whose tables can never deny the class nothing could be a
false deny, so its decisions would only thin the rate out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.errors import BundleError
from sluice.core.quality_bundle.quality_bundle import load_quality_bundle
from sluice.core.quality_bundle.severity import TIERS
from sluice.core.reports.report import FALSE_DENY, FLAG_ONLY
from sluice.core.reports.report_tally import QualityTally, ReportScope

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.reports.report import Rate

_DAY = len("2026-01-01")
_DENY = "deny"


class ObservedDecisions:
    """Decisions on a class since it has been in flag-only under this bundle.

    `other_tables` and `never_denied` are how many of them do not count: for the revision, else for the tier.
    """

    def __init__(self, bundle: QualityBundle, content_class: str, hashes: Collection[str]) -> None:
        """`hashes`: of the revisions whose decisions count, as `find_alike` gives them.

        The class must be one that the bundle has a rollout for.
        """
        self._bundle_id = bundle.id
        self._class = content_class
        self._hashes = frozenset(hashes)
        self._tiers = find_denying_tiers(bundle, content_class)
        self._since = rfc3339(bundle.rollout_since_ms[content_class])
        self._tally = QualityTally(ReportScope(since=self._since[:_DAY]))
        self.other_tables = 0
        self.never_denied = 0

    def count_decision(self, event: Mapping[str, Any]) -> None:
        """Take one record of gate.memory.quality_decision, of any class. Raises NotADecisionError."""
        if not self._is_concerned(event):
            return
        if event.get("quality_bundle_hash") not in self._hashes:
            self.other_tables += 1
        elif event.get("autonomy_tier") not in self._tiers:
            self.never_denied += 1
        else:
            self._tally.count_decision(event)

    def _is_concerned(self, event: Mapping[str, Any]) -> bool:
        return (
            event.get("content_class") == self._class
            and event.get("quality_bundle_id") == self._bundle_id
            and event.get("rollout") == FLAG_ONLY
            and str(event.get("timestamp")) >= self._since
        )

    @property
    def days(self) -> int:
        """UTC days with a decision that counts."""
        return len({situation.day for situation, _ in self._tally.situations if FALSE_DENY.whole(situation)})

    @property
    def false_denies(self) -> Rate:
        """Of the decisions that count: items that enforcing would have denied."""
        return FALSE_DENY.of(self._tally.situations)


def find_alike(
    bundle: QualityBundle, content_class: str, revisions: Iterable[QualityBundle]
) -> frozenset[str]:
    """The hashes of the revisions that judge the class as the bundle does, and the bundle's own.

    The same times to live (each tool's too), minimum, requirement and outcomes at every tier, registered
    schemes and greatest age of a resolution; what else a revision changed does not matter.
    """
    due = _collect_tables(bundle, content_class)
    return frozenset(
        {
            bundle.hash,
            *(revision.hash for revision in revisions if _collect_tables(revision, content_class) == due),
        }
    )


def find_denying_tiers(bundle: QualityBundle, content_class: str) -> frozenset[str]:
    """The tiers at which the class can be denied for quality: for one of the three dimensions, or for a
    reference of an unregistered scheme."""
    cells = {tier: bundle.lookup.cell(tier, content_class) for tier in TIERS}
    return frozenset(
        tier for tier, cell in cells.items() if _DENY in (cell.freshness, cell.confidence, cell.unregistered)
    )


def _collect_tables(bundle: QualityBundle, content_class: str) -> tuple[object, ...]:
    limits = bundle.lookup.tool_limits.items()
    return (
        [bundle.lookup.cell(tier, content_class) for tier in TIERS],
        {tool: limit.ms for (tool, name), limit in limits if name == content_class},
        bundle.schemes,
        bundle.provenance_max_age_ms,
    )


_ENFORCE = "enforce"
_WHICH_COUNT = "under the bundle's present tables for the class, at tiers where it can be denied"


class Criterion(NamedTuple):
    """What was found against what is needed, both in words."""

    name: str
    found: str
    needed: str
    met: bool


def is_in_flag_only(bundle: QualityBundle, content_class: str) -> bool:
    """Whether there is something to promote."""
    return bundle.rollout_of(content_class) == FLAG_ONLY


def judge_criteria(
    bundle: QualityBundle, content_class: str, observed: ObservedDecisions
) -> tuple[Criterion, ...]:
    """Every criterion, met or not. Days, decisions and false denies are of what `observed` counts."""
    return tuple(_judge_criteria(bundle, content_class, observed))


def _judge_criteria(
    bundle: QualityBundle, content_class: str, observed: ObservedDecisions
) -> Iterator[Criterion]:
    asked, false_denies = bundle.file.promotion, observed.false_denies
    mode = bundle.rollout_of(content_class)
    yield Criterion("rollout of the class", mode, FLAG_ONLY, mode == FLAG_ONLY)
    days = observed.days
    yield Criterion("days with decisions", str(days), f"at least {asked.min_days}", days >= asked.min_days)
    enough = false_denies.whole >= asked.min_decisions
    needed = f"at least {asked.min_decisions} {_WHICH_COUNT}"
    yield Criterion("decisions", f"{false_denies.whole}{_describe_left_out(observed)}", needed, enough)
    rate = false_denies.rate
    description = (
        "no decision" if rate is None else f"{rate:.2%} ({false_denies.part} of {false_denies.whole})"
    )
    few = rate is not None and rate <= asked.max_false_deny_rate
    yield Criterion("false-deny rate", description, f"at most {asked.max_false_deny_rate:.2%}", few)
    yield _judge_order(bundle, content_class)
    yield _judge_strictness(bundle, content_class)


def _describe_left_out(observed: ObservedDecisions) -> str:
    others = (
        (observed.other_tables, "under other tables for the class"),
        (observed.never_denied, "at tiers where it can never be denied"),
    )
    description = " and ".join(f"{count} {why}" for count, why in others if count)
    return f"; left out: {description}" if description else ""


def _judge_order(bundle: QualityBundle, content_class: str) -> Criterion:
    """Classes of lower impact come first; of equal impact in any order."""
    rank = bundle.impact_rank(content_class)
    before = [
        name
        for name in sorted(bundle.file.rollout)
        if is_in_flag_only(bundle, name) and bundle.impact_rank(name) < rank
    ]
    modes = f"in flag-only: {', '.join(before)}" if before else "all enforced"
    return Criterion("classes of lower impact", modes, "all enforced", not before)


def _judge_strictness(bundle: QualityBundle, content_class: str) -> Criterion:
    """What `bundle check` asks of an enforced class, before anybody signs."""
    fault = "none"
    try:
        load_quality_bundle(
            make_promoted(bundle, content_class, bundle.rollout_since_ms[content_class], "a trial")
        )
    except BundleError as error:
        fault = str(error)
    return Criterion("faults of the bundle with the class enforced", fault, "none", fault == "none")


def make_promoted(bundle: QualityBundle, content_class: str, at_ms: int, rationale: str) -> bytes:
    """The next revision's document, unsigned: one more class is enforced, since `at_ms`, and nothing else.

    `rationale` goes after the sentence that says so.
    """
    document = _restore_whole_numbers(bundle.file.model_dump(mode="json", exclude_unset=True))
    document["revision"] = bundle.revision + 1
    document["rationale"] = f"{content_class} is promoted from flag-only to enforce: {rationale}"
    document["rollout"][content_class] = {"mode": _ENFORCE, "since": rfc3339(at_ms)}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _restore_whole_numbers(value: Any) -> Any:
    """Whole numbers without a fraction again, as people write seconds; their canonical form is the same."""
    if isinstance(value, dict):
        return {key: _restore_whole_numbers(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_restore_whole_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def describe_criteria(criteria: tuple[Criterion, ...]) -> str:
    """The criteria as the change log keeps them."""
    return "; ".join(
        f"{criterion.name}: {criterion.found} (needed: {criterion.needed})" for criterion in criteria
    )
