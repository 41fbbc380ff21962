"""Whose signature counts, for what, and when."""

from __future__ import annotations

import base64
import json

import pytest

from sluice.core.foundation.clock import rfc3339
from sluice.core.registry.keys import Roots
from sluice.core.trust.compile_cache import CompileCache
from sluice.core.trust.dsse import Envelope, EnvelopeSignature, pae, sign
from sluice.core.trust.reduction import reduce_policy
from sluice.core.trust.signed_entries import PAYLOAD_TYPES
from sluice_topics.catalog import BUNDLES, MAX_CONTROL_MESSAGE_BYTES, REGISTRY
from tests.unit.core.trust.scene import (
    ALICE,
    BOB,
    ROOT_KEY,
    SECOND,
    STRANGER,
    Topics,
    agent,
    approver,
    bundle_document,
    bundle_value,
    entry_value,
    tool,
    trust_alice,
)


def test_what_an_approver_signs_is_in_force() -> None:
    topics = trust_alice()
    topics.entry(agent(), ALICE)
    topics.bundle(bundle_document(), ALICE)
    reduced = topics.reduce()
    assert reduced.refused == ()
    assert reduced.registry.agents["reader"].tier == "T1"
    assert reduced.bundles["small"].revision == 1


def test_every_hash_that_a_verdict_records_finds_its_record() -> None:
    topics = trust_alice()
    topics.entry(agent(), ALICE)
    topics.entry(agent(revision=2, tools=[]), ALICE)
    bundle = topics.bundle(bundle_document(), ALICE)
    reduced = topics.reduce()
    newest = reduced.registry.agents["reader"]
    assert reduced.entries[newest.hash].key == newest.key == "agent/reader@2"
    assert [one.key for one in reduced.entries.values()] == [
        "approver/alice@1",
        "agent/reader@1",
        "agent/reader@2",
        "small@1",
    ]
    assert reduced.entries[reduced.bundles["small"].hash].input_record == bundle


def test_without_root_keys_nothing_counts() -> None:
    topics = trust_alice()
    reduced = reduce_policy(topics.records, Roots([]), CompileCache(lambda _: ()))
    assert [one.code for one in reduced.refused] == ["unknown_key"]


def test_a_bare_document_is_unsigned() -> None:
    topics = trust_alice()
    bare = topics.raw(BUNDLES, b"small@1", json.dumps(bundle_document()).encode())
    assert topics.refusals() == [(bare, "unsigned")]


def test_an_envelope_without_its_signatures_is_stripped() -> None:
    topics = trust_alice()
    stripped = topics.bundle(bundle_document())
    assert topics.refusals() == [(stripped, "stripped")]


def test_a_tombstone_takes_nothing_back() -> None:
    topics = trust_alice()
    topics.entry(agent(), ALICE)
    tombstone = topics.raw(REGISTRY, b"agent/reader@1", None)
    assert topics.refusals() == [(tombstone, "tombstone")]
    assert "reader" in topics.reduce().registry.agents


@pytest.mark.parametrize("garbage", [b"", b"\xff", b"[]", b"{}", b'{"payload":1}', b'{"a":1,"a":2}'])
def test_garbage_under_the_key_of_an_entry_changes_nothing(garbage: bytes) -> None:
    topics = trust_alice()
    topics.entry(agent(), ALICE)
    forged = topics.raw(REGISTRY, b"agent/reader@1", garbage)
    assert topics.refusals() == [(forged, "unsigned")]
    assert "reader" in topics.reduce().registry.agents


def test_a_record_beyond_the_topics_bound_is_not_even_parsed() -> None:
    topics = trust_alice()
    huge = topics.raw(BUNDLES, b"small@1", b"[" * (MAX_CONTROL_MESSAGE_BYTES + 1))
    assert topics.refusals() == [(huge, "too_large")]


def test_a_key_that_nobody_named_counts_for_nothing() -> None:
    topics = trust_alice()
    forged = topics.entry(agent(), STRANGER)
    assert topics.refusals() == [(forged, "unknown_key")]


def test_a_strangers_signature_beside_an_approvers_changes_nothing() -> None:
    topics = trust_alice()
    topics.entry(agent(), STRANGER, ALICE)
    reduced = topics.reduce()
    assert reduced.refused == ()
    accepted = reduced.entries[reduced.registry.agents["reader"].hash]
    assert accepted.signers == {ALICE.keyid}


def test_a_strangers_signature_under_an_approvers_name_is_wrong() -> None:
    topics = trust_alice()
    kind, payload = PAYLOAD_TYPES[REGISTRY], json.dumps(agent()).encode()
    lie = EnvelopeSignature(ALICE.keyid, STRANGER.sign(pae(kind, payload)))
    forged = topics.raw(REGISTRY, b"agent/reader@1", Envelope(kind, payload, (lie,)).encode())
    assert topics.refusals() == [(forged, "wrong_signature")]


def test_an_approvers_signature_of_something_else_is_wrong() -> None:
    topics = trust_alice()
    envelope = json.loads(entry_value(agent(), ALICE))
    envelope["payload"] = base64.b64encode(json.dumps(agent(tier="T4")).encode()).decode()
    forged = topics.raw(REGISTRY, b"agent/reader@1", json.dumps(envelope).encode())
    assert topics.refusals() == [(forged, "wrong_signature")]


def test_a_signature_that_does_not_name_its_key_is_not_tried_on_every_key() -> None:
    topics = trust_alice()
    envelope = json.loads(entry_value(agent(), ALICE))
    envelope["signatures"][0]["keyid"] = ""
    nameless = topics.raw(REGISTRY, b"agent/reader@1", json.dumps(envelope).encode())
    assert topics.refusals() == [(nameless, "unsigned")]


def test_a_bundle_is_none_in_the_registry_nor_an_entry_among_the_bundles() -> None:
    topics = trust_alice()
    bundle = topics.raw(REGISTRY, b"small@1", bundle_value(bundle_document(), ALICE))
    entry = topics.raw(BUNDLES, b"agent/reader@1", entry_value(agent(), ALICE))
    assert topics.refusals() == [(bundle, "wrong_payload_type"), (entry, "wrong_payload_type")]


def test_a_signature_made_for_one_type_does_not_hold_under_another() -> None:
    topics = trust_alice()
    envelope = json.loads(entry_value(bundle_document(), ALICE))
    envelope["payloadType"] = PAYLOAD_TYPES[BUNDLES]
    relabelled = topics.raw(BUNDLES, b"small@1", json.dumps(envelope).encode())
    assert topics.refusals() == [(relabelled, "wrong_signature")]


def test_an_approver_signs_only_the_kinds_of_the_entry() -> None:
    topics = Topics()
    topics.entry(approver("alice", ALICE, signs=["agent"]), ROOT_KEY)
    topics.entry(agent(), ALICE)
    refused_tool = topics.entry(tool(), ALICE)
    refused_bundle = topics.bundle(bundle_document(), ALICE)
    assert topics.refusals() == [(refused_tool, "key_not_allowed"), (refused_bundle, "key_not_allowed")]
    assert "may not sign a tool" in topics.reduce().refused[0].message


def test_no_approver_makes_an_approver() -> None:
    topics = trust_alice()
    usurped = topics.entry(approver("bob", BOB), ALICE)
    promoted = topics.entry(approver("alice", ALICE, 2, signs=["bundle"], roles=["vp"]), ALICE)
    assert topics.refusals() == [(usurped, "key_not_allowed"), (promoted, "key_not_allowed")]
    assert list(topics.reduce().registry.approvers) == ["alice"]


def test_a_root_key_signs_nothing_but_approvers() -> None:
    topics = trust_alice()
    by_root = topics.entry(agent(), ROOT_KEY)
    assert topics.refusals() == [(by_root, "key_not_allowed")]


def test_a_root_signature_beside_an_approvers_does_no_harm() -> None:
    topics = trust_alice()
    topics.entry(agent(), ROOT_KEY, ALICE)
    assert topics.refusals() == []


def test_an_approver_who_was_not_yet_one_did_not_sign() -> None:
    topics = Topics()
    early = topics.entry(agent(), ALICE)
    topics.entry(approver("alice", ALICE), ROOT_KEY)
    assert topics.refusals() == [(early, "unknown_key")]


def test_a_key_signs_until_its_last_moment_and_not_from_then_on() -> None:
    topics = Topics()
    until = topics.now_ms + 3 * SECOND
    topics.entry(approver("alice", ALICE, valid_until=rfc3339(until)), ROOT_KEY)
    topics.entry(agent(), ALICE)
    late = topics.entry(tool(), ALICE)
    assert late.timestamp_ms == until
    assert topics.refusals() == [(late, "key_not_allowed")]
    assert "valid until" in topics.reduce().refused[0].message
    assert "reader" in topics.reduce().registry.agents


def test_a_revoked_approver_signs_nothing_more_and_what_was_signed_stays() -> None:
    topics = trust_alice()
    topics.entry(agent(), ALICE)
    topics.entry(approver("alice", ALICE, 2, active=False), ROOT_KEY)
    later = topics.entry(tool(), ALICE)
    bundle = topics.bundle(bundle_document(), ALICE)
    assert topics.refusals() == [(later, "key_not_allowed"), (bundle, "key_not_allowed")]
    assert "was revoked" in topics.reduce().refused[0].message
    assert "reader" in topics.reduce().registry.agents


def test_the_first_entry_of_a_revoked_approver_cannot_be_played_again() -> None:
    topics = Topics()
    first = topics.entry(approver("alice", ALICE), ROOT_KEY)
    topics.entry(approver("alice", ALICE, 2, active=False), ROOT_KEY)
    topics.replay(first)
    later = topics.entry(agent(), ALICE)
    assert topics.refusals() == [(later, "key_not_allowed")]


def test_a_revoked_key_does_not_live_on_under_another_name() -> None:
    topics = trust_alice()
    topics.entry(approver("alice", ALICE, 2, active=False), ROOT_KEY)
    other_name = topics.entry(approver("alice-again", ALICE), ROOT_KEY)
    assert topics.refusals() == [(other_name, "invalid_entry")]


def test_a_replaced_key_signs_nothing_more() -> None:
    topics = trust_alice()
    topics.entry(approver("alice", BOB, 2), ROOT_KEY)
    old = topics.entry(agent(), ALICE)
    topics.entry(tool(), BOB)
    assert topics.refusals() == [(old, "key_not_allowed")]
    assert "was replaced" in topics.reduce().refused[0].message


def test_a_root_key_is_no_approvers() -> None:
    topics = Topics()
    both = topics.entry(approver("alice", ROOT_KEY), ROOT_KEY)
    assert topics.refusals() == [(both, "invalid_entry")]


def test_a_revocation_of_the_same_millisecond_comes_before_a_bundle() -> None:
    topics = trust_alice()
    bundle = topics.bundle(bundle_document(), ALICE)
    topics.now_ms -= SECOND
    topics.entry(approver("alice", ALICE, 2, active=False), ROOT_KEY)
    assert topics.refusals() == [(bundle, "key_not_allowed")]


def test_a_clock_that_goes_back_revives_no_key() -> None:
    topics = Topics()
    until = topics.now_ms + 3 * SECOND
    topics.entry(approver("alice", ALICE, valid_until=rfc3339(until)), ROOT_KEY)
    topics.now_ms = until
    topics.entry(approver("bob", BOB), ROOT_KEY)
    topics.now_ms -= 3 * SECOND
    late = topics.entry(agent(), ALICE)
    assert topics.refusals() == [(late, "key_not_allowed")]


def test_the_signature_is_checked_before_the_payload_is_read() -> None:
    topics = trust_alice()
    kind = PAYLOAD_TYPES[REGISTRY]
    bomb = topics.raw(REGISTRY, b"x", sign(kind, b"[" * 100_000, [STRANGER]).encode())
    assert topics.refusals() == [(bomb, "unknown_key")]
