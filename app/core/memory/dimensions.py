"""The four dimensions of the trust score, each 0..1 (seed 003, "Trust Scorer"; formulas: product.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from app.core.content.inspection import Finding, Inspection
    from app.core.memory.history import History
    from app.core.memory.trust_policy import AlignmentPolicy, CoherencePolicy, ConsistencyPolicy, TrustPolicy


def reliability(policy: TrustPolicy, source_type: str, history: History, *, mismatch: bool) -> float:
    """Of a source: its type's base, moved by reviews, less what claiming another type costs."""
    base: float = getattr(policy.bases, source_type)
    loss = policy.history.type_mismatch if mismatch else 0.0
    return within(_reviewed(policy, base, history.positive, history.negative) - loss)


def _reviewed(policy: TrustPolicy, base: float, positive: int, negative: int) -> float:
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


def consistency(policy: ConsistencyPolicy, inspection: Inspection, findings: Iterable[Finding]) -> float:
    """Of the content: 1 less what its findings and its form cost. A pattern found twice is one hit."""
    found = tuple(findings)
    loss = policy.injection.loss(_hits(found, policy.injection_kinds))
    loss += policy.manipulation.loss(_hits(found, policy.manipulation_kinds))
    if inspection.removed_share > policy.removed.share:
        loss += policy.removed.loss
    if inspection.characters > policy.long.characters:
        loss += policy.long.loss
    if inspection.special_share > policy.special.share:
        loss += policy.special.loss
    return within(1 - loss)


def coherence(policy: CoherencePolicy, since_last_ms: int | None) -> float:
    """Of the time since the source's last write, ms; None: there is none."""
    hasty = since_last_ms is not None and since_last_ms <= policy.within_ms
    return within(policy.base - (policy.loss if hasty else 0))


def alignment(policy: AlignmentPolicy, findings: Iterable[Finding]) -> float:
    """With what the agent was told: less for content that gives it another identity or another goal."""
    found = tuple(findings)
    loss = policy.identity if _hits(found, policy.identity_kinds) else 0.0
    loss += policy.goal if _hits(found, policy.goal_kinds) else 0.0
    return within(policy.base - loss)


def within(value: float) -> float:
    """The value, or the nearer end of 0..1."""
    return min(1.0, max(0.0, value))


def _hits(findings: Iterable[Finding], kinds: Collection[str]) -> int:
    return len({one.id for one in findings if one.kind in kinds})
