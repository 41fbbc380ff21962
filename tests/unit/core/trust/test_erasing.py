"""The erasure of a person's keys is signed, and no later entry takes it back."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.trust.erasing import (
    list_ordered_keys,
    make_destroyed_entries,
    make_erasure_entries,
)
from tests.unit.core.trust.scene import ALICE, BOB, ROOT_KEY, Topics, agent, approver

KEYS = [f"{number:032x}" for number in range(300)]


def one_approver() -> Topics:
    topics = Topics()
    topics.entry(approver("alice", ALICE, signs=["agent", "erasure"]), ROOT_KEY)
    topics.entry(approver("bob", BOB, signs=["agent"]), ROOT_KEY)
    topics.entry(agent(), ALICE)
    return topics


def erasure(revision: int, key_ids: list[str], stage: str, name: str = KEYS[0]) -> dict[str, Any]:
    spec = {"key_ids": key_ids, "reason": "asked for", "stage": stage}
    return {"kind": "erasure", "id": name, "revision": revision, "spec": spec}


def test_who_may_sign_an_erasure_erases_and_then_says_that_the_keys_are_destroyed() -> None:
    topics = one_approver()
    for entry in make_erasure_entries(topics.reduce().registry, KEYS, "asked for"):
        topics.entry(entry.model_dump(), ALICE)
    registry = topics.reduce().registry
    assert topics.refusals() == []
    assert registry.erasures.keys() == set(KEYS)
    assert sorted(list_ordered_keys(registry)) == KEYS
    assert make_erasure_entries(registry, KEYS, "asked for again") == [], "it is erased already"

    assert make_destroyed_entries(registry, KEYS[:10]) == [], "not all keys of an entry are"
    (destroyed,) = make_destroyed_entries(registry, KEYS[:256])
    topics.entry(destroyed.model_dump(), ALICE)
    registry = topics.reduce().registry
    assert (destroyed.id, destroyed.revision) == (KEYS[0], 2)
    assert sorted(list_ordered_keys(registry)) == KEYS[256:]
    assert topics.refusals() == []


def test_who_may_not_sign_it_erases_nothing() -> None:
    topics = one_approver()
    tried = topics.entry(erasure(1, KEYS[:1], "ordered"), BOB)
    assert topics.refusals() == [(tried, "key_not_allowed")]
    assert not topics.reduce().registry.erasures


@pytest.mark.parametrize(
    ("key_ids", "stage"),
    [(KEYS[1:2], "destroyed"), (KEYS[:1], "ordered"), (KEYS[1:], "ordered")],
    ids=["other keys", "back to ordered", "no such id"],
)
def test_no_revision_takes_an_erasure_back(key_ids: list[str], stage: str) -> None:
    topics = one_approver()
    topics.entry(erasure(1, KEYS[:2], "destroyed"), ALICE)
    topics.entry(erasure(2, key_ids, stage), ALICE)
    assert len(topics.refusals()) == 1
    assert set(KEYS[:2]) <= topics.reduce().registry.erasures.keys()
