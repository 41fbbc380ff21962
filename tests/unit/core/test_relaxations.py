"""Every field of a bundle says which way it is stricter, and the comparison finds what it says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from sluice.core.actions.stages import BUNDLE_FORM, load_bundle
from sluice.core.foundation.strict import StrictModel
from sluice.core.quality_bundle.quality_bundle import load_quality_bundle
from sluice.core.quality_bundle.quality_models import QualityBundleFile
from sluice.offline.bundle_source import SHIPPED, read_whole_bundle
from sluice_topics.relaxations import (
    ComparedBy,
    Direction,
    Members,
    Neutral,
    Ordered,
    PartOf,
    StricterWhen,
    Unordered,
    find_directions,
    find_relaxations,
)
from tests.unit.core.scene import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOTS: tuple[type[BaseModel], ...] = (BUNDLE_FORM.model, QualityBundleFile)
Field = tuple[type[BaseModel], str]


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)


def fields_below(
    model: type[BaseModel], above: tuple[str, ...] = ()
) -> Iterator[tuple[Field, tuple[str, ...]]]:
    """Every field of a model and, where single fields of its parts are compared, of these; with the fields
    that hold it."""
    for name, field in model.model_fields.items():
        yield (model, name), above
        if not any(isinstance(one, Neutral | Unordered) for one in find_directions(model, name)):
            for part in models_in(field.annotation):
                yield from fields_below(part, (*above, name))


def make_undirected(model: type[BaseModel]) -> list[str]:
    """The fields of which a new value would be compared with nothing."""
    return [
        f"{of.__name__}.{name}"
        for (of, name), _ in fields_below(model)
        if not find_directions(of, name) and not _is_model(of.model_fields[name].annotation)
    ]


def _is_model(annotation: Any) -> bool:
    return get_origin(annotation) is None and any(models_in(annotation))


@pytest.mark.parametrize("model", ROOTS)
def test_every_field_of_a_bundle_says_which_way_it_is_stricter(model: type[BaseModel]) -> None:
    assert make_undirected(model) == []


def test_a_forgotten_field_is_found() -> None:
    class Part(StrictModel):
        bound: int

    class Whole(StrictModel):
        part: Part
        parts: Annotated[list[Part], Members("more", "{member} is gone")]
        others: dict[str, Part]

    assert make_undirected(Whole) == ["Part.bound", "Part.bound", "Whole.others", "Part.bound"]


@pytest.mark.parametrize("model", ROOTS)
def test_what_is_part_of_another_field_names_one_that_is_compared(model: type[BaseModel]) -> None:
    compared = {
        name
        for (of, name), _ in fields_below(model)
        if any(isinstance(one, ComparedBy) for one in find_directions(of, name))
    }
    for (of, name), above in fields_below(model):
        for one in find_directions(of, name):
            if isinstance(one, PartOf):
                assert one.field in compared & set(above), (of, name)


RULE = {"id": "r", "type": "forbidden", "reason": "no", "condition": "action.tool == 'drop'"}
ASKED = {"mode": "enforce", "ask": "always", "enabled": True}
CALIBRATION = {"harmful": 1.0, "harmless": -1.0, "lean": 1.0, "intercept": 0.0}
PASSAGE = {"id": "p", "title": "P", "text": "Nothing is dropped.", "source": {"document": "d", "place": "1"}}
SEQUENCE = {"id": "s", "reason": "no", "first": "true", "then": "true", "within_ms": 9}
WHOLE: dict[str, Any] = json.loads(read_whole_bundle(SHIPPED / "default.json"))
LIBRARY = json.loads((SHIPPED / "content" / "library.json").read_bytes())["similarity"]
IN_USE = {
    "stages": ["controls", *(part.key for part in BUNDLE_FORM.parts), "tier_auth"],
    "rules": [RULE],
    "inbound": {"mode": "enforce", "judge": "always"},
    "outbound": {"mode": "enforce"},
    "causal": ASKED,
    "grader": {"rules": [{"id": "polite", "reason": "be polite", "criterion": "It is polite."}]},
    "policies": {"policies": [PASSAGE]},
    "mandate": {
        "tiers": {"T3": {"need": "counted", "outside": "ask"}},
        "agents": {"a": {"tiers": {"T3": {"need": "needed", "outside": "deny"}}}},
    },
    "sequence": {"rules": [SEQUENCE], "freeze": {"denials": 2, "within_ms": 9}},
    "similarity": {"enabled": True, "library": f"sha256:{64 * '0'}", "calibration": CALIBRATION},
    "memory": {
        **WHOLE["memory"],
        "similarity": {**LIBRARY, "enabled": True},
        "analysis": {"on_failure": "ignore"},
    },
}
QUALITY: dict[str, Any] = json.loads(read_whole_bundle(ROOT / "config" / "quality" / "default.json"))
JUDGED = {**QUALITY, "content_judge": {"judge": "always", "on_failure": "ignore"}}
FILES: tuple[BaseModel, ...] = (
    load_bundle(json.dumps({**WHOLE, **IN_USE}).encode()).file,
    load_quality_bundle(json.dumps(JUDGED).encode()).file,
)
"""Bundles in which nothing that can be switched off is."""


def instances(value: Any) -> Iterator[BaseModel]:
    if isinstance(value, BaseModel):
        yield value
        for name in type(value).model_fields:
            yield from instances(getattr(value, name))
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from instances(one)


SAMPLES = {type(one): one for file in FILES for one in instances(file)}
DIRECTED = sorted(
    {
        (of, name)
        for model in ROOTS
        for (of, name), _ in fields_below(model)
        if any(isinstance(one, Ordered | Members) for one in find_directions(of, name))
    },
    key=lambda one: (one[0].__name__, one[1]),
)


def values(of: type[BaseModel], name: str) -> st.SearchStrategy[Any]:
    """Values of a field's type. Of lists and objects of models: parts of what the sample has."""
    field, own = of.model_fields[name], getattr(SAMPLES[of], name)
    if not any(models_in(field.annotation)):
        bounds = [one for one in field.metadata if not isinstance(one, Direction)]
        return st.from_type(Annotated[(field.annotation, *bounds)] if bounds else field.annotation)  # type: ignore[arg-type]
    if isinstance(own, list):
        return st.lists(st.sampled_from(own), unique_by=id, max_size=3) if own else st.just(own)
    return st.sampled_from([own, None] if type(None) in get_args(field.annotation) else [own])


def distinct(direction: Direction, value: Any) -> Any:
    """What of a value a direction tells apart."""
    if not isinstance(direction, Members) or value is None:
        return value
    return {direction.fold(getattr(one, "id", one)) for one in value}


@pytest.mark.parametrize(("of", "name"), DIRECTED, ids=lambda one: getattr(one, "__name__", one))
def test_of_two_values_one_is_stricter(of: type[BaseModel], name: str) -> None:
    """And the same value relaxes nothing. What only differs where nothing reads it is left out."""
    sample = SAMPLES[of]
    assert not hasattr(sample, "idle_fields") or name not in sample.idle_fields()

    @settings(max_examples=25, deadline=None, database=None)
    @given(values(of, name), values(of, name))
    def hold(one: Any, other: Any) -> None:
        a, b = (sample.model_copy(update={name: value}) for value in (one, other))
        there, back = list(find_relaxations(a, b)), list(find_relaxations(b, a))
        assert list(find_relaxations(a, a)) == []
        for direction in find_directions(of, name):
            if isinstance(direction, Ordered | Members) and distinct(direction, one) != distinct(
                direction, other
            ):
                assert there or back
            if isinstance(direction, StricterWhen):
                assert not (there and back)
        assert all(relaxation.path and relaxation.sentence for relaxation in (*there, *back))

    hold()


@pytest.mark.parametrize("file", FILES)
def test_a_bundle_relaxes_nothing_of_itself(file: BaseModel) -> None:
    assert list(find_relaxations(file, file.model_copy(deep=True))) == []
