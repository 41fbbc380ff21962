"""Where what the gates of a bundle share is less strict than in an older bundle: action types and bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.quality_bundle.loosenings import Loosening

if TYPE_CHECKING:
    from collections.abc import Iterator

REVERSIBILITIES = ("reversible", "irreversible", "unknown")


def find_frame_loosenings(before: Any, after: Any) -> Iterator[Loosening]:
    """Of two loaded bundles: higher bounds, and lower tiers and risks of action types and of the words that
    name them."""
    old, new = before.irreversible_row_threshold, after.irreversible_row_threshold
    if new > old:
        sentence = f"what cannot be undone is denied above {new} rows, not above {old}"
        yield Loosening(sentence, ("irreversible_row_threshold",))
    old, new = before.outcomes.unsigned_factor, after.outcomes.unsigned_factor
    if new > old:
        sentence = f"an outcome without a signature may claim {new} times the reserved rows, not {old} times"
        yield Loosening(sentence, ("outcomes.unsigned_factor",))
    if before.outcomes.alarm_recipient != after.outcomes.alarm_recipient:
        yield Loosening(
            f"alarms of outcomes go to {after.outcomes.alarm_recipient}, who may not read them",
            ("outcomes.alarm_recipient",),
        )
    for name, policy in before.action_types.items():
        yield from _find_type_loosenings(name, policy, after.action_types[name])
    yield from _find_word_loosenings(before, after)


def _find_type_loosenings(name: str, before: Any, after: Any) -> Iterator[Loosening]:
    path = f"action_types.{name}"
    for reversibility in REVERSIBILITIES:
        old, new = getattr(before.tier, reversibility), getattr(after.tier, reversibility)
        if new < old:
            what = f"{name} of {reversibility} effect"
            yield Loosening(f"{what} has tier {new}, not {old}", (f"{path}.tier.{reversibility}",))
    if after.risk < before.risk:
        yield Loosening(
            f"{name} counts as {after.risk} per mille of risk, not {before.risk}", (f"{path}.risk",)
        )
    if after.rows_upper_bound < before.rows_upper_bound:
        bounds = f"{after.rows_upper_bound}, not {before.rows_upper_bound}"
        yield Loosening(f"unknown rows of {name} count as {bounds}", (f"{path}.rows_upper_bound",))
    if _strictness(after.reversible) < _strictness(before.reversible):
        yield Loosening(f"{name} is no longer taken for what cannot be undone", (f"{path}.reversible",))


def _strictness(reversible: bool | None) -> int:
    """How much is taken for what cannot be undone: nothing, what nobody knows, all."""
    return {True: 0, None: 1, False: 2}[reversible]


def _find_word_loosenings(before: Any, after: Any) -> Iterator[Loosening]:
    for name, policy in before.action_types.items():
        for word in policy.words:
            old, new = before.classified(word), after.classified(word)
            if old != new and after.action_types[new].risk < after.action_types[old].risk:
                sentence = f"a tool called {word!r} counts as {new}, not as {old}"
                yield Loosening(sentence, (f"action_types.{name}.words", f"action_types.{new}.words"))
