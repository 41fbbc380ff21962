"""Whose signature a grant for an agent in all its sessions needs, and who may end it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.trust.scene import ALICE, BOB, ROOT_KEY, Topics, approver

SCOPE = ("acme", "clerk", "refund")
SIGNS = ["agent_grant"]


def grant(revision: int = 1, **spec: Any) -> dict[str, Any]:
    """Alice's grant, for a day of the scene's time."""
    fields = {
        "tenant_id": "acme",
        "agent_id": "clerk",
        "tool": "refund",
        "uses": 8,
        "approver_id": "alice",
        "expires_at": "2025-11-22T13:00:00.000Z",
        "justification": "the refunds of the recall",
    }
    return {"kind": "agent_grant", "id": "g", "revision": revision, "spec": {**fields, **spec}}


def fill_topics(**alice: Any) -> Topics:
    """Alice and Bob may give grants; `alice`: what is different about Alice."""
    topics = Topics()
    given: dict[str, Any] = {"signs": SIGNS, "roles": ["approver"]}
    topics.entry(approver("alice", ALICE, **{**given, **alice}), ROOT_KEY)
    topics.entry(approver("bob", BOB, **given), ROOT_KEY)
    return topics


def find_in_force(topics: Topics) -> list[str]:
    """The keys of the grants in force."""
    return [one.key for one in topics.reduce().registry.agent_grants.get(SCOPE, ())]


def test_a_grant_counts_with_its_approvers_signature() -> None:
    topics = fill_topics()
    topics.entry(grant(), ALICE)
    assert find_in_force(topics) == ["agent_grant/g@1"]


@pytest.mark.parametrize(
    "alice",
    [
        {"roles": ["reviewer"]},
        {"tenants": ["globex"]},
        {"tools": ["search"]},
        {"signs": ["agent"]},
        {"active": False},
    ],
)
def test_who_may_not_approve_gives_no_grant(alice: dict[str, Any]) -> None:
    topics = fill_topics(**alice)
    topics.entry(grant(), ALICE)
    assert find_in_force(topics) == []
    assert [one.code for one in topics.reduce().refused] == ["key_not_allowed"]


def test_nobody_gives_a_grant_in_anothers_name() -> None:
    topics = fill_topics()
    topics.entry(grant(), BOB)
    assert find_in_force(topics) == []


def test_a_grant_is_for_at_most_thirty_days() -> None:
    topics = fill_topics()
    topics.entry(grant(expires_at="2026-11-22T13:00:00.000Z"), ALICE)
    assert [one.code for one in topics.reduce().refused] == ["invalid_entry"]


def test_another_approver_ends_it_and_does_not_raise_its_uses() -> None:
    topics = fill_topics()
    topics.entry(grant(), ALICE)
    topics.entry(grant(revision=2, uses=80), BOB)
    assert find_in_force(topics) == ["agent_grant/g@1"]
    topics.entry(grant(revision=3, active=False), BOB)
    assert find_in_force(topics) == []


def test_an_approver_of_other_tools_does_not_end_it() -> None:
    topics = fill_topics()
    topics.entry(approver("bob", BOB, 2, signs=SIGNS, roles=["approver"], tools=["search"]), ROOT_KEY)
    topics.entry(grant(), ALICE)
    topics.entry(grant(revision=2, active=False), BOB)
    assert find_in_force(topics) == ["agent_grant/g@1"]
