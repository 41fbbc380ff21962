"""One person stops a tenant or everything; to let it go on again takes two."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.trust.freezing import (
    FreezeSubject,
    make_asking_entries,
    make_freeze_entry,
    make_thaw_entries,
)
from tests.unit.core.trust.scene import ALICE, BOB, ROOT_KEY, Topics, agent, approver, key

WIDE = [FreezeSubject("all", "all"), FreezeSubject("tenant", "acme")]
NARROW = [FreezeSubject("agent", "reader"), FreezeSubject("session", "s-1")]
ACCESSORY = key("accessory")


def freeze(topics: Topics, subject: FreezeSubject) -> None:
    """What Alice alone stops."""
    topics.entry(make_freeze_entry(topics.reduce(), subject, "incident 7").model_dump(), ALICE)


def two_approvers() -> Topics:
    topics = Topics()
    for name, of in (("alice", ALICE), ("bob", BOB)):
        topics.entry(approver(name, of, signs=["agent", "freeze", "org"]), ROOT_KEY)
    topics.entry(agent(), ALICE)
    return topics


def list_stages(topics: Topics) -> list[str]:
    return [found.stage for found in topics.reduce().registry.find_freezes("acme", "reader", "s-1")]


@pytest.mark.parametrize("subject", WIDE, ids=str)
def test_a_wide_freeze_ends_by_two_people_only(subject: FreezeSubject) -> None:
    topics = two_approvers()
    freeze(topics, subject)
    (thaw,) = make_thaw_entries(topics.reduce(), subject, "over")
    alone = topics.entry(thaw.model_dump(), ALICE)
    assert topics.refusals() == [(alone, "second_approver_missing")]
    assert list_stages(topics) == ["stop"]
    topics.entry(thaw.model_dump(), ALICE, BOB)
    assert list_stages(topics) == []


@pytest.mark.parametrize("subject", NARROW, ids=str)
def test_a_narrow_freeze_ends_by_one(subject: FreezeSubject) -> None:
    topics = two_approvers()
    freeze(topics, subject)
    topics.entry(make_thaw_entries(topics.reduce(), subject, "over")[0].model_dump(), BOB)
    assert (topics.refusals(), list_stages(topics)) == ([], [])


def test_two_keys_of_one_person_are_one_person() -> None:
    topics = two_approvers()
    freeze(topics, WIDE[1])
    topics.entry(approver("alice", ACCESSORY, 2, signs=["agent", "freeze"]), ROOT_KEY)
    (thaw,) = make_thaw_entries(topics.reduce(), WIDE[1], "over")
    tried = topics.entry(thaw.model_dump(), ALICE, ACCESSORY)
    assert topics.refusals() == [(tried, "second_approver_missing")]


@pytest.mark.parametrize("subject", WIDE, ids=str)
def test_it_recovers_by_stages_and_each_step_down_takes_two(subject: FreezeSubject) -> None:
    topics = two_approvers()
    freeze(topics, subject)
    (asks,) = make_asking_entries(topics.reduce(), subject, "recovering")
    alone = topics.entry(asks.model_dump(), BOB)
    assert topics.refusals() == [(alone, "second_approver_missing")]
    topics.entry(asks.model_dump(), ALICE, BOB)
    assert list_stages(topics) == ["ask"]
    (thaw,) = make_thaw_entries(topics.reduce(), subject, "over")
    again = topics.entry(thaw.model_dump(), BOB)
    assert topics.refusals()[-1] == (again, "second_approver_missing")
    topics.entry(thaw.model_dump(), ALICE, BOB)
    assert list_stages(topics) == []


def test_one_person_stops_again_what_only_asks() -> None:
    topics = two_approvers()
    freeze(topics, WIDE[1])
    topics.entry(make_asking_entries(topics.reduce(), WIDE[1], "recovering")[0].model_dump(), ALICE, BOB)
    freeze(topics, WIDE[1])
    assert (topics.refusals(), list_stages(topics)) == ([], ["stop"])


@pytest.mark.parametrize("spec", [{"subject": "agent", "subject_id": "reader"}, {"subject_id": "globex"}])
def test_another_subject_in_its_place_ends_it_too(spec: dict[str, Any]) -> None:
    topics = two_approvers()
    freeze(topics, WIDE[1])
    (entry,) = (make_freeze_entry(topics.reduce(), WIDE[1], "moved").model_dump(),)
    tried = topics.entry({**entry, "spec": {**entry["spec"], **spec}}, ALICE)
    assert topics.refusals() == [(tried, "second_approver_missing")]


def test_one_person_takes_no_agent_out_of_a_frozen_tenant() -> None:
    topics = two_approvers()
    topics.entry(agent(revision=2, tenant_id="globex"), ALICE)
    topics.entry(agent(revision=3, tenant_id="acme"), ALICE)
    freeze(topics, WIDE[1])
    tried = topics.entry(agent(revision=4, tenant_id="globex"), ALICE)
    assert topics.refusals() == [(tried, "second_approver_missing")]
    topics.entry(agent(revision=4, tenant_id="globex"), ALICE, BOB)
    assert topics.reduce().registry.agents["reader"].tenant == "globex"


def test_one_person_may_change_the_reason_of_a_wide_freeze() -> None:
    topics = two_approvers()
    freeze(topics, WIDE[0])
    topics.entry(make_freeze_entry(topics.reduce(), WIDE[0], "incident 8").model_dump(), BOB)
    (found,) = topics.reduce().registry.find_freezes("acme", "reader", "s-1")
    assert (topics.refusals(), found.reason) == ([], "incident 8")


@pytest.mark.parametrize("subject", WIDE, ids=str)
def test_one_person_begins_no_tenant_in_shadow_that_is_frozen(subject: FreezeSubject) -> None:
    topics = two_approvers()
    freeze(topics, subject)
    org = {"kind": "org", "id": "acme", "revision": 1, "spec": {"enforcement": "shadow"}}
    tried = topics.entry(org, ALICE)
    assert topics.refusals() == [(tried, "second_approver_missing")]
    topics.entry({**org, "spec": {"enforcement": "enforce"}}, ALICE)
    assert topics.reduce().registry.orgs["acme"].enforcement == "enforce"


@pytest.mark.parametrize("active", [True, False])
def test_nobody_uses_up_the_revisions_of_a_freeze(active: bool) -> None:
    topics = two_approvers()
    entry = make_freeze_entry(topics.reduce(), WIDE[0], "the last one").model_dump()
    entry["spec"]["active"] = active
    tried = topics.entry({**entry, "revision": 2**53 - 1}, ALICE)
    assert topics.refusals() == [(tried, "invalid_entry")]
    freeze(topics, WIDE[0])
    topics.entry(make_thaw_entries(topics.reduce(), WIDE[0], "over")[0].model_dump(), ALICE, BOB)
    freeze(topics, WIDE[0])
    assert list_stages(topics) == ["stop"]


def test_revisions_may_be_dates_and_seconds() -> None:
    topics = two_approvers()
    for revision in (20_261_127, 1_795_255_200, 1_795_255_201):
        topics.entry(agent(revision=revision), ALICE)
    assert topics.refusals() == []


OF_GLOBEX, OF_GLOBEX_TOO = key("globex"), key("globex too")


def with_approvers_of_globex() -> Topics:
    """Two more approvers, who decide for another tenant alone."""
    topics = two_approvers()
    for name, of in (("gina", OF_GLOBEX), ("gus", OF_GLOBEX_TOO)):
        topics.entry(approver(name, of, signs=["freeze"], tenants=["globex"]), ROOT_KEY)
    return topics


@pytest.mark.parametrize("subject", [*WIDE, *NARROW], ids=str)
@pytest.mark.parametrize("make", [make_thaw_entries, make_asking_entries])
def test_approvers_of_another_tenant_let_nothing_go_on(subject: FreezeSubject, make: Any) -> None:
    topics = with_approvers_of_globex()
    freeze(topics, subject)
    (entry,) = make(topics.reduce(), subject, "over")
    tried = topics.entry(entry.model_dump(), OF_GLOBEX, OF_GLOBEX_TOO)
    assert topics.refusals() == [(tried, "key_not_allowed")]
    assert list_stages(topics) == ["stop"]


def test_an_approver_of_another_tenant_counts_as_no_second_person() -> None:
    topics = with_approvers_of_globex()
    freeze(topics, WIDE[1])
    (thaw,) = make_thaw_entries(topics.reduce(), WIDE[1], "over")
    tried = topics.entry(thaw.model_dump(), ALICE, OF_GLOBEX)
    assert topics.refusals() == [(tried, "second_approver_missing")]
    topics.entry(thaw.model_dump(), ALICE, BOB, OF_GLOBEX)
    assert list_stages(topics) == []


def test_an_approver_of_another_tenant_puts_no_other_freeze_in_its_place() -> None:
    topics = with_approvers_of_globex()
    freeze(topics, NARROW[1])
    entry = make_freeze_entry(topics.reduce(), NARROW[1], "of ours").model_dump()
    for more in ({"tenant_id": "globex"}, {"subject": "agent", "subject_id": "other"}):
        topics.entry({**entry, "spec": {**entry["spec"], **more}}, OF_GLOBEX)
    assert [code for _, code in topics.refusals()] == ["key_not_allowed"] * 2
    assert list_stages(topics) == ["stop"]


def test_an_approver_of_a_tenant_stops_anything_and_lets_its_own_go_on() -> None:
    topics = with_approvers_of_globex()
    topics.entry(agent("theirs", tenant_id="globex"), ALICE)
    for subject in (FreezeSubject("agent", "theirs"), FreezeSubject("tenant", "globex")):
        topics.entry(make_freeze_entry(topics.reduce(), subject, "why").model_dump(), OF_GLOBEX)
        (thaw,) = make_thaw_entries(topics.reduce(), subject, "over")
        topics.entry(thaw.model_dump(), OF_GLOBEX, OF_GLOBEX_TOO)
    assert (topics.refusals(), dict(topics.reduce().registry.freezes)) == ([], {})
    topics.entry(make_freeze_entry(topics.reduce(), WIDE[0], "why").model_dump(), OF_GLOBEX)
    assert list_stages(topics) == ["stop"]
