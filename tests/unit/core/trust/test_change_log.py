"""The change log of bundles: hash, approvers and rationale of every revision (seed 004, "Evidence")."""

from __future__ import annotations

from sluice.core.trust.change_log import build_change_log, list_entries_in_force
from sluice.core.trust.reduction import reduce_policy
from sluice_topics.catalog import BUNDLES, REGISTRY
from tests.unit.core.trust.quality_scene import DAY_S, quality, quality_document, quality_value, trust_both
from tests.unit.core.trust.scene import (
    ALICE,
    BOB,
    ROOTS,
    SECOND,
    START,
    STRANGER,
    Topics,
    agent,
    bundle_document,
    trust_alice,
)


def describe() -> Topics:
    topics = trust_both()
    quality(topics, quality_document(rationale="the first limits"), ALICE)
    topics.bundle(bundle_document(), BOB)
    quality(topics, quality_document(2, ttl=2 * DAY_S, rationale="prices hold longer"), ALICE)
    quality(topics, quality_document(2, ttl=2 * DAY_S, rationale="prices hold longer"), ALICE, BOB)
    return topics


def test_every_revision_that_counted_or_was_refused_is_there_in_order() -> None:
    lines = build_change_log(describe().reduce())
    assert [(one.name, one.state) for one in lines] == [
        ("q@1", "replaced"),
        ("small@1", "in force"),
        ("q@2", "refused"),
        ("q@2", "in force"),
    ]
    assert [one.at_ms for one in lines] == [START + SECOND * at for at in (3, 4, 5, 6)]


def test_a_line_says_who_signed_it_and_why_and_what_it_relaxed() -> None:
    first, _, refused, last = build_change_log(describe().reduce())
    assert (first.approvers, first.rationale, first.relaxations) == (("alice",), "the first limits", ())
    assert (last.approvers, last.rationale) == (("alice", "bob"), "prices hold longer")
    assert last.relaxations == ("the time to live of product_pricing grows from 86400 s to 172800 s",)
    assert (refused.approvers, refused.code) == (("alice",), "second_approver_missing")
    assert refused.hash == last.hash


def test_the_registry_has_one_too_and_a_root_key_has_no_name() -> None:
    """Mend 15."""
    topics = trust_alice()
    topics.entry(agent(), ALICE)
    topics.entry(agent(revision=2), ALICE)
    topics.entry(agent(revision=1, tier="T3"), ALICE)
    lines = build_change_log(topics.reduce(), None, REGISTRY)
    assert [(one.name, one.state, one.approvers) for one in lines] == [
        ("approver/alice@1", "in force", ()),
        ("agent/reader@1", "replaced", ("alice",)),
        ("agent/reader@2", "in force", ("alice",)),
        ("agent/reader@1", "refused", ("alice",)),
    ]
    assert [one.key for one in list_entries_in_force(topics.reduce(), REGISTRY)] == [
        "approver/alice@1",
        "agent/reader@2",
    ]


def test_the_registry_alone_folds_to_the_same_entries() -> None:
    """What `sluice registry` reads: the bundles have no part in it."""
    topics = describe()
    alone = [one for one in topics.records if one.topic == REGISTRY]
    both, one = topics.reduce(), reduce_policy(alone, ROOTS, topics.compiled)
    assert build_change_log(one, None, REGISTRY) == build_change_log(both, None, REGISTRY)


def test_it_can_be_had_of_one_bundle() -> None:
    assert [one.name for one in build_change_log(describe().reduce(), "small")] == ["small@1"]


def test_what_nobody_known_signed_names_no_approver() -> None:
    topics = trust_both()
    quality(topics, quality_document(), STRANGER)
    (line,) = build_change_log(topics.reduce())
    assert (line.state, line.approvers, line.code) == ("refused", (), "unknown_key")


def test_what_cannot_be_read_is_there_under_its_record_key() -> None:
    topics = trust_both()
    topics.raw(BUNDLES, b"q@1", quality_value(quality_document(), ALICE)[:-9])
    topics.raw(BUNDLES, b"q@2", None)
    topics.raw(BUNDLES, b"\xff", b"{}")
    topics.raw(BUNDLES, None, b"[]")
    assert [(one.name, one.kind, one.hash) for one in build_change_log(topics.reduce())] == [
        ("q@1", None, None),
        ("q@2", None, None),
        ("\ufffd", None, None),
        ("", None, None),
    ]
