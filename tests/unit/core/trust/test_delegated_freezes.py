"""Mend 22.20: a gateway may freeze for a person who logged in to it, and nothing that it signs lifts a
freeze."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.registry.freezes import FreezeBy
from sluice.core.trust.freezing import (
    FreezeFor,
    FreezeSubject,
    make_freeze_entry,
    make_thaw_entries,
    read_subject,
)
from tests.unit.core.trust.scene import ALICE, BOB, ROOT_KEY, Topics, agent, approver, key

if TYPE_CHECKING:
    from sluice.core.registry.keys import SigningKey

GATEWAY, OTHER = key("gateway"), key("other gateway")
BY = {"approver_id": "alice", "delegate_id": "gateway"}
OTHERS_AGENT = "of-others"


def freeze(name: str = "agent/reader", revision: int = 1, **spec: Any) -> dict[str, Any]:
    """A freeze that the gateway signs for Alice."""
    fields = {"subject": "agent", "subject_id": "reader", "reason": "it sends money twice", "by": BY, **spec}
    return {"kind": "freeze", "id": name, "revision": revision, "spec": fields}


def fill_topics(**changed: Any) -> Topics:
    """Two approvers have let a gateway sign for people of a tenant; Alice may answer there."""
    topics = Topics()
    signs = ["delegate", "agent", "freeze"]
    topics.entry(approver("alice", ALICE, signs=signs, roles=["approver"], tenants=["acme"]), ROOT_KEY)
    topics.entry(approver("bob", BOB, signs=signs, roles=["reviewer"]), ROOT_KEY)
    spec = {"tenants": ["acme"], "keys": [{"public_key": GATEWAY.public.text}], "roles": ["approver"]}
    entry = {"kind": "delegate", "id": "gateway", "revision": 1, "spec": {**spec, **changed}}
    topics.entry(entry, ALICE, BOB)
    topics.entry(agent(), ALICE)
    topics.entry(agent(OTHERS_AGENT, tenant_id="globex"), ALICE)
    return topics


def test_an_agent_and_a_session_are_frozen_for_a_person() -> None:
    topics = fill_topics()
    topics.entry(freeze(), GATEWAY)
    spec: dict[str, Any] = {"subject": "session", "subject_id": "s-1", "tenant_id": "acme"}
    topics.entry(freeze("session/s-1", **spec), GATEWAY)
    registry = topics.reduce().registry
    assert topics.refusals() == []
    assert [one.by for one in registry.find_freezes("acme", "reader", "s")] == ["alice"]
    assert [one.by for one in registry.find_freezes("acme", "x", "s-1")] == ["alice"]
    assert registry.find_freezes("globex", "x", "s-1") == ()


@pytest.mark.parametrize(
    "spec",
    [
        {"active": False},
        {"by": None},
        {"by": {**BY, "approver_id": "bob"}},
        {"by": {**BY, "approver_id": "nobody"}},
        {"by": {**BY, "delegate_id": "another"}},
        {"subject_id": OTHERS_AGENT},
        {"subject_id": "nobody"},
        {"subject": "session", "subject_id": "s-1"},
        {"subject": "session", "subject_id": "s-1", "tenant_id": "globex"},
        {"subject": "tenant", "subject_id": "acme"},
        {"subject": "all", "subject_id": "all"},
    ],
)
def test_it_freezes_no_more_than_the_person_may_and_thaws_nothing(spec: dict[str, Any]) -> None:
    topics = fill_topics()
    tried = topics.entry(freeze(**spec), GATEWAY)
    assert topics.refusals() == [(tried, "key_not_allowed")]
    assert not topics.reduce().registry.freezes


def test_it_neither_narrows_nor_outbids_a_freeze_in_force() -> None:
    """Under the id of a wider freeze a narrower one would lift it; the last revision could not be lifted."""
    topics = fill_topics()
    wide: dict[str, Any] = {"subject": "all", "subject_id": "all", "by": None}
    topics.entry(freeze("all", **wide), ALICE)
    narrower = topics.entry(freeze("all", 2), GATEWAY)
    last = topics.entry(freeze("agent/reader", 7), GATEWAY)
    assert topics.refusals() == [(narrower, "key_not_allowed"), (last, "key_not_allowed")]
    assert topics.reduce().registry.find_freezes("globex", "anybody", "s")


def test_an_approver_lifts_it_and_it_may_come_again() -> None:
    topics = fill_topics()
    topics.entry(freeze(), GATEWAY)
    again = topics.entry(freeze(revision=2, reason="once more"), GATEWAY)
    topics.entry(freeze(revision=3, active=False, by=None), ALICE)
    assert not topics.reduce().registry.freezes
    topics.entry(freeze(revision=4), GATEWAY)
    assert topics.refusals() == [(again, "key_not_allowed")]
    assert topics.reduce().registry.freezes


@pytest.mark.parametrize(
    "changed",
    [
        {"roles": ["reviewer"]},
        {"tenants": ["globex"]},
        {"keys": [{"public_key": GATEWAY.public.text, "revoked_at": "2025-01-01T00:00:00.000Z"}]},
    ],
)
def test_a_delegate_freezes_within_its_own_bounds(changed: dict[str, Any]) -> None:
    topics = fill_topics(**changed)
    tried = topics.entry(freeze(), GATEWAY)
    assert topics.refusals() == [(tried, "key_not_allowed")]


def test_its_key_signs_no_other_entry_and_a_strangers_signs_none() -> None:
    topics = fill_topics()
    tried = topics.entry(agent(revision=2), GATEWAY)
    unknown = topics.entry(freeze(), OTHER)
    assert topics.refusals() == [(tried, "key_not_allowed"), (unknown, "unknown_key")]


@pytest.mark.parametrize("signers", [(ALICE,), (BOB, GATEWAY)], ids=["herself", "another and the gateway"])
@pytest.mark.parametrize("active", [True, False])
def test_what_an_approver_signs_names_nobody_for_whom_it_was_signed(
    signers: tuple[SigningKey, ...], active: bool
) -> None:
    """Mend 22.8: otherwise one approver freezes or thaws in another's name."""
    topics = fill_topics()
    tried = topics.entry(freeze(active=active), *signers)
    assert topics.refusals() == [(tried, "invalid_entry")]
    topics.entry(freeze(by=None, active=active), *signers)
    assert len(topics.refusals()) == 1


LONGEST = "s" * 256


@pytest.mark.parametrize("session", ["s", LONGEST])
def test_a_session_of_any_name_is_frozen_for_a_tenant_and_no_other_freeze_takes_its_place(
    session: str,
) -> None:
    """Mend 22.3: "session/s of acme" was the id of two freezes, and 256 characters did not fit into it."""
    topics = fill_topics()
    person, subject = FreezeFor(FreezeBy(**BY), "acme"), FreezeSubject("session", session)
    delegated = make_freeze_entry(topics.reduce(), subject, "it sends money twice", person)
    topics.entry(delegated.model_dump(), GATEWAY)
    for name in (f"{session[:200]} of acme", delegated.id[-64:]):
        other = FreezeSubject("session", name)
        topics.entry(make_freeze_entry(topics.reduce(), other, "another").model_dump(), ALICE)
        topics.entry(make_thaw_entries(topics.reduce(), other, "over")[0].model_dump(), BOB)
    assert topics.refusals() == []
    assert [one.by for one in topics.reduce().registry.find_freezes("acme", "x", session)] == ["alice"]
    assert read_subject(delegated.id) is None
    (ends,) = make_thaw_entries(topics.reduce(), subject, "over")
    topics.entry(ends.model_dump(), ALICE)
    assert not topics.reduce().registry.freezes


@pytest.mark.parametrize("kind", ["agent", "session", "tenant"])
def test_a_subject_of_any_name_is_frozen_by_an_approver(kind: Any) -> None:
    """Mend 22.3: a name of 256 characters leaves no room for its kind in an id."""
    topics = fill_topics()
    topics.entry(make_freeze_entry(topics.reduce(), FreezeSubject(kind, LONGEST), "why").model_dump(), ALICE)
    assert topics.refusals() == []
    assert len(topics.reduce().registry.freezes) == 1


def test_it_stops_again_what_only_asks() -> None:
    """A recovery that goes wrong is stopped where people answer, by whoever answers."""
    topics = fill_topics()
    topics.entry(freeze(by=None), ALICE)
    topics.entry(freeze(revision=2, by=None, stage="ask"), ALICE)
    other = topics.entry(freeze(revision=3, subject="session", subject_id="s", tenant_id="acme"), GATEWAY)
    topics.entry(freeze(revision=3), GATEWAY)
    assert topics.refusals() == [(other, "key_not_allowed")]
    assert [one.stage for one in topics.reduce().registry.find_freezes("acme", "reader", "s")] == ["stop"]
