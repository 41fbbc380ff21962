"""The erasure of a person's keys is signed, and no later entry takes it back."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.trust.erasing import (
    list_destroyed_keys,
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


def of_acme(key_ids: list[str]) -> list[tuple[str, str]]:
    return [("acme", key_id) for key_id in key_ids]


def erasure(revision: int, key_ids: list[str], stage: str, name: str = KEYS[0]) -> dict[str, Any]:
    spec = {"tenant_id": "acme", "key_ids": key_ids, "reason": "asked for", "stage": stage}
    return {"kind": "erasure", "id": f"acme/{name}", "revision": revision, "spec": spec}


def test_who_may_sign_an_erasure_erases_and_then_says_that_the_keys_are_destroyed() -> None:
    topics = one_approver()
    for entry in make_erasure_entries(topics.reduce().registry, "acme", KEYS, "asked for"):
        topics.entry(entry.model_dump(), ALICE)
    registry = topics.reduce().registry
    assert topics.refusals() == []
    assert registry.erasures.keys() == set(of_acme(KEYS))
    assert sorted(list_ordered_keys(registry)) == of_acme(KEYS)
    assert make_erasure_entries(registry, "acme", KEYS, "asked for again") == [], "it is erased already"

    assert make_destroyed_entries(registry, of_acme(KEYS[:10])) == [], "not all keys of an entry are"
    (destroyed,) = make_destroyed_entries(registry, of_acme(KEYS[:256]))
    topics.entry(destroyed.model_dump(), ALICE)
    registry = topics.reduce().registry
    assert (destroyed.id, destroyed.revision) == (f"acme/{KEYS[0]}", 2)
    assert sorted(list_ordered_keys(registry)) == of_acme(KEYS[256:])
    assert topics.refusals() == []


def test_an_erasure_that_names_another_tenants_key_waits_for_its_own_alone() -> None:
    topics = one_approver()
    topics.entry(erasure(1, KEYS[:2], "ordered"), ALICE)
    registry = topics.reduce().registry
    foreign = of_acme(KEYS[1:2])
    assert make_destroyed_entries(registry, of_acme(KEYS[:1])) == []
    assert make_destroyed_entries(registry, [], foreign) == [], "none of its own keys is destroyed"
    (destroyed,) = make_destroyed_entries(registry, of_acme(KEYS[:1]), foreign)
    topics.entry(destroyed.model_dump(), ALICE)
    registry = topics.reduce().registry
    assert topics.refusals() == []
    assert (list_ordered_keys(registry), sorted(list_destroyed_keys(registry))) == ([], of_acme(KEYS[:2]))


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
    assert set(of_acme(KEYS[:2])) <= topics.reduce().registry.erasures.keys()


def test_an_approver_of_one_tenant_erases_no_other_ones_persons() -> None:
    topics = one_approver()
    topics.entry(approver("alice", ALICE, 2, signs=["agent", "erasure"], tenants=["globex"]), ROOT_KEY)
    tried = topics.entry(erasure(1, KEYS[:1], "ordered"), ALICE)
    assert topics.refusals() == [(tried, "key_not_allowed")]
    for entry in make_erasure_entries(topics.reduce().registry, "globex", KEYS[:1], "of their key"):
        topics.entry(entry.model_dump(), ALICE)
    registry = topics.reduce().registry
    assert registry.erasures.keys() == {("globex", KEYS[0])}, (
        "it stands beside acme's, of whom it erases nothing"
    )
    (own,) = make_erasure_entries(registry, "acme", KEYS[:1], "asked for")
    assert own.id == f"acme/{KEYS[0]}"
