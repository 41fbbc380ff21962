"""The quality posture report: its figures as a whole, by class, by day, by both; coverage by tier.

Seed 004, "Evidence": distribution of outcomes per content class, computed daily; stale-retrieval rate;
provenance failure rate; coverage per tier; "Safe rollout": false-deny rate. Each figure stands here with its
definition, which people read who do not know the seeds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args

from sluice_topics.records.retrievals import AutonomyTier, QualityOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sluice.core.reports.ledger_values import Basis
    from sluice.core.reports.report_tally import QualityTally, ReportScope, Situation

OUTCOMES: tuple[str, ...] = get_args(QualityOutcome)
"""The mildest first."""
FLAG_ONLY = "flag_only"
_DENY = "deny"


class Rate(NamedTuple):
    """`part` of `whole`; no rate of nothing."""

    part: int
    whole: int

    @property
    def rate(self) -> float | None:
        """0 to 1, None where there is nothing to have a rate of."""
        return self.part / self.whole if self.whole else None

    def fields(self) -> dict[str, Any]:
        """The JSON: {part, whole, rate}."""
        return {**self._asdict(), "rate": self.rate}


@dataclass(frozen=True, slots=True)
class Figure:
    """One rate: which situations are its part, and of which it is a part."""

    name: str
    title: str
    meaning: str
    part: Callable[[Situation], bool]
    whole: Callable[[Situation], bool]

    def of(self, counted: Iterable[tuple[Situation, int]]) -> Rate:
        """The rate over situations with how often each was."""
        whole = [(situation, count) for situation, count in counted if self.whole(situation)]
        return Rate(
            sum(count for situation, count in whole if self.part(situation)), sum(count for _, count in whole)
        )


def _is_any(_: Situation) -> bool:
    return True


def _is_flag_only(situation: Situation) -> bool:
    """An item that access or a known-bad source denied says nothing of how the class's rollout would go."""
    return situation.rollout == FLAG_ONLY and situation.judged


def _is_let_through_by_flag_only(situation: Situation) -> bool:
    return situation.would_have_been == _DENY and situation.outcome != _DENY


STALE = Figure(
    "stale_retrieval",
    "Stale retrievals",
    "items of a class that the bundle knows, older than their time to live, that were not denied, of all "
    "decided items",
    lambda situation: situation.stale_for == "ttl_exceeded" and situation.outcome != _DENY,
    _is_any,
)
UNDATED = Figure(
    "no_usable_time",
    "No usable time",
    "items of a class that the bundle knows, whose timestamp is absent, malformed or in the future, that "
    "were not denied, of all decided items; none of them is among the stale ones",
    lambda situation: situation.stale_for == "no_usable_time" and situation.outcome != _DENY,
    _is_any,
)
PROVENANCE = Figure(
    "provenance_failure",
    "Provenance failures",
    "items whose provenance reference did not resolve or whose hash did not verify, of all decided items; "
    "one of an unknown class whose hash verified is none, nor one whose reference is not resolved yet",
    lambda situation: (
        "provenance_unverified" in situation.flags and not (situation.verified or situation.unresolved)
    ),
    _is_any,
)
UNRESOLVED = Figure(
    "not_resolved_yet",
    "Not resolved yet",
    "items whose provenance reference nobody had looked at when they were read, of all decided items: the "
    "first reads of a reference, and all reads where no resolver may look at it",
    lambda situation: situation.unresolved,
    _is_any,
)
CONFIDENCE = Figure(
    "confidence_failure",
    "Low confidence",
    "items whose confidence score is absent, malformed or below the minimum, or whose class the bundle does "
    "not know, of all decided items",
    lambda situation: "low_confidence" in situation.flags,
    _is_any,
)
FALSE_DENY = Figure(
    "false_deny",
    "False denies",
    "items that flag-only let through and enforcing would have denied, of the items that were judged under "
    "flag-only",
    _is_let_through_by_flag_only,
    _is_flag_only,
)
OVERRIDDEN = Figure(
    "overridden",
    "Overridden",
    "items that were read on a person's signed override, of all decided items",
    lambda situation: situation.overridden,
    _is_any,
)
FIGURES = (STALE, UNDATED, PROVENANCE, UNRESOLVED, CONFIDENCE, FALSE_DENY, OVERRIDDEN)


@dataclass(frozen=True, slots=True)
class Figures:
    """Of some decisions: how many came out how, and every rate by its name.

    `would_have_been` is about decisions under flag-only or shadow mode alone: what enforcing would have said.
    """

    decisions: int
    outcomes: dict[str, int]
    would_have_been: dict[str, int]
    rates: dict[str, Rate]

    def share(self, outcome: str) -> float:
        """0 to 1, of this outcome; 0 where nothing was decided."""
        return self.outcomes[outcome] / self.decisions if self.decisions else 0.0

    def fields(self) -> dict[str, Any]:
        """The JSON: counts, and {part, whole, rate} for each rate."""
        return {
            "decisions": self.decisions,
            "outcomes": self.outcomes,
            "would_have_been": self.would_have_been,
            **{name: rate.fields() for name, rate in self.rates.items()},
        }


def count_figures(counted: Iterable[tuple[Situation, int]]) -> Figures:
    """Of situations with how often each was."""
    situations = list(counted)
    outcomes: Counter[str] = Counter()
    hidden: Counter[str] = Counter()
    for situation, count in situations:
        outcomes[situation.outcome] += count
        if situation.would_have_been is not None:
            hidden[situation.would_have_been] += count
    return Figures(
        sum(count for _, count in situations),
        {outcome: outcomes[outcome] for outcome in OUTCOMES},
        {outcome: hidden[outcome] for outcome in OUTCOMES},
        {figure.name: figure.of(situations) for figure in FIGURES},
    )


TIERS: tuple[str, ...] = get_args(AutonomyTier)
COVERAGE_TARGETS: dict[str, float | None] = {"sandbox": None, "bounded": 1.0, "high_privilege": 1.0}
"""Seed 004, "Evidence": 100 % for bounded and high-privilege tiers; sandbox has no target."""
COVERAGE_MEANING = (  # seed 004, "Evidence": coverage metric
    "of the items that memory stores report as returned, those with a recorded quality decision; nothing "
    "reported, no figure"
)
Group = TypeVar("Group", str, tuple[str, str])


@dataclass(frozen=True, slots=True)
class Coverage:
    """Of one tier: items that stores reported as returned, and those of them with a quality decision."""

    tier: str
    rate: Rate
    target: float | None

    @property
    def short(self) -> bool:
        """Whether the target is missed; nothing reported misses none."""
        rate = self.rate.rate
        return self.target is not None and rate is not None and rate < self.target

    def fields(self) -> dict[str, Any]:
        """The JSON of one tier; rate is null where no store reported."""
        return {
            "tier": self.tier,
            "covered": self.rate.part,
            "reported": self.rate.whole,
            "rate": self.rate.rate,
            "target": self.target,
        }


@dataclass(frozen=True, slots=True)
class QualityReport:
    """Days are YYYY-MM-DD in UTC; groups are in order of their names."""

    scope: ReportScope
    overall: Figures
    by_class: dict[str, Figures]
    by_day: dict[str, Figures]
    by_day_and_class: dict[tuple[str, str], Figures]
    coverage: tuple[Coverage, ...]
    alarms: tuple[dict[str, Any], ...]
    basis: Basis | None = None

    @property
    def days(self) -> tuple[str, str] | None:
        """The first and the last day with a decision; None without any."""
        return (min(self.by_day), max(self.by_day)) if self.by_day else None

    def fields(self) -> dict[str, Any]:
        """The JSON: {period, tenant, ledger, overall, by_class, by_day, by_day_and_class, coverage, …}."""
        first, last = self.days or (None, None)
        return {
            "period": {"since": self.scope.since, "until": self.scope.until, "first": first, "last": last},
            "tenant": self.scope.tenant,
            "ledger": self.basis and self.basis.fields(),
            "overall": self.overall.fields(),
            "by_class": [
                {"content_class": name, **figures.fields()} for name, figures in self.by_class.items()
            ],
            "by_day": [{"day": day, **figures.fields()} for day, figures in self.by_day.items()],
            "by_day_and_class": [
                {"day": day, "content_class": name, **figures.fields()}
                for (day, name), figures in self.by_day_and_class.items()
            ],
            "coverage": [coverage.fields() for coverage in self.coverage],
            "alarms": list(self.alarms),
        }


def build_quality_report(tally: QualityTally, basis: Basis | None = None) -> QualityReport:
    """What the tally has counted so far. `basis`: of what ledger, read how far."""
    return QualityReport(
        tally.scope,
        count_figures(tally.situations),
        _group(tally, lambda situation: situation.content_class),
        _group(tally, lambda situation: situation.day),
        _group(tally, lambda situation: (situation.day, situation.content_class)),
        tuple(_count_coverage(tally, tier) for tier in TIERS),
        tuple(sorted(tally.alarms.values(), key=lambda alarm: str(alarm["raised_at"]))),
        basis,
    )


def _group(tally: QualityTally, group: Callable[[Situation], Group]) -> dict[Group, Figures]:
    parts: defaultdict[Group, list[tuple[Situation, int]]] = defaultdict(list)
    for situation, count in tally.situations:
        parts[group(situation)].append((situation, count))
    return {name: count_figures(parts[name]) for name in sorted(parts)}


def _count_coverage(tally: QualityTally, tier: str) -> Coverage:
    reported = sum(count for (_, of), count in tally.reported.items() if of == tier)
    covered = sum(count for (_, of), count in tally.covered.items() if of == tier)
    return Coverage(tier, Rate(covered, reported), COVERAGE_TARGETS[tier])
