"""Nothing older replaces anything newer, nothing half takes effect, nothing invalid does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sluice.core.trust.compile_cache import CompileCache
from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import PAYLOAD_TYPES
from sluice_topics.catalog import BUNDLES, REGISTRY
from tests.unit.core.trust.scene import (
    ALICE,
    BOB,
    ROOT_KEY,
    agent,
    approver,
    bundle_document,
    entry_value,
    trust_alice,
)

if TYPE_CHECKING:
    from sluice.core.cases.case_failure import CaseFailure


def test_the_newest_revision_is_in_force() -> None:
    topics = trust_alice()
    topics.bundle(bundle_document(1), ALICE)
    topics.bundle(bundle_document(3), ALICE)
    assert topics.reduce().bundles["small"].revision == 3


def test_an_older_revision_played_again_changes_nothing() -> None:
    topics = trust_alice()
    first = topics.entry(agent(tier="T4"), ALICE)
    topics.entry(agent(revision=2), ALICE)
    again = topics.replay(first)
    folded = topics.reduce()
    assert folded.refused == ()
    assert folded.repeats == (again,)
    assert folded.registry.agents["reader"].tier == "T1"


def test_an_older_revision_that_comes_late_is_refused() -> None:
    topics = trust_alice()
    topics.bundle(bundle_document(2), ALICE)
    older = topics.bundle(bundle_document(1), ALICE)
    assert topics.refusals() == [(older, "older_revision")]
    assert topics.reduce().bundles["small"].revision == 2


def test_a_revision_has_one_content() -> None:
    topics = trust_alice()
    topics.entry(agent(), ALICE)
    other = topics.entry(agent(tier="T4"), ALICE)
    assert topics.refusals() == [(other, "revision_conflict")]
    assert topics.reduce().registry.agents["reader"].tier == "T1"


def test_a_superseded_revision_has_one_content_too() -> None:
    topics = trust_alice()
    topics.entry(agent(), ALICE)
    topics.entry(agent(revision=2), ALICE)
    other = topics.entry(agent(tier="T4"), ALICE)
    assert topics.refusals() == [(other, "revision_conflict")]


def test_the_same_again_from_another_signer_is_a_repeat() -> None:
    topics = trust_alice()
    topics.entry(approver("bob", BOB), ROOT_KEY)
    topics.entry(agent(), ALICE)
    again = topics.entry(agent(), BOB)
    assert topics.reduce().repeats == (again,)


def test_an_entry_lies_under_its_own_key() -> None:
    topics = trust_alice()
    value = entry_value(agent(), ALICE)
    wrong = [topics.raw(REGISTRY, name, value) for name in (b"agent/other@1", b"agent/reader@2", b"", None)]
    assert topics.refusals() == [(one, "key_mismatch") for one in wrong]
    assert topics.reduce().registry.agents == {}


def test_every_revision_of_a_fact_is_kept() -> None:
    topics = trust_alice()
    topics.entry(approver("bob", BOB, signs=["fact"]), ROOT_KEY)
    for revision, value in ((1, 10), (2, 20)):
        spec = {"value": value, "valid_from": "2025-01-01T00:00:00.000Z"}
        topics.entry({"kind": "fact", "id": "limit", "revision": revision, "spec": spec}, BOB)
    assert [one.value for one in topics.reduce().registry.facts["limit"]] == [10, 20]


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
    topics = trust_alice()
    value = sign(PAYLOAD_TYPES[REGISTRY], payload, [ALICE]).encode()
    topics.raw(REGISTRY, b"tool/a@1", value)
    (refused,) = topics.reduce().refused
    assert (refused.code, refused.path) == ("invalid_entry", path)


def test_a_bundle_with_a_key_given_twice_is_refused() -> None:
    topics = trust_alice()
    payload = json.dumps(bundle_document()).encode().replace(b"{", b'{"id":"other",', 1)
    twice = topics.raw(BUNDLES, b"small@1", sign(PAYLOAD_TYPES[BUNDLES], payload, [ALICE]).encode())
    assert topics.refusals() == [(twice, "invalid_bundle")]


def test_a_bundle_that_does_not_validate_leaves_the_active_one() -> None:
    topics = trust_alice()
    topics.bundle(bundle_document(1), ALICE)
    broken = topics.bundle(bundle_document(2, escalation_ttl_ms=0), ALICE)
    folded = topics.reduce()
    assert topics.refusals() == [(broken, "invalid_bundle")]
    assert folded.refused[0].path == "$.escalation_ttl_ms"
    assert folded.bundles["small"].revision == 1


def test_a_bundle_that_fails_its_own_cases_is_refused() -> None:
    topics = trust_alice("case 1: expected BLOCK, was ALLOW")
    failing = topics.bundle(bundle_document(), ALICE)
    assert topics.refusals() == [(failing, "cases_failed")]
    assert "expected BLOCK" in topics.reduce().refused[0].message
    assert topics.reduce().bundles == {}


def test_a_bundle_that_makes_its_check_raise_is_refused_and_stops_nobody() -> None:
    def raise_fault(_: object) -> list[CaseFailure]:
        raise OverflowError

    topics = trust_alice()
    topics.compiled = CompileCache(raise_fault)
    harmful = topics.bundle(bundle_document(), ALICE)
    topics.entry(agent(), ALICE)
    assert topics.refusals() == [(harmful, "invalid_bundle")]
    assert "OverflowError" in topics.reduce().refused[0].message
    assert "reader" in topics.reduce().registry.agents


def test_a_refused_revision_may_be_mended_under_the_same_number() -> None:
    topics = trust_alice()
    topics.bundle(bundle_document(1, escalation_ttl_ms=0), ALICE)
    topics.bundle(bundle_document(1), ALICE)
    assert topics.reduce().bundles["small"].revision == 1


def test_a_reload_compiles_only_what_is_new() -> None:
    topics = trust_alice()
    topics.bundle(bundle_document(1), ALICE)
    before = topics.reduce()
    topics.entry(agent(), ALICE)
    after = topics.reduce()
    assert len(topics.ran) == 1
    assert after.bundles["small"] is before.bundles["small"]
    assert topics.reduce().registry is after.registry
