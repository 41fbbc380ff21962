"""Entries that belong together take effect together, of pinned content, or not at all."""

from __future__ import annotations

import pytest

from sluice.core.foundation.canonical import digest
from tests.unit.core.trust.scene import (
    ALICE,
    BOB,
    ROOT_KEY,
    agent,
    approver,
    together,
    tool,
    trust_alice,
)


def test_half_a_change_is_not_in_force() -> None:
    topics = trust_alice()
    topics.entry(agent(), ALICE)
    first, second = together("c1", agent(revision=2, tier="T4"), tool())
    waits = topics.entry(first, ALICE)
    folded = topics.reduce()
    assert topics.refusals() == [(waits, "incomplete_change")]
    assert "tool/search@1" in folded.refused[0].message
    assert not folded.refused[0].final
    assert folded.registry.agents["reader"].tier == "T1"
    topics.entry(second, ALICE)
    assert topics.refusals() == []
    assert topics.reduce().registry.agents["reader"].tier == "T4"
    assert "search" in topics.reduce().registry.tools


def test_a_change_that_lacks_an_entry_is_not_completed_by_a_repeat() -> None:
    topics = trust_alice()
    first, _ = together("c1", agent(), tool())
    waits = topics.entry(first, ALICE)
    again = topics.replay(waits)
    assert topics.refusals() == [(waits, "incomplete_change")]
    assert topics.reduce().repeats == (again,)


def test_a_change_is_completed_by_its_own_records_alone() -> None:
    topics = trust_alice()
    first, second = together("c1", agent(tier="T2"), tool())
    topics.entry(second, ALICE)
    topics.entry(agent(), ALICE)
    other = topics.entry(first, ALICE)
    assert [code for _, code in topics.refusals()] == ["revision_conflict", "incomplete_change"]
    assert topics.refusals()[0][0] == other
    assert not topics.reduce().registry.tools


def test_a_change_that_completes_late_takes_nothing_back_from_a_member_that_counted_alone() -> None:
    topics = trust_alice()
    first, second = together("c1", agent(revision=2), tool())
    waited = topics.entry(first, ALICE)
    topics.entry(agent(revision=2), ALICE)
    topics.entry(agent(revision=3, tier="T2"), ALICE)
    topics.entry(second, ALICE)
    folded = topics.reduce()
    assert folded.registry.agents["reader"].tier == "T2"
    assert "search" in folded.registry.tools
    assert folded.repeated_members == (waited,)


def test_what_counts_alone_may_come_again_in_a_change() -> None:
    topics = trust_alice()
    topics.entry(agent(), ALICE)
    again, new = together("c1", agent(), tool())
    known = topics.entry(again, ALICE)
    topics.entry(new, ALICE)
    topics.replay(known)
    folded = topics.reduce()
    assert folded.refused == ()
    assert "search" in folded.registry.tools
    assert (folded.repeated_members, len(folded.repeats)) == ((known,), 1)


def test_the_signer_of_a_waiting_entry_must_still_be_allowed_when_it_takes_effect() -> None:
    topics = trust_alice()
    topics.entry(approver("bob", BOB), ROOT_KEY)
    first, second = together("c1", agent(), tool())
    armed = topics.entry(first, ALICE)
    topics.entry(approver("alice", ALICE, 2, active=False), ROOT_KEY)
    completing = topics.entry(second, BOB)
    assert topics.refusals() == [(armed, "key_not_allowed"), (completing, "change_refused")]
    assert not topics.reduce().registry.agents
    assert not topics.reduce().registry.tools


def test_a_change_overtaken_by_a_newer_revision_is_refused_whole() -> None:
    topics = trust_alice()
    first, second = together("c1", agent(), tool())
    overtaken = topics.entry(first, ALICE)
    topics.entry(agent(revision=2), ALICE)
    completing = topics.entry(second, ALICE)
    assert topics.refusals() == [(overtaken, "older_revision"), (completing, "change_refused")]
    assert topics.reduce().registry.tools == {}


def test_a_refused_change_cannot_be_played_again() -> None:
    topics = trust_alice()
    first, second = together("c1", agent(), tool())
    topics.entry(first, ALICE)
    topics.entry(agent(revision=2), ALICE)
    completing = topics.entry(second, ALICE)
    again = topics.replay(completing)
    assert topics.refusals()[-1] == (again, "change_refused")


def test_a_refused_change_stays_refused_when_its_signer_is_allowed_again() -> None:
    topics = trust_alice()
    topics.entry(approver("bob", BOB), ROOT_KEY)
    first, second = together("c1", agent(), tool())
    topics.entry(first, ALICE)
    topics.entry(approver("alice", ALICE, 2, active=False), ROOT_KEY)
    completing = topics.entry(second, BOB)
    topics.entry(approver("alice", ALICE, 3), ROOT_KEY)
    topics.replay(completing)
    assert [code for _, code in topics.refusals()] == ["key_not_allowed", "change_refused", "change_refused"]


def test_a_changes_id_is_used_once() -> None:
    topics = trust_alice()
    for one in together("c1", agent(), tool()):
        topics.entry(one, ALICE)
    reused = [topics.entry(one, ALICE) for one in together("c1", agent(revision=2), tool(revision=2))]
    assert topics.refusals() == [(one, "change_conflict") for one in reused]


def test_one_revision_in_two_changes_takes_effect_with_the_first_that_is_whole() -> None:
    topics = trust_alice()
    (one, _), (other, last) = (
        together("c1", agent(tier="T2"), tool("never")),
        together("c2", agent(tier="T3"), tool()),
    )
    waits = topics.entry(one, ALICE)
    topics.entry(other, ALICE)
    topics.entry(last, ALICE)
    assert topics.reduce().registry.agents["reader"].tier == "T3"
    assert topics.refusals() == [(waits, "incomplete_change")]


def test_nobody_completes_a_change_with_content_of_his_own() -> None:
    """Bob may sign tools, and could finish what Alice began, were not each content pinned by each member."""
    topics = trust_alice()
    topics.entry(approver("bob", BOB, signs=["tool"]), ROOT_KEY)
    first, second = together("c1", agent(), tool(tier="T3"))
    weaker = tool(tier="T1")
    topics.entry(first, ALICE)
    swapped = topics.entry({**second, "spec": weaker["spec"]}, BOB)
    own = topics.entry(together("c1", agent(), weaker)[1], BOB)
    assert topics.refusals()[:2] == [(swapped, "invalid_entry"), (own, "change_conflict")]
    topics.entry(second, ALICE)
    assert topics.reduce().registry.tools["search"].tier == "T3"
    assert len(topics.refusals()) == 2


def test_a_broken_entry_holds_its_whole_change_back() -> None:
    topics = trust_alice()
    first, second = together("c1", agent(), tool(tier="T9"))
    waits = topics.entry(first, ALICE)
    broken = topics.entry(second, ALICE)
    assert topics.refusals() == [(broken, "invalid_entry"), (waits, "incomplete_change")]


@pytest.mark.parametrize(
    "entries",
    [
        ["agent/reader@1"],
        ["tool/a@1", "tool/b@1"],
        ["agent/reader@1", "agent/reader@2"],
    ],
    ids=["alone", "without itself", "two revisions"],
)
def test_a_change_names_each_of_its_entries_once(entries: list[str]) -> None:
    topics = trust_alice()
    hashes = dict.fromkeys(entries, digest(agent()))
    wrong = topics.entry({**agent(), "change": {"id": "c1", "entries": hashes}}, ALICE)
    assert topics.refusals() == [(wrong, "invalid_entry")]


def test_an_approvers_entry_takes_effect_alone() -> None:
    topics = trust_alice()
    revoked, _ = together("c1", approver("alice", ALICE, 2, active=False), tool())
    waiting = topics.entry(revoked, ROOT_KEY)
    assert topics.refusals() == [(waiting, "invalid_entry")]
