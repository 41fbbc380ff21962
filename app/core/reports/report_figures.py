"""The figures of the quality report, each with its definition: the only place that says what a rate is of.

Seed 004, "Evidence": stale-retrieval rate, provenance failure rate; "Safe rollout": false-deny rate. People
who do not know the seeds read the meanings, so these name none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from topics.records.retrievals import QualityOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from app.core.reports.report_tally import Situation

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
        """As JSON."""
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


def _every(_: Situation) -> bool:
    return True


def _flag_only(situation: Situation) -> bool:
    """An item that access or a known-bad source denied says nothing of how the class's rollout would go."""
    return situation.rollout == FLAG_ONLY and situation.judged


def _let_through_only_by_flag_only(situation: Situation) -> bool:
    return situation.would_have_been == _DENY and situation.outcome != _DENY


STALE = Figure(
    "stale_retrieval",
    "Stale retrievals",
    "items of a class that the bundle knows, older than their time to live, that were not denied, of all "
    "decided items",
    lambda one: one.stale_for == "ttl_exceeded" and one.outcome != _DENY,
    _every,
)
UNDATED = Figure(
    "no_usable_time",
    "No usable time",
    "items of a class that the bundle knows, whose timestamp is absent, malformed or in the future, that "
    "were not denied, of all decided items; none of them is among the stale ones",
    lambda one: one.stale_for == "no_usable_time" and one.outcome != _DENY,
    _every,
)
PROVENANCE = Figure(
    "provenance_failure",
    "Provenance failures",
    "items whose provenance reference did not resolve or whose hash did not verify, of all decided items; "
    "one of an unknown class whose hash verified is none",
    lambda one: "provenance_unverified" in one.flags and not one.verified,
    _every,
)
CONFIDENCE = Figure(
    "confidence_failure",
    "Low confidence",
    "items whose confidence score is absent, malformed or below the minimum, or whose class the bundle does "
    "not know, of all decided items",
    lambda one: "low_confidence" in one.flags,
    _every,
)
FALSE_DENY = Figure(
    "false_deny",
    "False denies",
    "items that flag-only let through and enforcing would have denied, of the items that were judged under "
    "flag-only",
    _let_through_only_by_flag_only,
    _flag_only,
)
OVERRIDDEN = Figure(
    "overridden",
    "Overridden",
    "items that were read on a person's signed override, of all decided items",
    lambda one: one.overridden,
    _every,
)
FIGURES = (STALE, UNDATED, PROVENANCE, CONFIDENCE, FALSE_DENY, OVERRIDDEN)


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
        """As JSON: counts, and {part, whole, rate} for each rate."""
        return {
            "decisions": self.decisions,
            "outcomes": self.outcomes,
            "would_have_been": self.would_have_been,
            **{name: rate.fields() for name, rate in self.rates.items()},
        }


def figures(counted: Iterable[tuple[Situation, int]]) -> Figures:
    """Of situations with how often each was."""
    known = list(counted)
    outcomes: Counter[str] = Counter()
    hidden: Counter[str] = Counter()
    for situation, count in known:
        outcomes[situation.outcome] += count
        if situation.would_have_been is not None:
            hidden[situation.would_have_been] += count
    return Figures(
        sum(count for _, count in known),
        {outcome: outcomes[outcome] for outcome in OUTCOMES},
        {outcome: hidden[outcome] for outcome in OUTCOMES},
        {figure.name: figure.of(known) for figure in FIGURES},
    )
