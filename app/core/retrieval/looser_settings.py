"""What a newer revision takes less strictly of all classes: provenance, content, promotion, escalation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.retrieval.loosening import Loosening
from app.core.retrieval.severity import TIERS, milder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.retrieval.quality_bundle import QualityBundle
    from app.core.retrieval.quality_models import QualityBundleFile


def looser_settings(before: QualityBundle, after: QualityBundle) -> Iterator[Loosening]:
    """What does not stand under a class."""
    yield from _schemes(before, after)
    yield from _resolutions(before.file, after.file)
    yield from _content(before, after)
    yield from _promotion(before.file, after.file)
    for category in sorted(before.high_impact - after.high_impact):
        sentence = f"a deny for {category} no longer opens an escalation"
        yield Loosening(sentence, ("high_impact_categories",))
    yield from _recipient(before.file, after.file)
    if before.keeps_classes and not after.keeps_classes:
        yield Loosening("classes that nobody knows are no longer closed", ("access",))


def _recipient(before: QualityBundleFile, after: QualityBundleFile) -> Iterator[Loosening]:
    """Nobody can tell a better reader from one who never reads."""
    old, new = before.alarm_recipient, after.alarm_recipient
    if old != new:
        yield Loosening(f"alarms go to {new}, no longer to {old}", ("alarm_recipient",))


def _schemes(before: QualityBundle, after: QualityBundle) -> Iterator[Loosening]:
    for scheme in sorted(after.schemes - before.schemes):
        yield Loosening(f"references may have the scheme {scheme}", ("provenance_schemes",))
    dropped = sorted(before.schemes - after.schemes)
    if dropped and _flags_less_than_the_matrix(before):
        sentence = f"references with the scheme {', '.join(dropped)} are only flagged outside high_privilege"
        yield Loosening(sentence, ("provenance_schemes",))


def _flags_less_than_the_matrix(bundle: QualityBundle) -> bool:
    """Whether some reference that does not verify comes out graver than one of an unregistered scheme."""
    return any(milder(cell.unregistered, cell.provenance) for cell in bundle.lookup.cells.values())


def _resolutions(before: QualityBundleFile, after: QualityBundleFile) -> Iterator[Loosening]:
    old, new = before.provenance_max_age_s, after.provenance_max_age_s
    if old is not None and (new is None or new > old):
        until = "for ever" if new is None else f"for {new} s"
        yield Loosening(f"a recorded resolution counts {until}, not for {old} s", ("provenance_max_age_s",))
    if after.provenance_refresh_s > before.provenance_refresh_s:
        sentence = (
            f"references are resolved again after {after.provenance_refresh_s} s, "
            f"not after {before.provenance_refresh_s} s"
        )
        yield Loosening(sentence, ("provenance_refresh_s",))


def _content(before: QualityBundle, after: QualityBundle) -> Iterator[Loosening]:
    for tier in TIERS:
        for weight in ("strong", "definite"):
            old, new = before.content_outcome(tier, weight), after.content_outcome(tier, weight)
            if milder(new, old):
                sentence = f"a {weight} finding in a body at {tier}: {new} where it was {old}"
                yield Loosening(sentence, (f"content_actions.{tier}.{weight}",))


def _promotion(before: QualityBundleFile, after: QualityBundleFile) -> Iterator[Loosening]:
    old, new = before.promotion, after.promotion
    if after.rollout_window_days > before.rollout_window_days:
        sentence = (
            f"flag-only may last {after.rollout_window_days} days without an alarm, "
            f"not {before.rollout_window_days}"
        )
        yield Loosening(sentence, ("rollout_window_days",))
    if new.min_days < old.min_days:
        sentence = f"{new.min_days} days of decisions are enough to promote, not {old.min_days}"
        yield Loosening(sentence, ("promotion.min_days",))
    if new.min_decisions < old.min_decisions:
        sentence = f"{new.min_decisions} decisions are enough to promote, not {old.min_decisions}"
        yield Loosening(sentence, ("promotion.min_decisions",))
    if new.max_false_deny_rate > old.max_false_deny_rate:
        rates = f"{new.max_false_deny_rate}, not {old.max_false_deny_rate}"
        yield Loosening(f"the false-deny rate may be {rates} to promote", ("promotion.max_false_deny_rate",))
