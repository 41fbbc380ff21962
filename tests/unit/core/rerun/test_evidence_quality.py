"""What past decisions rested on is found by its hash, whoever signed it, policy and quality apart."""

from __future__ import annotations

import json

from sluice.core.foundation.canonical import digest
from sluice.core.rerun.evidence import PolicyEvidence
from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import QUALITY_BUNDLE_TYPE
from sluice_topics.catalog import BUNDLES, REGISTRY
from tests.unit.core.trust.quality_scene import override, quality_document, quality_value
from tests.unit.core.trust.scene import STRANGER, bundle_document, bundle_value, entry_value

UNKNOWN = "sha256:" + "0" * 64


def make_held() -> PolicyEvidence:
    evidence = PolicyEvidence()
    evidence.add(BUNDLES, quality_value(quality_document(), STRANGER))
    evidence.add(BUNDLES, bundle_value(bundle_document(), STRANGER))
    evidence.add(REGISTRY, entry_value(override(), STRANGER))
    return evidence


def test_a_quality_bundle_is_found_by_its_hash_and_loaded_once() -> None:
    evidence, wanted = make_held(), digest(quality_document())
    found = evidence.find_quality_bundle(wanted)
    assert found is not None
    assert (found.key, found.hash) == ("q@1", wanted)
    assert evidence.find_quality_bundle(wanted) is found


def test_a_bundle_of_one_kind_is_none_of_the_other() -> None:
    evidence = make_held()
    assert evidence.find_quality_bundle(digest(bundle_document())) is None
    assert evidence.find_bundle(digest(quality_document())) is None
    assert evidence.find_quality_bundle(UNKNOWN) is None


def test_an_override_is_found_as_every_entry_is() -> None:
    found = make_held().find_entry("quality_override/o1@1", digest(override()))
    assert found is not None
    assert found.spec["approver_id"] == "alice"


def test_what_says_nothing_is_no_evidence() -> None:
    evidence = make_held()
    for value in (None, b"{}", sign(QUALITY_BUNDLE_TYPE, b"[]", [STRANGER]).encode()):
        evidence.add(BUNDLES, value)
    evidence.add(BUNDLES, sign("text/plain", json.dumps(quality_document(7)).encode(), [STRANGER]).encode())
    assert evidence.find_quality_bundle(digest(quality_document(7))) is None
