"""Properties of the reduction over generated quality bundles, tenants' entries and overrides."""

from __future__ import annotations

from itertools import pairwise
from random import Random  # noqa: TC003 - hypothesis reads the annotations
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.registry.keys import SigningKey
from sluice.core.trust.compile_cache import CompileCache
from sluice.core.trust.reduction import ReducedPolicy, reduce_policy
from sluice_topics.relaxations import find_relaxations
from tests.unit.core.trust.quality_scene import (
    DAY_S,
    SIGNS,
    org,
    override,
    quality,
    quality_document,
    trust_both,
)
from tests.unit.core.trust.scene import ALICE, BOB, ROOT_KEY, ROOTS, STRANGER, Topics, approver

if TYPE_CHECKING:
    from sluice.core.trust.revisions import Accepted

REVISIONS = st.integers(1, 4)
BUNDLES = st.builds(
    lambda revision, name, days: ("quality", quality_document(revision, name=name, ttl=days * DAY_S)),
    REVISIONS,
    st.sampled_from(["q", "r"]),
    st.integers(1, 3),
)
ORGS = st.builds(
    lambda revision, name: ("entry", org(revision, **({"quality_bundle_id": name} if name else {}))),
    REVISIONS,
    st.sampled_from([None, "q", "r"]),
)
OVERRIDES = st.builds(
    lambda revision, name, active: ("entry", override("o", revision, approver_id=name, active=active)),
    REVISIONS,
    st.sampled_from(["alice", "bob"]),
    st.booleans(),
)
APPROVERS = st.builds(
    lambda revision, active: ("approver", approver("bob", BOB, revision, signs=SIGNS, active=active)),
    st.integers(2, 4),
    st.booleans(),
)
SIGNERS = st.sets(st.sampled_from([0, 1, 2]), min_size=1).map(
    lambda chosen: tuple((ALICE, BOB, STRANGER)[at] for at in sorted(chosen))
)
STEPS = st.lists(st.tuples(BUNDLES | ORGS | OVERRIDES | APPROVERS, SIGNERS), max_size=12)
Steps = list[tuple[tuple[str, dict[str, Any]], tuple[SigningKey, ...]]]


def fill_topics(steps: Steps) -> Topics:
    topics = trust_both()
    for (what, document), signers in steps:
        if what == "quality":
            quality(topics, document, *signers)
        else:
            topics.entry(document, *((ROOT_KEY,) if what == "approver" else signers))
    return topics


def describe(reduced: ReducedPolicy) -> tuple[object, ...]:
    quality_hashes = {name: one.hash for name, one in reduced.quality.items()}
    return (list(reduced.entries), [str(one) for one in reduced.refused], reduced.repeats, quality_hashes)


def select_kind(reduced: ReducedPolicy, kind: str) -> list[Accepted]:
    return [one for one in reduced.entries.values() if one.kind == kind]


@settings(max_examples=40, deadline=None)
@given(STEPS, st.randoms(use_true_random=False))
def test_the_order_in_which_records_are_read_is_no_matter(steps: Steps, order: Random) -> None:
    topics = fill_topics(steps)
    shuffled = list(topics.records)
    order.shuffle(shuffled)
    for end in range(0, len(topics.records), 3):
        reduce_policy(topics.records[:end], ROOTS, topics.compiled)
    remembered = reduce_policy(shuffled, ROOTS, topics.compiled)
    assert describe(remembered) == describe(reduce_policy(topics.records, ROOTS, CompileCache(lambda _: ())))


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_no_record_more_takes_anything_back(steps: Steps) -> None:
    topics = fill_topics(steps)
    seen: dict[str, int] = {}
    kept: list[str] = []
    for end in range(len(topics.records) + 1):
        reduced = reduce_policy(topics.records[:end], ROOTS, topics.compiled)
        revisions = {name: one.revision for name, one in reduced.quality.items()}
        assert all(revisions[name] >= revision for name, revision in seen.items())
        assert list(reduced.entries)[: len(kept)] == kept
        seen, kept = revisions, list(reduced.entries)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_nothing_gets_looser_by_the_signature_of_one(steps: Steps) -> None:
    reduced = fill_topics(steps).reduce()
    for name in ("q", "r"):
        revisions = [one for one in select_kind(reduced, "quality_bundle") if one.statement.id == name]
        for before, after in pairwise(revisions):
            assert before.quality is not None
            assert after.quality is not None
            assert len(after.approvers) > 1 or not [
                *find_relaxations(before.quality.file, after.quality.file)
            ]


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_a_tenant_is_led_to_no_other_bundle_by_the_signature_of_one(steps: Steps) -> None:
    named = None
    for one in select_kind(fill_topics(steps).reduce(), "org"):
        after = one.document["spec"].get("quality_bundle_id")
        assert after == named or len(one.approvers) > 1
        named = after


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_every_override_that_counts_was_signed_by_its_approver(steps: Steps) -> None:
    keys = {"alice": ALICE.keyid, "bob": BOB.keyid}
    for one in select_kind(fill_topics(steps).reduce(), "quality_override"):
        assert keys[one.document["spec"]["approver_id"]] in one.signers
