"""Registered sources of memories, their exemptions, and who may review what was held."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.foundation.errors import RegistryError
from sluice.core.registry.loading import load_registry
from tests.unit.core.scene import POINT_KEY, entry, public_key
from tests.unit.core.trust.scene import ALICE, BOB, ROOT_KEY, approver, trust_alice
from tests.unit.core.trust.scene import Topics as SignedTopics

if TYPE_CHECKING:
    from sluice.core.registry.registry import Registry

REASON = "The scanner of the archive knows no timestamps."


def source(name: str = "crm", revision: int = 1, **spec: Any) -> dict[str, Any]:
    fields = {"tenant_id": "acme", "source_id": name, **spec}
    return entry("source", f"{fields['tenant_id']}/{fields['source_id']}", revision, **fields)


def load(*entries: dict[str, Any]) -> Registry:
    return load_registry(json.dumps({"entries": list(entries)}).encode())


def test_a_source_is_known_by_its_tenant_and_its_own_id() -> None:
    found = load(source(type="plugin"), source(tenant_id="globex", type="external")).sources
    assert {name: one.type for name, one in found.items()} == {
        ("acme", "crm"): "plugin",
        ("globex", "crm"): "external",
    }
    assert found["acme", "crm"].key == "source/acme/crm@1"
    assert found["acme", "crm"].hash.startswith("sha256:")


def test_a_source_is_not_exempt_unless_its_entry_says_so_and_why() -> None:
    assert not load(source()).sources["acme", "crm"].quality_exempt
    exempt = load(source(quality_exempt=True, reason=REASON)).sources["acme", "crm"]
    assert (exempt.quality_exempt, exempt.reason) == (True, REASON)


@pytest.mark.parametrize("reason", [None, "", "too short", " " * 20, "   short      "])
def test_an_exemption_without_a_reason_is_refused(reason: str | None) -> None:
    with pytest.raises(RegistryError, match="reason of at least 10 characters"):
        load(source(quality_exempt=True, reason=reason))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (entry("source", "crm", tenant_id="acme", source_id="crm"), r"\$\.entries\[0\]\.id: .* is acme/crm"),
        (source(tenant_id="a/b"), r"\.spec\.tenant_id"),
        (source(tenant_id="unregistered"), r"\.spec\.tenant_id"),
        (source(type="robot"), r"\.spec\.type"),
        (source(quality_exempt="yes"), r"\.spec\.quality_exempt"),
        (source(colour="red"), r"\.spec\.colour"),
    ],
)
def test_a_wrong_source_is_refused_with_its_place(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        load(wrong)


def make_signed_topics(*kinds: str) -> SignedTopics:
    topics = trust_alice()
    topics.entry(approver("bob", BOB, signs=list(kinds)), ROOT_KEY)
    return topics


def test_an_exemption_counts_when_signed_by_who_may_and_ends_with_the_next_revision() -> None:
    topics = make_signed_topics("source")
    topics.entry(source(quality_exempt=True, reason=REASON), BOB)
    assert topics.reduce().registry.sources["acme", "crm"].quality_exempt
    topics.entry(source(revision=2), BOB)
    assert not topics.reduce().registry.sources["acme", "crm"].quality_exempt


def test_an_exemption_of_another_signer_does_not_count() -> None:
    topics = make_signed_topics("bundle", "agent")
    refused = topics.entry(source(quality_exempt=True, reason=REASON), BOB)
    assert topics.reduce().registry.sources == {}
    assert topics.refusals() == [(refused, "key_not_allowed")]


def test_a_signed_entry_under_another_sources_id_is_refused_at_its_id() -> None:
    topics = make_signed_topics("source")
    topics.entry({**source(), "id": "acme/erp"}, BOB)
    (refused,) = topics.reduce().refused
    assert (refused.code, refused.path) == ("invalid_entry", "$.id")


def test_a_reviewer_is_of_every_tenant_unless_the_entry_names_some() -> None:
    key = public_key(POINT_KEY)
    everywhere = entry("approver", "rita", public_key=key, roles=["reviewer"])
    somewhere = entry("approver", "rolf", public_key=ALICE.public.text, roles=["reviewer"], tenants=["acme"])
    found = load(everywhere, somewhere).approvers
    assert found["rita"].roles == found["rolf"].roles == {"reviewer"}
    assert found["rita"].tenants is None
    assert found["rolf"].tenants == frozenset({"acme"})
    with pytest.raises(RegistryError, match=r"\.spec\.roles"):
        load(entry("approver", "rita", public_key=key, roles=["janitor"]))
