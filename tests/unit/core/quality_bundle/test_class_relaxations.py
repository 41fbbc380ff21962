"""What a newer revision takes less strictly is said, and nothing gets milder unsaid."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.cli.policy.bundle_history import compare_files
from sluice.core.quality_bundle.severity import OUTCOMES, TIERS
from sluice.core.retrieval.dimensions import ItemFacts, apply_rollout, judge_item
from sluice_topics.relaxations import find_relaxations, list_sentences
from tests.unit.core.retrieval.quality_scene import MATRIX, NOTE, flag_only, quality_bundle
from tests.unit.core.retrieval.test_quality_properties import bundles, items, revisions

if TYPE_CHECKING:
    from sluice.cli.policy.bundle_history import MarkedChange
    from sluice.core.quality_bundle.quality_bundle import QualityBundle


def changes(before: QualityBundle, after: QualityBundle) -> tuple[MarkedChange, ...]:
    """What `sluice bundle diff` lists, by paths in the file."""
    return tuple(one._replace(path=one.path[2:]) for one in compare_files(before.file, after.file)[0])


def sentences(before: QualityBundle, after: QualityBundle) -> tuple[str, ...]:
    return list_sentences(find_relaxations(before.file, after.file))


MEMO = {
    "ttl_by_class": {NOTE: 3600, "memo": 60},
    "min_confidence_by_class": {NOTE: 0.5, "memo": 0.5},
    "provenance_required_by_class": {NOTE: True, "memo": True},
    "rollout": {NOTE: {"mode": "enforce", "since": "2026-01-01T00:00:00.000Z"}, **flag_only("memo")},
}
LATER = {NOTE: {"mode": "flag_only", "since": "2026-01-02T00:00:00.000Z"}}


def matrix(tier: str, dimension: str, outcome: str) -> dict[str, Any]:
    return {**MATRIX, tier: {NOTE: {**MATRIX[tier][NOTE], dimension: outcome}}}


RELAXED: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    (
        {},
        {"ttl_by_class": {NOTE: 3600.5}},
        "the time to live of note grows from 3600 s to 3600.5 s",
        "ttl_by_class.note",
    ),
    (
        {},
        {"ttl_by_class": {NOTE: None}},
        "the time to live of note grows from 3600 s to no limit",
        "ttl_by_class.note",
    ),
    (
        {"ttl_by_tool": {"trader": {NOTE: 60}}},
        {},
        "the time to live of note for trader grows from 60 s to 3600 s",
        "ttl_by_tool.trader.note",
    ),
    (
        {},
        {"ttl_by_tool": {"trader": {NOTE: None}}},
        "the time to live of note for trader grows from 3600 s to no limit",
        "ttl_by_tool.trader.note",
    ),
    (
        {},
        {"min_confidence_by_class": {NOTE: 0.4}},
        "the minimum confidence of note falls from 0.5 to 0.4",
        "min_confidence_by_class.note",
    ),
    (
        {},
        {"provenance_required_by_class": {NOTE: False}},
        "note no longer needs a provenance reference",
        "provenance_required_by_class.note",
    ),
    (
        {},
        {"action_matrix": matrix("high_privilege", "freshness", "downgrade")},
        "note that fails in freshness at high_privilege: downgrade where it was deny",
        "action_matrix.high_privilege.note.freshness",
    ),
    (
        {"action_matrix": {}, "default_by_class": {NOTE: "deny"}},
        {"action_matrix": {}, "default_by_class": {NOTE: "downgrade"}},
        "note that fails in freshness at sandbox: downgrade where it was deny",
        "default_by_class.note",
    ),
    (
        {},
        {"rollout": flag_only(NOTE)},
        "note is no longer enforced: flag-only withholds nothing",
        "rollout.note.mode",
    ),
    (
        {"rollout": flag_only(NOTE)},
        {"rollout": LATER},
        "flag-only of note starts again, and with it the wait for the alarm",
        "rollout.note.since",
    ),
    ({}, MEMO, "memo is a new class: its items failed before", "ttl_by_class.memo"),
    (
        MEMO,
        {},
        "memo is no longer a class: its items get the severest outcome of those left",
        "rollout.memo.mode",
    ),
    (
        {},
        {"rollout_window_days": 15},
        "flag-only may last 15 days without an alarm, not 14",
        "rollout_window_days",
    ),
    (
        {},
        {"promotion": {"min_days": 13}},
        "13 days of decisions are enough to promote, not 14",
        "promotion.min_days",
    ),
    (
        {},
        {"promotion": {"min_decisions": 99}},
        "99 decisions are enough to promote, not 100",
        "promotion.min_decisions",
    ),
    (
        {},
        {"promotion": {"max_false_deny_rate": 0.03}},
        "the false-deny rate may be 0.03, not 0.02 to promote",
        "promotion.max_false_deny_rate",
    ),
    (
        {},
        {"content_actions": {"bounded": {"strong": "flag", "definite": "deny"}}},
        "a strong finding in a body at bounded: flag where it was downgrade",
        "content_actions.bounded.strong",
    ),
    (
        {"content_judge": {"judge": "always"}},
        {"content_judge": {"judge": "in_doubt"}},
        "a model is asked about bodies in_doubt, not always",
        "content_judge.judge",
    ),
    (
        {"content_judge": {"judge": "always"}},
        {"content_judge": {"judge": "always", "strong_below": 0.6}},
        "a trust in a body counts as a strong finding below 0.6, not below 0.7",
        "content_judge.strong_below",
    ),
    (
        {"content_judge": {"judge": "always"}},
        {"content_judge": {"judge": "always", "definite_below": 0.2}},
        "a trust in a body counts as a definite finding below 0.2, not below 0.3",
        "content_judge.definite_below",
    ),
    (
        {"content_judge": {"judge": "always"}},
        {"content_judge": {"judge": "always", "on_failure": "ignore"}},
        "a body of which the model gave no answer counts as a harmless one",
        "content_judge.on_failure",
    ),
    (
        {"content_judge": {"judge": "always", "on_failure": "ignore"}},
        {"content_judge": {"judge": "always", "on_failure": "ignore", "most_items": 7}},
        "a model is asked about 7 bodies of a request, not 8",
        "content_judge.most_items",
    ),
    (
        {"access": {NOTE: {"tenants": ["acme"]}}},
        {"access": {NOTE: {"tenants": ["acme", "globex"]}}},
        "note is opened to globex",
        "access.note.tenants",
    ),
    ({"access": {NOTE: {"tenants": []}}}, {}, "note is opened to every tenant", "access.note.tenants"),
    (
        {"high_impact_categories": ["payment", "contract"]},
        {"high_impact_categories": ["payment"]},
        "a deny for contract no longer opens an escalation",
        "high_impact_categories",
    ),
    (
        {},
        {"provenance_schemes": ["http", "https", "gate-source", "gate-feed", "s3"]},
        "references may have the scheme s3",
        "provenance_schemes",
    ),
    (
        {"provenance_max_age_s": 60},
        {"provenance_max_age_s": 61},
        "a recorded resolution counts for 61 s, not for 60 s",
        "provenance_max_age_s",
    ),
    (
        {"provenance_max_age_s": 60},
        {},
        "a recorded resolution counts for ever, not for 60 s",
        "provenance_max_age_s",
    ),
    (
        {},
        {"alarm_recipient": "else@operator.example"},
        "alarms go to else@operator.example, no longer to data@operator.example",
        "alarm_recipient",
    ),
    (
        {},
        {"impact_by_class": {NOTE: "financial"}},
        "the impact of note falls from production_write to financial",
        "impact_by_class.note",
    ),
    (
        {},
        {"provenance_refresh_s": 86_401},
        "references are resolved again after 86401 s, not after 86400 s",
        "provenance_refresh_s",
    ),
]


@pytest.mark.parametrize(("before", "after", "sentence", "path"), RELAXED, ids=[one[2] for one in RELAXED])
def test_each_thing_that_got_looser_is_said_and_marked(
    before: dict[str, Any], after: dict[str, Any], sentence: str, path: str
) -> None:
    old, new = quality_bundle(**before), quality_bundle(revision=2, **after)
    assert sentence in sentences(old, new)
    relaxed = [change.path for change in changes(old, new) if change.relaxed]
    assert any(one.startswith(path) or path.startswith(one) for one in relaxed)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (after, before)
        for before, after, sentence, _ in RELAXED
        if not any(word in sentence for word in ("memo", "gate-feed", "alarms go to"))
    ],
)
def test_the_same_the_other_way_round_is_stricter(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert sentences(quality_bundle(**before), quality_bundle(revision=2, **after)) == ()


def test_a_change_that_relaxes_nothing_is_listed_and_not_marked() -> None:
    old = quality_bundle()
    new = quality_bundle(revision=2, description="One class, shorter.", ttl_by_class={NOTE: 60})
    assert [(one.path, one.before, one.after, one.relaxed) for one in changes(old, new)] == [
        ("description", "One class.", "One class, shorter.", False),
        ("revision", 1, 2, False),
        ("ttl_by_class.note", 3600, 60, False),
    ]


def test_the_same_outcome_written_in_the_matrix_or_left_to_the_default_is_no_change_of_strictness() -> None:
    written = quality_bundle()
    left_out = quality_bundle(
        action_matrix={"bounded": MATRIX["bounded"], "sandbox": MATRIX["sandbox"]},
    )
    assert sentences(written, left_out) == sentences(left_out, written) == ()


def test_a_case_that_is_put_between_others_is_one_change() -> None:
    cases = [
        {"name": name, "item": {}, "tier": "bounded", "expect": {"outcome": "flag"}}
        for name in ("a", "b", "c")
    ]
    old, new = quality_bundle(cases=[cases[0], cases[2]]), quality_bundle(cases=cases)
    assert [one.path for one in changes(old, new)] == ["cases[b]"]


@settings(max_examples=30, deadline=None)
@given(bundles())
def test_no_bundle_is_looser_than_itself(bundle: QualityBundle) -> None:
    assert sentences(bundle, bundle) == ()
    assert changes(bundle, bundle) == ()


@settings(max_examples=40, deadline=None)
@given(revisions(), st.lists(items(), min_size=6, max_size=6))
def test_an_item_that_comes_out_milder_was_announced(
    both: tuple[QualityBundle, QualityBundle], drawn: list[ItemFacts]
) -> None:
    before, after = both
    for tier, facts in itertools.product(TIERS, drawn):
        if milder_under(before, after, tier, facts):
            assert sentences(before, after)
            assert any(change.relaxed for change in changes(before, after))


def milder_under(before: QualityBundle, after: QualityBundle, tier: str, facts: ItemFacts) -> bool:
    """Whether an item comes out milder, before or after the rollout, or with a flag less."""
    one, other = judge_item(before, tier, facts), judge_item(after, tier, facts)  # type: ignore[arg-type]
    shown = [apply_rollout(b, facts.content_class, q.outcome)[0] for b, q in ((before, one), (after, other))]
    judged_milder = OUTCOMES.index(other.outcome) < OUTCOMES.index(one.outcome)
    shown_milder = OUTCOMES.index(shown[1]) < OUTCOMES.index(shown[0])
    return judged_milder or shown_milder or not set(other.flags) >= set(one.flags)
