"""Mend 1 and 9: no word of a reader makes what it is served laxer, and no misspelt class does."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.metadata.provenance import ProvenanceState
from sluice.core.quality_bundle.severity import SEVERITY, TIERS
from sluice.core.retrieval.dimensions import ItemFacts, judge
from sluice_topics.fields import find_callers_word
from sluice_topics.records import ProposedRetrieval
from tests.unit.core.retrieval.items import REQUESTS
from tests.unit.core.retrieval.scene import Scene
from tests.unit.core.retrieval.test_quality_properties import CLASSES, bundles

CLAIMS: dict[str, st.SearchStrategy[Any]] = {
    "autonomy_tier": st.sampled_from(TIERS),
    "tool_category": st.sampled_from(["payment", "search"]),
    "traceId": st.just("t-1"),
}
SCENE = Scene()


def test_the_property_speaks_of_every_field_of_the_first_two_kinds() -> None:
    found = {
        field.alias or name
        for name, field in ProposedRetrieval.model_fields.items()
        if (word := find_callers_word(field)) and word.kind != "counts"
    }
    assert found == CLAIMS.keys()


@settings(max_examples=100, deadline=None)
@given(REQUESTS, st.fixed_dictionaries({}, optional=CLAIMS))
def test_no_word_of_a_reader_makes_an_item_laxer(request: dict[str, Any], claims: dict[str, Any]) -> None:
    plain = {name: value for name, value in request.items() if name not in CLAIMS}
    without, with_it = (events(fields) for fields in (plain, {**plain, **claims}))
    for one, other in zip(without, with_it, strict=True):
        assert SEVERITY[other["outcome"]] >= SEVERITY[one["outcome"]]
        assert TIERS.index(other["autonomy_tier"]) >= TIERS.index(one["autonomy_tier"])


def events(fields: dict[str, Any]) -> list[dict[str, Any]]:
    items = fields["items"]
    rest = {name: value for name, value in fields.items() if name != "items"}
    return SCENE.read(*items, **rest).events


@settings(max_examples=200, deadline=None)
@given(
    bundles(),
    st.sampled_from(TIERS),
    st.sampled_from(CLASSES),
    st.sampled_from([0, 10**15, None]),
    st.sampled_from([0.0, 0.5, 1.0, None]),
    st.sampled_from(["verified", "missing", "unverified", "unregistered_scheme"]),
)
def test_a_class_that_nobody_named_is_never_laxer_than_a_named_one(
    bundle: Any, tier: str, name: str, age_ms: int | None, score: float | None, state: Any
) -> None:
    facts = ItemFacts(
        name,
        age_ms,
        None if age_ms is not None else "missing",
        score,
        None if score is not None else "missing",
        ProvenanceState(state, state),
        None,
    )
    lookup = bundle.lookup
    if name not in lookup.classes:
        return
    right = judge(lookup, tier, facts)
    wrong = judge(lookup, tier, facts._replace(content_class="a_misspelt_one"))
    assert SEVERITY[wrong.outcome] >= SEVERITY[right.outcome]
