"""Where the tables by content class of a quality bundle are less strict than in an older one.

The tables join: an outcome is in the matrix, or the class's default, or the fallback; a tool's time to live
replaces the class's. So they are compared as they are looked up, not field by field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sluice.core.foundation.clock import read_milliseconds
from sluice.core.quality_bundle.severity import DIMENSIONS, IMPACTS, TIERS, is_milder
from sluice_topics.relaxations import Relaxation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sluice.core.quality_bundle.lookup import ClassLimit, Lookup, Tables

TABLES = (
    "ttl_by_class",
    "min_confidence_by_class",
    "provenance_required_by_class",
    "default_by_class",
    "rollout",
    "impact_by_class",
    "access",
)


class ByClass(NamedTuple):
    """What a bundle says of its classes: the tables for look-up; of a class whether it is enforced and since
    when, its impact, and the tenants that may read it, where not every one may."""

    lookup: Lookup
    rollout: Mapping[str, tuple[str, str]]
    impacts: Mapping[str, str]
    tenants: Mapping[str, Sequence[str]]

    @property
    def tables(self) -> Tables:
        """The tables as written."""
        return self.lookup.tables

    def impact(self, name: str) -> str:
        """A class without an impact has the highest."""
        return self.impacts.get(name, IMPACTS[-1])


def find_class_relaxations(old: ByClass, new: ByClass) -> Iterator[Relaxation]:
    """What is less strict in the classes of both revisions, in the order of their names."""
    for name in sorted(old.lookup.classes | new.lookup.classes):
        if name not in new.lookup.classes:
            sentence = f"{name} is no longer a class: its items get the severest outcome of those left"
            yield from _everywhere(sentence, name)
        elif name not in old.lookup.classes:
            yield from _everywhere(f"{name} is a new class: its items failed before", name)
        else:
            for compare in (_limits, _times, _outcomes, _rollout, _impact):
                yield from compare(old, new, name)
        yield from _readers(old, new, name)
    if old.tenants and not new.tenants:
        yield Relaxation("classes that nobody knows are no longer closed", "access")


def _everywhere(sentence: str, name: str) -> Iterator[Relaxation]:
    matrix = (f"action_matrix.{tier}.{name}.{dimension}" for tier in TIERS for dimension in DIMENSIONS)
    for path in (*(f"{table}.{name}" for table in TABLES), *matrix):
        yield Relaxation(sentence, path)


def _limits(before: ByClass, after: ByClass, name: str) -> Iterator[Relaxation]:
    old, new = (bundle.tables.min_confidence_by_class[name] for bundle in (before, after))
    if new < old:
        sentence = f"the minimum confidence of {name} falls from {old} to {new}"
        yield Relaxation(sentence, f"min_confidence_by_class.{name}", old, new)
    required = [bundle.tables.provenance_required_by_class[name] for bundle in (before, after)]
    if required == [True, False]:
        sentence = f"{name} no longer needs a provenance reference"
        yield Relaxation(sentence, f"provenance_required_by_class.{name}", *required)


def _times(before: ByClass, after: ByClass, name: str) -> Iterator[Relaxation]:
    """Longer times to live, for every tool too: a tool's own limit replaces the class's."""
    tools = sorted({*before.tables.ttl_by_tool, *after.tables.ttl_by_tool})
    for tool in (None, *tools):
        old, new = before.lookup.limit(tool, name), after.lookup.limit(tool, name)
        if old != new and _lasts_longer(new, old):
            of = name if tool is None else f"{name} for {tool}"
            sentence = f"the time to live of {of} grows from {_words_of(old)} to {_words_of(new)}"
            of_tool = () if tool is None else (f"ttl_by_tool.{tool}.{name}",)
            for path in (f"ttl_by_class.{name}", *of_tool):
                yield Relaxation(sentence, path, _words_of(old), _words_of(new))


def _lasts_longer(one: ClassLimit | None, other: ClassLimit | None) -> bool:
    if one is None or one.ms is None:
        return other is not None and other.ms is not None
    return other is not None and other.ms is not None and one.ms > other.ms


def _words_of(limit: ClassLimit | None) -> str:
    return "no limit" if limit is None or limit.ms is None else f"{limit.seconds:.15g} s"


def _outcomes(before: ByClass, after: ByClass, name: str) -> Iterator[Relaxation]:
    """Less strict outcomes, defaults included."""
    for tier in TIERS:
        for dimension in DIMENSIONS:
            old, new = (bundle.tables.outcome(tier, name, dimension) for bundle in (before, after))
            if is_milder(new, old):
                sentence = f"{name} that fails in {dimension} at {tier}: {new} where it was {old}"
                for path in (f"action_matrix.{tier}.{name}.{dimension}", f"default_by_class.{name}"):
                    yield Relaxation(sentence, path, old, new)


def _rollout(before: ByClass, after: ByClass, name: str) -> Iterator[Relaxation]:
    (old, began), (new, begins) = before.rollout[name], after.rollout[name]
    if new == "enforce":
        return
    if old == "enforce":
        sentence = f"{name} is no longer enforced: flag-only withholds nothing"
        yield Relaxation(sentence, f"rollout.{name}.mode", old, new)
        yield Relaxation(sentence, f"rollout.{name}.since", began, begins)
    elif read_milliseconds(begins) > read_milliseconds(began):
        sentence = f"flag-only of {name} starts again, and with it the wait for the alarm"
        yield Relaxation(sentence, f"rollout.{name}.since", began, begins)


def _impact(before: ByClass, after: ByClass, name: str) -> Iterator[Relaxation]:
    """Lower impacts: a class of lower impact is promoted sooner."""
    old, new = before.impact(name), after.impact(name)
    if IMPACTS.index(new) < IMPACTS.index(old):
        sentence = f"the impact of {name} falls from {old} to {new}"
        yield Relaxation(sentence, f"impact_by_class.{name}", old, new)


def _readers(before: ByClass, after: ByClass, name: str) -> Iterator[Relaxation]:
    old, new = before.tenants.get(name), after.tenants.get(name)
    if old is None or (new is not None and set(new) <= set(old)):
        return
    whom = "every tenant" if new is None else ", ".join(sorted(set(new) - set(old)))
    yield Relaxation(f"{name} is opened to {whom}", f"access.{name}.tenants", old, new)
