"""Nothing older replaces anything newer, nothing half takes effect, nothing invalid does."""

from __future__ import annotations

import json

import pytest

from app.core.ledger.canonical import digest
from app.core.trust.compiled import Compiled
from app.core.trust.dsse import sign
from app.core.trust.signed_entries import PAYLOAD_TYPES
from tests.unit.core.trust.scene import (
    ALICE,
    BOB,
    ROOT_KEY,
    agent,
    approver,
    bundle_document,
    entry_value,
    together,
    tool,
    trusting_alice,
)
from topics.catalog import BUNDLES, REGISTRY


def test_the_newest_revision_is_in_force() -> None:
    topics = trusting_alice()
    topics.bundle(bundle_document(1), ALICE)
    topics.bundle(bundle_document(3), ALICE)
    assert topics.fold().bundles["small"].revision == 3


def test_an_older_revision_played_again_changes_nothing() -> None:
    topics = trusting_alice()
    first = topics.entry(agent(tier="T4"), ALICE)
    topics.entry(agent(revision=2), ALICE)
    again = topics.replay(first)
    folded = topics.fold()
    assert folded.refused == ()
    assert folded.repeats == (again,)
    assert folded.registry.agents["reader"].tier == "T1"


def test_an_older_revision_that_comes_late_is_refused() -> None:
    topics = trusting_alice()
    topics.bundle(bundle_document(2), ALICE)
    older = topics.bundle(bundle_document(1), ALICE)
    assert topics.refusals() == [(older, "older_revision")]
    assert topics.fold().bundles["small"].revision == 2


def test_a_revision_has_one_content() -> None:
    topics = trusting_alice()
    topics.entry(agent(), ALICE)
    other = topics.entry(agent(tier="T4"), ALICE)
    assert topics.refusals() == [(other, "revision_conflict")]
    assert topics.fold().registry.agents["reader"].tier == "T1"


def test_a_superseded_revision_has_one_content_too() -> None:
    topics = trusting_alice()
    topics.entry(agent(), ALICE)
    topics.entry(agent(revision=2), ALICE)
    other = topics.entry(agent(tier="T4"), ALICE)
    assert topics.refusals() == [(other, "revision_conflict")]


def test_the_same_again_from_another_signer_is_a_repeat() -> None:
    topics = trusting_alice()
    topics.entry(approver("bob", BOB), ROOT_KEY)
    topics.entry(agent(), ALICE)
    again = topics.entry(agent(), BOB)
    assert topics.fold().repeats == (again,)


def test_an_entry_lies_under_its_own_key() -> None:
    topics = trusting_alice()
    value = entry_value(agent(), ALICE)
    wrong = [topics.raw(REGISTRY, name, value) for name in (b"agent/other@1", b"agent/reader@2", b"", None)]
    assert topics.refusals() == [(one, "key_mismatch") for one in wrong]
    assert topics.fold().registry.agents == {}


def test_every_revision_of_a_fact_is_kept() -> None:
    topics = trusting_alice()
    topics.entry(approver("bob", BOB, signs=["fact"]), ROOT_KEY)
    for revision, value in ((1, 10), (2, 20)):
        spec = {"value": value, "valid_from": "2025-01-01T00:00:00.000Z"}
        topics.entry({"kind": "fact", "id": "limit", "revision": revision, "spec": spec}, BOB)
    assert [one.value for one in topics.fold().registry.facts["limit"]] == [10, 20]


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (b'{"kind":"agent","kind":"tool"}', "$"),
        (b'{"kind":"agent"}', "$.id"),
        (b'{"kind":"king","id":"a","revision":1,"spec":{}}', "$.kind"),
        (b'{"kind":"agent","id":"a","revision":0,"spec":{}}', "$.revision"),
        (b'{"kind":"agent","id":"a","revision":"1","spec":{}}', "$.revision"),
        (b'{"kind":"agent","id":"a","revision":1,"spec":{},"more":1}', "$.more"),
        (b'{"kind":"tool","id":"a","revision":1,"spec":{"tier":"T9"}}', "$.spec.tier"),
        (b'{"kind":"tool","id":"a","revision":1,"spec":{"reversible":12345678901234567890}}', "$"),
        (b"not json", "$"),
    ],
)
def test_an_approvers_entry_is_read_strictly(payload: bytes, path: str) -> None:
    topics = trusting_alice()
    value = sign(PAYLOAD_TYPES[REGISTRY], payload, [ALICE]).written()
    topics.raw(REGISTRY, b"tool/a@1", value)
    (refused,) = topics.fold().refused
    assert (refused.code, refused.path) == ("invalid_entry", path)


def test_a_bundle_with_a_key_given_twice_is_refused() -> None:
    topics = trusting_alice()
    payload = json.dumps(bundle_document()).encode().replace(b"{", b'{"id":"other",', 1)
    twice = topics.raw(BUNDLES, b"small@1", sign(PAYLOAD_TYPES[BUNDLES], payload, [ALICE]).written())
    assert topics.refusals() == [(twice, "invalid_bundle")]


def test_a_bundle_that_does_not_validate_leaves_the_active_one() -> None:
    topics = trusting_alice()
    topics.bundle(bundle_document(1), ALICE)
    broken = topics.bundle(bundle_document(2, escalation_ttl_ms=0), ALICE)
    folded = topics.fold()
    assert topics.refusals() == [(broken, "invalid_bundle")]
    assert folded.refused[0].path == "$.escalation_ttl_ms"
    assert folded.bundles["small"].revision == 1


def test_a_bundle_that_fails_its_own_cases_is_refused() -> None:
    topics = trusting_alice("case 1: expected BLOCK, was ALLOW")
    failing = topics.bundle(bundle_document(), ALICE)
    assert topics.refusals() == [(failing, "cases_failed")]
    assert "expected BLOCK" in topics.fold().refused[0].message
    assert topics.fold().bundles == {}


def test_a_bundle_that_makes_its_check_raise_is_refused_and_stops_nobody() -> None:
    def raising(_: object) -> list[object]:
        raise OverflowError

    topics = trusting_alice()
    topics.compiled = Compiled(raising)
    harmful = topics.bundle(bundle_document(), ALICE)
    topics.entry(agent(), ALICE)
    assert topics.refusals() == [(harmful, "invalid_bundle")]
    assert "OverflowError" in topics.fold().refused[0].message
    assert "reader" in topics.fold().registry.agents


def test_a_refused_revision_may_be_mended_under_the_same_number() -> None:
    topics = trusting_alice()
    topics.bundle(bundle_document(1, escalation_ttl_ms=0), ALICE)
    topics.bundle(bundle_document(1), ALICE)
    assert topics.fold().bundles["small"].revision == 1


def test_half_a_change_is_not_in_force() -> None:
    topics = trusting_alice()
    topics.entry(agent(), ALICE)
    first, second = together("c1", agent(revision=2, tier="T4"), tool())
    waits = topics.entry(first, ALICE)
    folded = topics.fold()
    assert topics.refusals() == [(waits, "incomplete_change")]
    assert "tool/search@1" in folded.refused[0].message
    assert not folded.refused[0].final
    assert folded.registry.agents["reader"].tier == "T1"
    topics.entry(second, ALICE)
    assert topics.refusals() == []
    assert topics.fold().registry.agents["reader"].tier == "T4"
    assert "search" in topics.fold().registry.tools


def test_a_change_that_lacks_an_entry_is_not_completed_by_a_repeat() -> None:
    topics = trusting_alice()
    first, _ = together("c1", agent(), tool())
    waits = topics.entry(first, ALICE)
    again = topics.replay(waits)
    assert topics.refusals() == [(waits, "incomplete_change")]
    assert topics.fold().repeats == (again,)


def test_a_change_is_completed_by_its_own_records_alone() -> None:
    topics = trusting_alice()
    first, second = together("c1", agent(tier="T2"), tool())
    topics.entry(second, ALICE)
    topics.entry(agent(), ALICE)
    other = topics.entry(first, ALICE)
    assert [code for _, code in topics.refusals()] == ["revision_conflict", "incomplete_change"]
    assert topics.refusals()[0][0] == other
    assert not topics.fold().registry.tools


def test_a_change_that_completes_late_takes_nothing_back_from_a_member_that_counted_alone() -> None:
    topics = trusting_alice()
    first, second = together("c1", agent(revision=2), tool())
    waited = topics.entry(first, ALICE)
    topics.entry(agent(revision=2), ALICE)
    topics.entry(agent(revision=3, tier="T2"), ALICE)
    topics.entry(second, ALICE)
    folded = topics.fold()
    assert folded.registry.agents["reader"].tier == "T2"
    assert "search" in folded.registry.tools
    assert folded.known == (waited,)


def test_what_counts_alone_may_come_again_in_a_change() -> None:
    topics = trusting_alice()
    topics.entry(agent(), ALICE)
    again, new = together("c1", agent(), tool())
    known = topics.entry(again, ALICE)
    topics.entry(new, ALICE)
    topics.replay(known)
    folded = topics.fold()
    assert folded.refused == ()
    assert "search" in folded.registry.tools
    assert (folded.known, len(folded.repeats)) == ((known,), 1)


def test_the_signer_of_a_waiting_entry_must_still_be_allowed_when_it_takes_effect() -> None:
    topics = trusting_alice()
    topics.entry(approver("bob", BOB), ROOT_KEY)
    first, second = together("c1", agent(), tool())
    armed = topics.entry(first, ALICE)
    topics.entry(approver("alice", ALICE, 2, active=False), ROOT_KEY)
    completing = topics.entry(second, BOB)
    assert topics.refusals() == [(armed, "key_not_allowed"), (completing, "change_refused")]
    assert not topics.fold().registry.agents
    assert not topics.fold().registry.tools


def test_a_change_overtaken_by_a_newer_revision_is_refused_whole() -> None:
    topics = trusting_alice()
    first, second = together("c1", agent(), tool())
    overtaken = topics.entry(first, ALICE)
    topics.entry(agent(revision=2), ALICE)
    completing = topics.entry(second, ALICE)
    assert topics.refusals() == [(overtaken, "older_revision"), (completing, "change_refused")]
    assert topics.fold().registry.tools == {}


def test_a_refused_change_cannot_be_played_again() -> None:
    topics = trusting_alice()
    first, second = together("c1", agent(), tool())
    topics.entry(first, ALICE)
    topics.entry(agent(revision=2), ALICE)
    completing = topics.entry(second, ALICE)
    again = topics.replay(completing)
    assert topics.refusals()[-1] == (again, "change_refused")


def test_a_refused_change_stays_refused_when_its_signer_is_allowed_again() -> None:
    topics = trusting_alice()
    topics.entry(approver("bob", BOB), ROOT_KEY)
    first, second = together("c1", agent(), tool())
    topics.entry(first, ALICE)
    topics.entry(approver("alice", ALICE, 2, active=False), ROOT_KEY)
    completing = topics.entry(second, BOB)
    topics.entry(approver("alice", ALICE, 3), ROOT_KEY)
    topics.replay(completing)
    assert [code for _, code in topics.refusals()] == ["key_not_allowed", "change_refused", "change_refused"]


def test_a_changes_id_is_used_once() -> None:
    topics = trusting_alice()
    for one in together("c1", agent(), tool()):
        topics.entry(one, ALICE)
    reused = [topics.entry(one, ALICE) for one in together("c1", agent(revision=2), tool(revision=2))]
    assert topics.refusals() == [(one, "change_conflict") for one in reused]


def test_one_revision_in_two_changes_takes_effect_with_the_first_that_is_whole() -> None:
    topics = trusting_alice()
    (one, _), (other, last) = (
        together("c1", agent(tier="T2"), tool("never")),
        together("c2", agent(tier="T3"), tool()),
    )
    waits = topics.entry(one, ALICE)
    topics.entry(other, ALICE)
    topics.entry(last, ALICE)
    assert topics.fold().registry.agents["reader"].tier == "T3"
    assert topics.refusals() == [(waits, "incomplete_change")]


def test_nobody_completes_a_change_with_content_of_his_own() -> None:
    """Bob may sign tools, and could finish what Alice began, were not each content pinned by each member."""
    topics = trusting_alice()
    topics.entry(approver("bob", BOB, signs=["tool"]), ROOT_KEY)
    first, second = together("c1", agent(), tool(tier="T3"))
    weaker = tool(tier="T1")
    topics.entry(first, ALICE)
    swapped = topics.entry({**second, "spec": weaker["spec"]}, BOB)
    own = topics.entry(together("c1", agent(), weaker)[1], BOB)
    assert topics.refusals()[:2] == [(swapped, "invalid_entry"), (own, "change_conflict")]
    topics.entry(second, ALICE)
    assert topics.fold().registry.tools["search"].tier == "T3"
    assert len(topics.refusals()) == 2


def test_a_broken_entry_holds_its_whole_change_back() -> None:
    topics = trusting_alice()
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
    topics = trusting_alice()
    hashes = dict.fromkeys(entries, digest(agent()))
    wrong = topics.entry({**agent(), "change": {"id": "c1", "entries": hashes}}, ALICE)
    assert topics.refusals() == [(wrong, "invalid_entry")]


def test_an_approvers_entry_takes_effect_alone() -> None:
    topics = trusting_alice()
    revoked, _ = together("c1", approver("alice", ALICE, 2, active=False), tool())
    waiting = topics.entry(revoked, ROOT_KEY)
    assert topics.refusals() == [(waiting, "invalid_entry")]


def test_a_reload_compiles_only_what_is_new() -> None:
    topics = trusting_alice()
    topics.bundle(bundle_document(1), ALICE)
    before = topics.fold()
    topics.entry(agent(), ALICE)
    after = topics.fold()
    assert len(topics.ran) == 1
    assert after.bundles["small"] is before.bundles["small"]
    assert topics.fold().registry is after.registry
