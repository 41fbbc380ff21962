"""The changes between two revisions of a quality bundle, and which of them are less strict.

A looser revision needs a second approver (seed 004, "Quality bundle change without policy review").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.foundation.content_judge import OFTENER
from sluice.core.quality_bundle.quality_models import IMPACTS
from sluice.core.quality_bundle.severity import DIMENSIONS, TIERS, milder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.core.quality_bundle.lookup import Limit
    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.quality_bundle.quality_models import ContentJudge, QualityBundleFile


class Loosening(NamedTuple):
    """A sentence for people, and the fields of the bundle's file that may cause it."""

    sentence: str
    paths: tuple[str, ...]


TABLES = (
    "ttl_by_class",
    "min_confidence_by_class",
    "provenance_required_by_class",
    "default_by_class",
    "rollout",
    "impact_by_class",
    "access",
)


def find_class_loosenings(before: QualityBundle, after: QualityBundle) -> Iterator[Loosening]:
    """What is looser in the classes of both revisions, in the order of their names."""
    old, new = before.lookup.classes, after.lookup.classes
    for name in sorted(old | new):
        if name not in new:
            sentence = f"{name} is no longer a class: its items get the severest outcome of those left"
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
    """Longer times to live, for every tool too: a tool's own limit replaces the class's."""
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
    """Less strict outcomes, defaults included: where the matrix has none, the class's default or the
    fallback counts."""
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
    """Lower impacts: a class of lower impact is promoted sooner; a class without an impact has the
    highest."""
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


def find_setting_loosenings(before: QualityBundle, after: QualityBundle) -> Iterator[Loosening]:
    """What is looser in the settings that belong to no class."""
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
    """A changed recipient of alarms: nothing shows whether the new one reads them, so it counts as looser."""
    old, new = before.alarm_recipient, after.alarm_recipient
    if old != new:
        yield Loosening(f"alarms go to {new}, no longer to {old}", ("alarm_recipient",))


def _schemes(before: QualityBundle, after: QualityBundle) -> Iterator[Loosening]:
    for scheme in sorted(after.schemes - before.schemes):
        yield Loosening(f"references may have the scheme {scheme}", ("provenance_schemes",))


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
    yield from _judge(before.file.content_judge, after.file.content_judge)


def _judge(before: ContentJudge, after: ContentJudge) -> Iterator[Loosening]:
    """A model that is asked less often, lower thresholds, and failures that count for nothing."""
    if OFTENER.index(after.judge) < OFTENER.index(before.judge):
        sentence = f"a model is asked about bodies {after.judge}, not {before.judge}"
        yield Loosening(sentence, ("content_judge.judge",))
    if before.judge == "off":
        return
    for name, weight in (("strong_below", "strong"), ("definite_below", "definite")):
        old, new = getattr(before, name), getattr(after, name)
        if new < old:
            sentence = f"a trust in a body counts as a {weight} finding below {new}, not below {old}"
            yield Loosening(sentence, (f"content_judge.{name}",))
    if before.on_failure == "strong":
        if after.on_failure == "ignore":
            sentence = "a body of which the model gave no answer counts as a harmless one"
            yield Loosening(sentence, ("content_judge.on_failure",))
    elif after.most_items < before.most_items:
        sentence = f"a model is asked about {after.most_items} bodies of a request, not {before.most_items}"
        yield Loosening(sentence, ("content_judge.most_items",))


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


ABSENT = "(not there)"


class BundleChange(NamedTuple):
    """A field of the file: its path, both values (ABSENT: it is not there), and whether that is looser."""

    path: str
    before: Any
    after: Any
    looser: bool


def loosening_sentences(before: QualityBundle, after: QualityBundle) -> tuple[str, ...]:
    """A sentence for each point in which `after` is less strict; empty if no item can get a milder
    outcome."""
    return tuple(one.sentence for one in _find_loosenings(before, after))


def changes(before: QualityBundle, after: QualityBundle) -> tuple[BundleChange, ...]:
    """Every field whose value differs, by its path."""
    old, new = dict(_fields(_written(before))), dict(_fields(_written(after)))
    loose = {path for one in _find_loosenings(before, after) for path in one.paths}
    pairs = ((path, old.get(path, ABSENT), new.get(path, ABSENT)) for path in sorted(old.keys() | new.keys()))
    return tuple(
        BundleChange(path, one, other, _within(path, loose)) for path, one, other in pairs if one != other
    )


def _within(path: str, loose: set[str]) -> bool:
    """Whether a path is this path or is inside it."""
    return path in loose or any(path.startswith(f"{above}.") for above in loose)


def _find_loosenings(before: QualityBundle, after: QualityBundle) -> Iterator[Loosening]:
    yield from find_class_loosenings(before, after)
    yield from find_setting_loosenings(before, after)


def _written(bundle: QualityBundle) -> dict[str, Any]:
    """The file's fields, with its cases by name: an inserted case changes no other."""
    written = bundle.file.model_dump()
    written["cases"] = {case.pop("name"): case for case in written["cases"]}
    return written


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value and not _is_case(path):
        for name, inner in value.items():
            yield from _fields(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, float) and value.is_integer():
        yield path, int(value)  # as people write it
    else:
        yield path, value


def _is_case(path: str) -> bool:
    return path.startswith("cases.")
