"""The trust score of a memory write and where it leads (seed 003; product.md, "Memory writes").

The dimensions alone allowed a user's write with one injection hit (.705) and hardly ever rejected a fresh
source, so what must not pass is a cap on the total: no source and no history outweighs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping

    from sluice.core.policy.memory_policy import (
        AlignmentPolicy,
        CoherencePolicy,
        ConsistencyPolicy,
        TrustPolicy,
    )
    from sluice.core.state.history import History
    from sluice.detection.text_inspection import ContentInspection, Finding


def score_reliability(policy: TrustPolicy, source_type: str, history: History, *, mismatch: bool) -> float:
    """Of a source: its type's base, moved by reviews, less what claiming another type costs.

    One of the four dimensions of the trust score, each 0..1 (seed 003, "Trust Scorer").
    """
    base: float = getattr(policy.bases, source_type)
    loss = policy.history.type_mismatch if mismatch else 0.0
    return clamp(_weigh_reviews(policy, base, history.positive, history.negative) - loss)


def _weigh_reviews(policy: TrustPolicy, base: float, positive: int, negative: int) -> float:
    numbers = policy.history
    reviews = positive + negative
    if reviews < max(1, numbers.min_reviews):
        return base
    counted = min(reviews, policy.history_window)
    approved = positive / reviews * counted
    share = (approved + numbers.prior_positive) / (counted + numbers.prior_reviews)
    weight = min(numbers.weight_cap, counted / (counted + numbers.half_weight_at))
    moved = share * weight + base * (1 - weight)
    return moved if positive >= numbers.positives_to_raise else min(moved, base)


def score_consistency(
    policy: ConsistencyPolicy, inspection: ContentInspection, findings: Iterable[Finding]
) -> float:
    """Of the content: 1 less what its findings and its form cost. A pattern found twice is one hit."""
    own = tuple(findings)
    loss = 0.0
    if own:
        loss += policy.injection.loss(_count_hits(own, policy.injection_kinds))
        loss += policy.manipulation.loss(_count_hits(own, policy.manipulation_kinds))
    for cost in _form_losses(policy, inspection):
        loss += cost
    return clamp(1 - loss)


def _form_losses(policy: ConsistencyPolicy, inspection: ContentInspection) -> tuple[float, float, float]:
    """What the form of a content costs: what was removed of it, its length, its signs."""
    return (
        policy.removed.loss if inspection.removed_share > policy.removed.share else 0.0,
        policy.long.loss if inspection.characters > policy.long.characters else 0.0,
        policy.special.loss if inspection.special_share > policy.special.share else 0.0,
    )


def score_coherence(policy: CoherencePolicy, since_last_ms: int | None) -> float:
    """Of the time since the source's last write, ms; None: there is none."""
    return clamp(policy.base - (policy.loss if _is_hasty(policy, since_last_ms) else 0))


def _is_hasty(policy: CoherencePolicy, since_last_ms: int | None) -> bool:
    return since_last_ms is not None and since_last_ms <= policy.within_ms


def score_alignment(policy: AlignmentPolicy, findings: Iterable[Finding]) -> float:
    """With what the agent was told: less for content that gives it another identity or another goal."""
    own = tuple(findings)
    loss = policy.identity if _count_hits(own, policy.identity_kinds) else 0.0
    loss += policy.goal if _count_hits(own, policy.goal_kinds) else 0.0
    return clamp(policy.base - loss)


def clamp(value: float) -> float:
    """The value, or the nearer end of 0..1."""
    return min(1.0, max(0.0, value))


def _count_hits(findings: Iterable[Finding], kinds: Collection[str]) -> int:
    return len({finding.id for finding in findings if finding.kind in kinds})


Action = Literal["allow", "quarantine", "reject"]
Cap = tuple[float, str]
DIGITS = 6
"""Decimals of every number of a score: enough for any table, few enough to be the same on every machine."""


class Facts(NamedTuple):
    """What a score follows from.

    `source_type`: the type that counts, `mismatch` whether the write claims another; `since_last_ms`: since
    the source's last write; `parents`: the trust of each memory that this one derives from, None for one that
    nobody knows and negative for one that nobody scored; `ceiling`: the most that `ceiling_by` leaves;
    `extra_findings`: those beside the inspection of the content; `inconclusive`: what beside it could not be
    judged to its end.
    """

    source_type: str
    history: History
    mismatch: bool
    since_last_ms: int | None
    inspection: ContentInspection
    extra_findings: tuple[Finding, ...] = ()
    parents: tuple[float | None, ...] = ()
    ceiling: float | None = None
    ceiling_by: str = ""
    inconclusive: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them, framed ones too."""
        return self.inspection.findings + self.extra_findings


@dataclass(frozen=True, slots=True)
class Trust:
    """`uncapped`: the weighted dimensions (by wire name); `total`: that under every cap (value, by whom).

    Each 0..1, of 6 decimals, a whole number as an int, as RFC 8785 writes it; the lowest cap comes first.
    Both are -1 where the gate is switched off.
    """

    total: float
    uncapped: float
    dimensions: Mapping[str, float]
    caps: tuple[Cap, ...]


def score(policy: TrustPolicy, facts: Facts) -> Trust:
    """The trust in a write. What is framed (quoted, reported, taught) is listed and costs nothing."""
    telling = _select_hits(policy, facts)
    exact = {
        "sourceReliability": score_reliability(
            policy, facts.source_type, facts.history, mismatch=facts.mismatch
        ),
        "contentConsistency": score_consistency(policy.consistency, facts.inspection, telling),
        "temporalCoherence": score_coherence(policy.coherence, facts.since_last_ms),
        "instructionAlignment": score_alignment(policy.alignment, telling),
    }
    weights = policy.weights.by_dimension
    uncapped = clamp(sum(value * weights[name] for name, value in exact.items()))
    caps = tuple(sorted({(_round(clamp(value)), by) for value, by in _list_caps(policy, facts)}))
    total = min([uncapped, *(value for value, _ in caps)])
    dimensions = {name: _round(value) for name, value in exact.items()}
    return Trust(_round(total), _round(uncapped), dimensions, caps)


class Scored(NamedTuple):
    """A write's trust and where it leads; `fields`: the trust as the decision's record has it."""

    trust: Trust
    action: Action
    reason: str
    fields: dict[str, Any]


MOST_QUIET = 1024
"""Scores that are remembered of writes in which nothing was found; reviews are counted without a bound."""


class Scorer:
    """Scores writes under one policy. Where nothing was found in a write, its score follows from the source
    and a few answers yes or no: it is worked out once."""

    __slots__ = ("_policy", "_quiet")

    def __init__(self, policy: TrustPolicy) -> None:
        self._policy = policy
        self._quiet: dict[Hashable, Scored] = {}

    def score(self, facts: Facts) -> Scored:
        """The trust in a write, where it leads and why."""
        inspection, history = facts.inspection, facts.history
        unread = facts.inconclusive or inspection.inconclusive is not None
        if (
            inspection.findings
            or facts.extra_findings
            or facts.parents
            or unread
            or facts.ceiling is not None
        ):
            return score_facts(self._policy, facts)
        key = (
            facts.source_type,
            facts.mismatch,
            history.positive,
            history.negative,
            _is_hasty(self._policy.coherence, facts.since_last_ms),
            *_form_losses(self._policy.consistency, inspection),
            inspection.characters > self._policy.max_characters,
        )
        scored = self._quiet.get(key)
        if scored is None:
            scored = score_facts(self._policy, facts)
            if len(self._quiet) < MOST_QUIET:
                self._quiet[key] = scored
        return scored


def score_facts(policy: TrustPolicy, facts: Facts) -> Scored:
    """Score facts without a Scorer, which remembers."""
    trust = score(policy, facts)
    return Scored(trust, route(policy, trust), explain(policy, trust), list_trust_fields(trust))


def list_trust_fields(trust: Trust) -> dict[str, Any]:
    """The trust as a decision's record has it."""
    return {
        "total": trust.total,
        "uncapped": trust.uncapped,
        "dimensions": trust.dimensions or None,
        "caps": [{"value": value, "by": by} for value, by in trust.caps],
    }


def route(policy: TrustPolicy, trust: Trust) -> Action:
    """Where the total leads (seed 003, "3-Tier Routing")."""
    return _leads_to(policy, trust.total)


def explain(policy: TrustPolicy, trust: Trust) -> str:
    """What decided: "trusted", the lowest cap if it suffices for it, or the dimension that cost most."""
    action = route(policy, trust)
    if action == "allow":
        return "trusted"
    if trust.caps and _leads_to(policy, trust.caps[0][0]) == action:
        return trust.caps[0][1]
    weights = policy.weights.by_dimension
    costs = {name: (1 - value) * weights[name] for name, value in trust.dimensions.items()}
    return f"low_trust: {max(costs, key=lambda name: costs[name])}"


def _select_hits(policy: TrustPolicy, facts: Facts) -> tuple[Finding, ...]:
    """What counts as hits: what is not framed, and hints only where several different ones come together."""
    unframed = [finding for finding in facts.findings if not finding.framed]
    hints = {finding.id for finding in unframed if finding.weight == "weak"}
    alone = len(hints) < policy.hints_that_count
    return tuple(finding for finding in unframed if finding.weight != "weak" or not alone)


def _leads_to(policy: TrustPolicy, total: float) -> Action:
    if total >= policy.write_threshold:
        return "allow"
    return "quarantine" if total >= policy.quarantine_threshold else "reject"


def _list_caps(policy: TrustPolicy, facts: Facts) -> Iterator[Cap]:
    below = policy.caps
    for finding in facts.findings:
        if finding.weight == "definite" and not finding.framed:
            yield policy.quarantine_threshold - below.definite, f"finding: {finding.named}"
        elif finding.weight == "strong" and not finding.framed:
            yield policy.write_threshold - below.strong, f"finding: {finding.named}"
    if facts.inspection.characters > policy.max_characters:
        yield (
            policy.quarantine_threshold - below.definite,
            f"too_long: over {policy.max_characters} characters",
        )
    content = facts.inspection.inconclusive
    for what in facts.inconclusive if content is None else (*facts.inconclusive, content):
        yield policy.write_threshold - below.inconclusive, f"inconclusive: {what}"
    yield from _list_parent_caps(policy, facts.parents)
    if facts.ceiling is not None:
        yield facts.ceiling, facts.ceiling_by


def _list_parent_caps(policy: TrustPolicy, parents: tuple[float | None, ...]) -> Iterator[Cap]:
    trusts = [trust for trust in parents if trust is not None and trust >= 0]
    if trusts:
        yield min(trusts), "parent_trust"
    if len(trusts) < len(parents):
        yield policy.write_threshold - policy.caps.unknown_parent, "unknown_parent"


def _round(value: float) -> float:
    number = round(value, DIGITS)
    return int(number) if number == int(number) else number
