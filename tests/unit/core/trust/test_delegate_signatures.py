"""Who must sign the entry of a gateway that signs for people: its key stands for the keys of all of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.trust.scene import ALICE, BOB, ROOT_KEY, Topics, approver

KEY, OTHER = (one.public.text for one in (ALICE, BOB))
REVOKED = {"public_key": KEY, "revoked_at": "2025-11-22T13:00:00.000Z"}


def delegate(revision: int = 1, **spec: Any) -> dict[str, Any]:
    """A gateway that signs for the approvers of two tenants."""
    fields = {"tenants": ["acme", "globex"], "keys": [{"public_key": KEY}], "roles": ["approver"], **spec}
    return {"kind": "delegate", "id": "gateway", "revision": revision, "spec": fields}


def fill_topics() -> Topics:
    """Alice and Bob may sign such entries."""
    topics = Topics()
    for name, key in (("alice", ALICE), ("bob", BOB)):
        topics.entry(approver(name, key, signs=["delegate"]), ROOT_KEY)
    return topics


def test_one_approver_cannot_let_a_gateway_sign_for_people() -> None:
    topics = fill_topics()
    alone = topics.entry(delegate(), ALICE)
    assert topics.refusals() == [(alone, "second_approver_missing")]
    topics.entry(delegate(), ALICE, BOB)
    assert topics.reduce().registry.delegates["gateway"].roles == {"approver"}


def test_one_approver_may_let_a_gateway_sign_for_agents() -> None:
    topics = fill_topics()
    topics.entry(delegate(roles=[]), ALICE)
    assert topics.refusals() == []


@pytest.mark.parametrize(
    "changed",
    [
        {"tenants": ["acme"]},
        {"roles": []},
        {"keys": [REVOKED]},
        {"agents": False},
    ],
)
def test_one_approver_may_narrow_it(changed: dict[str, Any]) -> None:
    topics = fill_topics()
    topics.entry(delegate(), ALICE, BOB)
    topics.entry(delegate(2, **changed), BOB)
    assert topics.refusals() == []


@pytest.mark.parametrize(
    "changed",
    [
        {"tenants": ["acme", "globex", "initech"]},
        {"roles": ["approver", "vp"]},
        {"keys": [{"public_key": KEY}, {"public_key": OTHER}]},
        {"keys": [{"public_key": OTHER}]},
    ],
)
def test_one_approver_may_not_widen_it(changed: dict[str, Any]) -> None:
    topics = fill_topics()
    topics.entry(delegate(), ALICE, BOB)
    alone = topics.entry(delegate(2, **changed), BOB)
    assert topics.refusals() == [(alone, "second_approver_missing")]


def test_nor_take_a_keys_revocation_back() -> None:
    topics = fill_topics()
    topics.entry(delegate(keys=[REVOKED]), ALICE, BOB)
    alone = topics.entry(delegate(2), ALICE)
    later = topics.entry(delegate(3, keys=[{**REVOKED, "revoked_at": "2025-12-22T13:00:00.000Z"}]), ALICE)
    assert topics.refusals() == [(alone, "second_approver_missing"), (later, "second_approver_missing")]
