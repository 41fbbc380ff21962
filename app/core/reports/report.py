"""The quality posture report: the tally's figures as a whole, by class, by day, by both; coverage by tier.

Seed 004, "Evidence": distribution of outcomes per content class, computed daily; stale-retrieval rate;
provenance failure rate; coverage per tier.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from app.core.reports.report_figures import Figures, Rate, figures
from topics.records.retrievals import AutonomyTier

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.reports.ledger_values import Basis
    from app.core.reports.report_tally import QualityTally, Scope, Situation

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
        found = self.rate.rate
        return self.target is not None and found is not None and found < self.target

    def fields(self) -> dict[str, Any]:
        """As JSON; rate is null where no store reported."""
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

    scope: Scope
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
        """As JSON: {period, tenant, ledger, overall, by_class, by_day, by_day_and_class, coverage, …}."""
        first, last = self.days or (None, None)
        return {
            "period": {"since": self.scope.since, "until": self.scope.until, "first": first, "last": last},
            "tenant": self.scope.tenant,
            "ledger": self.basis and self.basis.fields(),
            "overall": self.overall.fields(),
            "by_class": [{"content_class": name, **one.fields()} for name, one in self.by_class.items()],
            "by_day": [{"day": day, **one.fields()} for day, one in self.by_day.items()],
            "by_day_and_class": [
                {"day": day, "content_class": name, **one.fields()}
                for (day, name), one in self.by_day_and_class.items()
            ],
            "coverage": [one.fields() for one in self.coverage],
            "alarms": list(self.alarms),
        }


def quality_report(tally: QualityTally, basis: Basis | None = None) -> QualityReport:
    """What the tally has counted so far. `basis`: of what ledger, read how far."""
    return QualityReport(
        tally.scope,
        figures(tally.situations),
        _grouped(tally, lambda one: one.content_class),
        _grouped(tally, lambda one: one.day),
        _grouped(tally, lambda one: (one.day, one.content_class)),
        tuple(_coverage(tally, tier) for tier in TIERS),
        tuple(sorted(tally.alarms.values(), key=lambda alarm: str(alarm["raised_at"]))),
        basis,
    )


def _grouped(tally: QualityTally, group: Callable[[Situation], Group]) -> dict[Group, Figures]:
    parts: defaultdict[Group, list[tuple[Situation, int]]] = defaultdict(list)
    for situation, count in tally.situations:
        parts[group(situation)].append((situation, count))
    return {name: figures(parts[name]) for name in sorted(parts)}


def _coverage(tally: QualityTally, tier: str) -> Coverage:
    reported = sum(count for (_, of), count in tally.reported.items() if of == tier)
    covered = sum(count for (_, of), count in tally.covered.items() if of == tier)
    return Coverage(tier, Rate(covered, reported), COVERAGE_TARGETS[tier])
