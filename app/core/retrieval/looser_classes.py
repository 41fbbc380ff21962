"""What a newer revision takes less strictly of a content class: its limits, its matrix, its rollout, its
readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.retrieval.loosening import Loosening
from app.core.retrieval.quality_models import IMPACTS
from app.core.retrieval.severity import DIMENSIONS, TIERS, milder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.retrieval.lookup import Limit
    from app.core.retrieval.quality_bundle import QualityBundle

TABLES = (
    "ttl_by_class",
    "min_confidence_by_class",
    "provenance_required_by_class",
    "default_by_class",
    "rollout",
    "impact_by_class",
    "access",
)


def looser_classes(before: QualityBundle, after: QualityBundle) -> Iterator[Loosening]:
    """Of every class of either revision, in the order of their names."""
    old, new = before.lookup.classes, after.lookup.classes
    for name in sorted(old | new):
        if name not in new:
            sentence = f"{name} is no longer a class: outside high_privilege its items are only flagged"
            yield Loosening(sentence, _everywhere(name))
        elif name not in old:
            yield Loosening(f"{name} is a new class: its items failed before", _everywhere(name))
        else:
            yield from _limits(before, after, name)
            yield from _outcomes(before, after, name)
            yield from _rollout(before, after, name)
            yield from _impact(before, after, name)
        yield from _readers(before, after, name)


def _everywhere(name: str) -> tuple[str, ...]:
    matrix = (f"action_matrix.{tier}.{name}.{dimension}" for tier in TIERS for dimension in DIMENSIONS)
    return (*(f"{table}.{name}" for table in TABLES), *matrix)


def _limits(before: QualityBundle, after: QualityBundle, name: str) -> Iterator[Loosening]:
    yield from _times(before, after, name)
    old, new = before.file, after.file
    least = (old.min_confidence_by_class[name], new.min_confidence_by_class[name])
    if least[1] < least[0]:
        sentence = f"the minimum confidence of {name} falls from {least[0]} to {least[1]}"
        yield Loosening(sentence, (f"min_confidence_by_class.{name}",))
    if old.provenance_required_by_class[name] and not new.provenance_required_by_class[name]:
        sentence = f"{name} no longer needs a provenance reference"
        yield Loosening(sentence, (f"provenance_required_by_class.{name}",))


def _times(before: QualityBundle, after: QualityBundle, name: str) -> Iterator[Loosening]:
    """For every tool too: one with a limit of its own takes no notice of the class's."""
    tools = sorted({*before.file.ttl_by_tool, *after.file.ttl_by_tool})
    for tool in (None, *tools):
        old, new = before.lookup.limit(tool, name), after.lookup.limit(tool, name)
        if old != new and _lasts_longer(new, old):
            of = name if tool is None else f"{name} for {tool}"
            sentence = f"the time to live of {of} grows from {_told(old)} to {_told(new)}"
            paths = (f"ttl_by_class.{name}", *(() if tool is None else (f"ttl_by_tool.{tool}.{name}",)))
            yield Loosening(sentence, paths)


def _lasts_longer(one: Limit | None, other: Limit | None) -> bool:
    if one is None or one.ms is None:
        return other is not None and other.ms is not None
    return other is not None and other.ms is not None and one.ms > other.ms


def _told(limit: Limit | None) -> str:
    return "no limit" if limit is None or limit.ms is None else f"{limit.seconds:.15g} s"


def _outcomes(before: QualityBundle, after: QualityBundle, name: str) -> Iterator[Loosening]:
    """As they come out: what the matrix does not say is the class's default or the fallback."""
    for tier in TIERS:
        for dimension in DIMENSIONS:
            old = before.lookup.tables.outcome(tier, name, dimension)
            new = after.lookup.tables.outcome(tier, name, dimension)
            if milder(new, old):
                sentence = f"{name} that fails in {dimension} at {tier}: {new} where it was {old}"
                paths = (f"action_matrix.{tier}.{name}.{dimension}", f"default_by_class.{name}")
                yield Loosening(sentence, paths)


def _rollout(before: QualityBundle, after: QualityBundle, name: str) -> Iterator[Loosening]:
    if after.rollout_of(name) == "enforce":
        return
    path = (f"rollout.{name}.mode", f"rollout.{name}.since")
    if before.rollout_of(name) == "enforce":
        yield Loosening(f"{name} is no longer enforced: flag-only withholds nothing", path)
    elif after.rollout_since_ms[name] > before.rollout_since_ms[name]:
        sentence = f"flag-only of {name} starts again, and with it the wait for the alarm"
        yield Loosening(sentence, path)


def _impact(before: QualityBundle, after: QualityBundle, name: str) -> Iterator[Loosening]:
    """A lower one is promoted sooner; a class of which nothing is said has the highest."""
    old, new = before.impact_rank(name), after.impact_rank(name)
    if new < old:
        sentence = f"the impact of {name} falls from {IMPACTS[old]} to {IMPACTS[new]}"
        yield Loosening(sentence, (f"impact_by_class.{name}",))


def _readers(before: QualityBundle, after: QualityBundle, name: str) -> Iterator[Loosening]:
    old, new = before.readers(name), after.readers(name)
    if old is None or (new is not None and new <= old):
        return
    whom = "every tenant" if new is None else ", ".join(sorted(new - old))
    yield Loosening(f"{name} is opened to {whom}", (f"access.{name}.tenants",))
