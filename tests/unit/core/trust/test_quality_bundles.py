"""Quality bundles are published as policy bundles are; what breaks a rule leaves the active one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sluice.core.registry.keys import SigningKey  # noqa: TC001 - pytest reads the annotations
from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import PAYLOAD_TYPES, QUALITY_BUNDLE_TYPE
from sluice_topics.catalog import BUNDLES, REGISTRY
from tests.unit.core.trust.quality_scene import (
    DAY_S,
    find_in_force,
    quality,
    quality_document,
    quality_value,
    trust_both,
)
from tests.unit.core.trust.scene import (
    ALICE,
    BOB,
    ROOT_KEY,
    STRANGER,
    Topics,
    approver,
    bundle_document,
    key,
)

if TYPE_CHECKING:
    from sluice.core.foundation.input_record import InputRecord

LOOSER = quality_document(2, ttl=2 * DAY_S)
STRICTER = quality_document(2, ttl=DAY_S / 2)
FAILING = {
    "name": "a fresh price passes without a source",
    "item": {"content_class": "product_pricing", "freshness_age_seconds": 1, "confidence_score": 1},
    "tier": "high_privilege",
    "expect": {"outcome": "pass"},
}


def run_worker() -> Topics:
    topics = trust_both()
    quality(topics, quality_document(), ALICE)
    return topics


def collect_refusals(topics: Topics, input_record: InputRecord) -> tuple[str, str]:
    (one,) = topics.reduce().refused
    assert one.input_record == input_record
    assert find_in_force(topics) == 1
    return one.code, one.message


def test_one_approver_publishes_the_first_revision_and_a_stricter_one() -> None:
    topics = run_worker()
    quality(topics, STRICTER, BOB)
    assert find_in_force(topics) == 2
    assert topics.reduce().refused == ()


def test_a_policy_bundle_of_the_same_name_is_another_matter() -> None:
    topics = run_worker()
    topics.bundle(bundle_document(3, id="q"), ALICE)
    folded = topics.reduce()
    assert (folded.bundles["q"].revision, folded.quality["q"].revision) == (3, 1)


def test_who_may_sign_policy_may_not_therefore_sign_quality() -> None:
    topics = run_worker()
    topics.entry(approver("carol", STRANGER, signs=["bundle"]), ROOT_KEY)
    code, message = collect_refusals(topics, quality(topics, STRICTER, STRANGER))
    assert (code, message) == ("key_not_allowed", "approver carol may not sign a quality_bundle")


def test_a_looser_revision_needs_a_second_approver() -> None:
    topics = run_worker()
    code, message = collect_refusals(topics, quality(topics, LOOSER, ALICE))
    assert code == "second_approver_missing"
    assert "alice alone" in message
    assert "relaxes q@1: the time to live of product_pricing" in message


def test_two_approvers_may_relax_it_and_the_log_says_what() -> None:
    topics = run_worker()
    quality(topics, LOOSER, ALICE, BOB)
    assert find_in_force(topics) == 2
    newest = list(topics.reduce().entries.values())[-1]
    assert set(newest.approvers) == {"alice", "bob"}
    assert "product_pricing" in newest.relaxations[0]


def test_the_first_signature_alone_may_be_mended_by_a_second_later() -> None:
    topics = run_worker()
    quality(topics, LOOSER, ALICE)
    quality(topics, LOOSER, ALICE, BOB)
    assert find_in_force(topics) == 2


def test_one_key_twice_is_one_approver() -> None:
    topics = run_worker()
    envelope = json.loads(quality_value(LOOSER, ALICE))
    envelope["signatures"] *= 2
    input_record = topics.raw(BUNDLES, b"q@2", json.dumps(envelope).encode())
    assert collect_refusals(topics, input_record)[0] == "second_approver_missing"


def test_two_keys_of_one_approver_are_one_approver() -> None:
    topics = run_worker()
    newer = key("alice again")
    topics.entry(approver("alice", newer, 2, signs=["quality_bundle"]), ROOT_KEY)
    code, message = collect_refusals(topics, quality(topics, LOOSER, ALICE, newer))
    assert code == "second_approver_missing"
    assert "alice alone" in message


@pytest.mark.parametrize(
    ("second", "spec"),
    [
        (BOB, {"active": False, "signs": ["quality_bundle"]}),
        (BOB, {"signs": ["bundle"]}),
        (BOB, {"signs": ["quality_bundle"], "valid_until": "2025-11-21T13:00:00.000Z"}),
        (STRANGER, {"signs": ["quality_bundle"]}),
        (ROOT_KEY, {"signs": ["quality_bundle"]}),
    ],
    ids=["revoked meanwhile", "not for this kind", "run out", "unknown", "a root key"],
)
def test_a_second_signature_counts_only_of_one_who_may_sign_it_now(
    second: SigningKey, spec: dict[str, object]
) -> None:
    topics = run_worker()
    topics.entry(approver("bob", BOB, 2, **spec), ROOT_KEY)
    assert collect_refusals(topics, quality(topics, LOOSER, ALICE, second))[0] == "second_approver_missing"


def test_two_small_steps_through_a_refused_revision_are_one_large_one() -> None:
    topics = run_worker()
    quality(topics, LOOSER, ALICE)
    quality(topics, quality_document(3, ttl=2 * DAY_S), BOB)
    assert [code for _, code in topics.refusals()] == ["second_approver_missing"] * 2
    assert find_in_force(topics) == 1


def test_what_was_tightened_is_relaxed_again_by_two_only() -> None:
    topics = run_worker()
    quality(topics, STRICTER, ALICE)
    quality(topics, quality_document(3), ALICE)
    assert [code for _, code in topics.refusals()] == ["second_approver_missing"]
    assert find_in_force(topics) == 2


def test_a_second_signature_stripped_on_the_way_leaves_the_active_one() -> None:
    topics = run_worker()
    envelope = json.loads(quality_value(LOOSER, ALICE, BOB))
    envelope["signatures"] = envelope["signatures"][:1]
    input_record = topics.raw(BUNDLES, b"q@2", json.dumps(envelope).encode())
    assert collect_refusals(topics, input_record)[0] == "second_approver_missing"


def alter(document: dict[str, object], *signers: SigningKey) -> bytes:
    """Another payload under signatures of the document."""
    envelope, other = json.loads(quality_value(document, *signers)), json.loads(quality_value(LOOSER))
    return json.dumps({**envelope, "payload": other["payload"]}).encode()


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (quality_value(STRICTER), "stripped"),
        (quality_value(STRICTER, STRANGER), "unknown_key"),
        (alter(STRICTER, ALICE, BOB), "wrong_signature"),
        (quality_value(STRICTER, ALICE)[:-40], "unsigned"),
        (quality_value({**STRICTER, "rationale": "short"}, ALICE), "invalid_bundle"),
        (quality_value({**STRICTER, "cases": [FAILING]}, ALICE), "cases_failed"),
        (sign(PAYLOAD_TYPES[BUNDLES], json.dumps(STRICTER).encode(), [ALICE]).encode(), "invalid_bundle"),
        (sign(PAYLOAD_TYPES[REGISTRY], json.dumps(STRICTER).encode(), [ALICE]).encode(),
         "wrong_payload_type"),
        (sign(QUALITY_BUNDLE_TYPE, json.dumps(bundle_document(2, id="q")).encode(), [ALICE]).encode(),
         "invalid_bundle"),
    ],
    ids=["stripped", "unknown key", "altered", "half-written", "no rationale", "fails its own case",
         "as a policy bundle", "as an entry", "a policy bundle as one of quality"],
)  # fmt: skip
def test_what_breaks_a_rule_leaves_the_active_one(value: bytes, code: str) -> None:
    topics = run_worker()
    assert collect_refusals(topics, topics.raw(BUNDLES, b"q@2", value))[0] == code


def test_an_older_revision_is_refused_however_many_sign_it() -> None:
    topics = trust_both()
    quality(topics, quality_document(2), ALICE)
    older = quality(topics, quality_document(1, ttl=2 * DAY_S), ALICE, BOB)
    assert topics.refusals() == [(older, "older_revision")]
    assert find_in_force(topics) == 2


def test_other_content_under_a_published_revision_is_refused() -> None:
    topics = run_worker()
    assert (
        collect_refusals(topics, quality(topics, quality_document(ttl=1.0), ALICE, BOB))[0]
        == "revision_conflict"
    )


def test_a_quality_bundle_cannot_be_had_by_the_registry_topic() -> None:
    topics = run_worker()
    input_record = topics.raw(REGISTRY, b"q@2", quality_value(STRICTER, ALICE))
    assert collect_refusals(topics, input_record)[0] == "wrong_payload_type"
