"""What holds of the quality gate whatever the bundle and the item."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.metadata.moments import MAX_TIME_CHARACTERS, parse_instant, parse_time
from sluice.core.metadata.provenance import ProvenanceState, ProvenanceStatus
from sluice.core.quality_bundle.severity import DIMENSIONS, OUTCOMES, TIERS
from sluice.core.retrieval.dimensions import ItemFacts, apply_rollout, judge_item
from tests.unit.core.retrieval.quality_scene import SINCE, quality_bundle

if TYPE_CHECKING:
    from sluice.core.quality_bundle.quality_bundle import QualityBundle

CLASSES = ("note", "memo")
TOOLS = ("trader", "reader")
PARTS: st.SearchStrategy[ProvenanceStatus] = st.sampled_from(get_args(ProvenanceStatus))
NEARLY_A_TIME = (
    r"[0-9]{4}-[01][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,6})?([Zz]|\+02:00)?"
)
TIMES = st.sampled_from([1, 2, 3.5, None])
OUTCOME = st.sampled_from(OUTCOMES)


NAMES = st.sampled_from([CLASSES, CLASSES[:1], CLASSES[1:]])


@st.composite
def tables(draw: st.DrawFn, names: tuple[str, ...]) -> dict[str, Any]:
    """In flag-only, where anything may get through; a few values, so that boundaries are met."""

    def group_by_class(values: st.SearchStrategy[object]) -> dict[str, object]:
        return {name: draw(values) for name in names}

    def some(values: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
        return st.dictionaries(st.sampled_from(names), values)

    return {
        "ttl_by_class": group_by_class(TIMES),
        "ttl_by_tool": draw(st.dictionaries(st.sampled_from(TOOLS), some(TIMES))),
        "min_confidence_by_class": group_by_class(st.sampled_from([0, 0.5, 1])),
        "provenance_required_by_class": group_by_class(st.booleans()),
        "default_by_class": draw(some(OUTCOME)),
        "action_matrix": draw(
            st.dictionaries(
                st.sampled_from(TIERS), some(st.dictionaries(st.sampled_from(DIMENSIONS), OUTCOME))
            )
        ),
        "rollout": {name: {"mode": "flag_only", "since": SINCE} for name in names},
    }


@st.composite
def bundles(draw: st.DrawFn) -> QualityBundle:
    """Any of them, loaded."""
    return quality_bundle(**draw(tables(draw(NAMES))))


@st.composite
def revisions(draw: st.DrawFn) -> tuple[QualityBundle, QualityBundle]:
    """Two of which the second has some of its tables from elsewhere, or is another altogether."""
    names = draw(NAMES)
    before, other = draw(tables(names)), draw(tables(draw(NAMES)))
    if names == tuple(other["rollout"]):
        taken = draw(st.sets(st.sampled_from(sorted(before)), min_size=1))
        other = {**before, **{table: other[table] for table in taken}}
    return quality_bundle(**before), quality_bundle(revision=2, **other)


AGES = st.sampled_from([0, 999, 1000, 1001, 2000, 3500, 3501, 10**9])
SCORES = st.sampled_from([0, 0.49, 0.5, 0.51, 1])


@st.composite
def items(draw: st.DrawFn) -> ItemFacts:
    problem = draw(st.sampled_from([None, None, None, "missing"]))
    no_score = draw(st.sampled_from([None, None, None, "malformed: not a number"]))
    return ItemFacts(
        draw(st.sampled_from([*CLASSES, "gossip", None])),
        None if problem else draw(AGES),
        problem,
        None if no_score else draw(SCORES),
        no_score,
        ProvenanceState(draw(PARTS), "as drawn"),
        draw(st.sampled_from([*TOOLS, None])),
    )


@settings(max_examples=40, deadline=None)
@given(bundles(), st.sampled_from(TIERS), items())
def test_the_most_severe_of_the_dimensions_wins_and_none_hides_another(
    bundle: QualityBundle, tier: str, facts: ItemFacts
) -> None:
    found = judge_item(bundle, tier, facts)  # type: ignore[arg-type]
    failed = [one for one in found.dimensions if not one["passed"]]
    assert [one["dimension"] for one in found.dimensions] == list(DIMENSIONS)
    assert OUTCOMES.index(found.outcome) == max((OUTCOMES.index(one["outcome"]) for one in failed), default=0)
    assert len(found.flags) == len(found.codes) == len(failed)
    assert (found.reason is None) is (found.outcome == "pass")
    assert all(one["detail"] for one in found.dimensions)
    assert all(one["outcome"] == "pass" for one in found.dimensions if one["passed"])


@settings(max_examples=40, deadline=None)
@given(bundles(), st.sampled_from(TIERS), items(), AGES, SCORES)
def test_an_older_or_a_less_sure_item_never_comes_out_milder(
    bundle: QualityBundle, tier: str, facts: ItemFacts, age: int, score: float
) -> None:
    if facts.age_ms is None or facts.confidence is None:
        return
    worse = facts._replace(age_ms=max(age, facts.age_ms), confidence=min(score, facts.confidence))
    one, other = judge_item(bundle, tier, facts), judge_item(bundle, tier, worse)  # type: ignore[arg-type]
    assert OUTCOMES.index(other.outcome) >= OUTCOMES.index(one.outcome)
    assert set(other.flags) >= set(one.flags)


@settings(max_examples=40, deadline=None)
@given(bundles(), st.sampled_from(TIERS), items())
def test_nothing_missing_or_malformed_comes_out_milder_than_what_is_there(
    bundle: QualityBundle, tier: str, facts: ItemFacts
) -> None:
    for worse in (
        facts._replace(age_ms=None, age_problem="missing"),
        facts._replace(confidence=None, confidence_problem="missing"),
        facts._replace(age_ms=-1, age_problem="in the future"),
    ):
        one, other = judge_item(bundle, tier, facts), judge_item(bundle, tier, worse)  # type: ignore[arg-type]
        assert OUTCOMES.index(other.outcome) >= OUTCOMES.index(one.outcome)


@settings(max_examples=40, deadline=None)
@given(bundles(), OUTCOME, st.sampled_from([*CLASSES, "gossip", None]))
def test_flag_only_withholds_nothing_and_remembers_what_it_hides(
    bundle: QualityBundle, outcome: str, name: str | None
) -> None:
    shown, hidden = apply_rollout(bundle, name, outcome)  # type: ignore[arg-type]
    if bundle.rollout_of(name) == "enforce":
        assert (shown, hidden) == (outcome, None)
    else:
        assert (shown == "pass") is (outcome == "pass")
        assert shown in ("pass", "flag")
        assert hidden == outcome


@given(
    st.from_regex(NEARLY_A_TIME, fullmatch=True)
    | st.datetimes().map(lambda at: at.isoformat(timespec="milliseconds") + "Z")
    | st.text(max_size=30)
)
def test_a_time_is_what_rfc_3339_says(text: str) -> None:
    assert parse_time(text) == parse_instant(text)


def test_a_time_of_endless_fraction_is_none() -> None:
    start = "2026-01-01T00:00:00."
    longest = start + "0" * (MAX_TIME_CHARACTERS - len(start) - 1) + "Z"
    assert parse_time(longest) is not None
    assert parse_time(longest.replace("Z", "0Z")) is None
