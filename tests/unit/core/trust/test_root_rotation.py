"""Mend 15: a root key is replaced without signing anything anew but the approvers' entries."""

from __future__ import annotations

import pytest

from sluice.core.registry.keys import Roots, UnusableKeyError
from sluice.core.trust.reduction import reduce_policy
from tests.unit.core.trust.scene import ALICE, BOB, ROOT_KEY, SECOND, agent, approver, key, trust_alice

NEW_ROOT = key("the next root")


def rotate(retired_at_ms: int) -> Roots:
    return Roots([NEW_ROOT.public.text], {ROOT_KEY.public.text: retired_at_ms})


def test_what_the_retired_root_vouched_for_stays_in_force() -> None:
    topics = trust_alice()
    topics.entry(agent(), ALICE)
    roots = rotate(topics.now_ms + 1)
    topics.entry(approver("alice", ALICE, 2), NEW_ROOT)
    topics.entry(agent(revision=2), ALICE)
    reduced = reduce_policy(topics.records, roots, topics.compiled)
    assert reduced.refused == ()
    assert reduced.registry.agents["reader"].key == "agent/reader@2"
    assert reduced.registry.approvers["alice"].key == "approver/alice@2"


def test_after_its_time_the_retired_root_brings_in_nobody() -> None:
    topics = trust_alice()
    roots = rotate(topics.now_ms + SECOND)
    topics.entry(approver("bob", BOB), ROOT_KEY)
    (refused,) = reduce_policy(topics.records, roots, topics.compiled).refused
    assert (refused.code, "was retired at" in refused.message) == ("key_not_allowed", True)


def test_without_the_retired_key_all_that_rests_on_it_is_gone() -> None:
    topics = trust_alice()
    topics.entry(agent(), ALICE)
    reduced = reduce_policy(topics.records, Roots([NEW_ROOT.public.text]), topics.compiled)
    assert {one.code for one in reduced.refused} == {"unknown_key"}


def test_a_retired_root_is_no_approvers_key_and_no_root_in_use() -> None:
    topics = trust_alice()
    roots = rotate(topics.now_ms + 1)
    topics.entry(approver("bob", ROOT_KEY), NEW_ROOT)
    assert [one.code for one in reduce_policy(topics.records, roots, topics.compiled).refused] == [
        "invalid_entry"
    ]
    with pytest.raises(UnusableKeyError, match="both a root key and a retired one"):
        Roots([ROOT_KEY.public.text], {ROOT_KEY.public.text: 1})
