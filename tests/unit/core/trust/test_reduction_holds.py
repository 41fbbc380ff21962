"""Properties of the reduction over generated topics."""

from __future__ import annotations

from random import Random  # noqa: TC003 - hypothesis reads the annotations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.registry.keys import SigningKey
from sluice.core.trust.compile_cache import CompileCache
from sluice.core.trust.reduction import ReducedPolicy, reduce_policy
from tests.unit.core.trust.scene import (
    ALICE,
    BOB,
    ROOT_KEY,
    ROOTS,
    STRANGER,
    Topics,
    agent,
    approver,
    together,
    tool,
)

REVISIONS = st.integers(1, 4)
SIGNERS = st.sampled_from([ALICE, BOB, STRANGER, ROOT_KEY])
ALONE = st.builds(
    lambda revision, tier: [agent(revision=revision, tier=tier)], REVISIONS, st.sampled_from(["T1", "T2"])
)
PAIRS = st.builds(
    lambda name, agent_at, tool_at: together(name, agent(revision=agent_at), tool(revision=tool_at)),
    st.sampled_from(["c1", "c2"]),
    REVISIONS,
    REVISIONS,
)
APPROVERS = st.builds(
    lambda revision, active: [approver("bob", BOB, revision, active=active)], REVISIONS, st.booleans()
)
STEPS = st.lists(st.tuples(ALONE | PAIRS | APPROVERS, SIGNERS, st.booleans(), st.booleans()), max_size=12)

Steps = list[tuple[list[dict[str, Any]], SigningKey, bool, bool]]


def fill_topics(steps: Steps) -> Topics:
    topics = Topics()
    topics.entry(approver("alice", ALICE), ROOT_KEY)
    for entries, signer, halved, replayed in steps:
        written = [topics.entry(one, signer) for one in entries[: 1 if halved else None]]
        if replayed:
            topics.replay(written[0])
    return topics


def describe(reduced: ReducedPolicy) -> tuple[object, ...]:
    return (
        list(reduced.entries),
        [str(one) for one in reduced.refused],
        reduced.repeats,
        reduced.repeated_members,
    )


@settings(max_examples=60, deadline=None)
@given(STEPS, st.randoms(use_true_random=False))
def test_the_order_in_which_records_are_read_is_no_matter_nor_what_was_folded_before(
    steps: Steps, order: Random
) -> None:
    topics = fill_topics(steps)
    shuffled = list(topics.records)
    order.shuffle(shuffled)
    for end in range(0, len(topics.records), 3):
        reduce_policy(topics.records[:end], ROOTS, topics.compiled)
    remembered = reduce_policy(shuffled, ROOTS, topics.compiled)
    fresh = reduce_policy(topics.records, ROOTS, CompileCache(lambda _: ()))
    assert describe(remembered) == describe(fresh)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_no_record_more_takes_anything_back(steps: Steps) -> None:
    topics = fill_topics(steps)
    seen: dict[tuple[str, str], int] = {}
    kept: list[str] = []
    for end in range(len(topics.records) + 1):
        reduced = reduce_policy(topics.records[:end], ROOTS, topics.compiled)
        newest = {(one.kind, one.statement.id): one.statement.revision for one in reduced.entries.values()}
        assert all(newest[name] >= revision for name, revision in seen.items())
        assert list(reduced.entries)[: len(kept)] == kept
        seen, kept = newest, list(reduced.entries)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_every_record_counts_repeats_or_is_refused_exactly_once(steps: Steps) -> None:
    topics = fill_topics(steps)
    reduced = topics.reduce()
    counted = [one.input_record for one in reduced.entries.values()]
    sorted_out = [
        *counted,
        *reduced.repeats,
        *reduced.repeated_members,
        *(one.input_record for one in reduced.refused),
    ]
    assert sorted(one.offset for one in sorted_out) == [one.offset for one in topics.records]


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_only_the_roots_and_the_approvers_in_force_put_anything_in_force(steps: Steps) -> None:
    for one in fill_topics(steps).reduce().entries.values():
        allowed = {ROOT_KEY.keyid} if one.kind == "approver" else {ALICE.keyid, BOB.keyid}
        assert one.signers & allowed
