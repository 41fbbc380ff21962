"""What two approvers must sign (another quality bundle for a tenant,
fewer or other people who approve), and whose word an override is (seed 004)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.trust.quality_scene import (
    ROLES,
    SIGNS,
    find_in_force,
    org,
    override,
    quality,
    quality_document,
    trust_both,
)
from tests.unit.core.trust.scene import (
    ALICE,
    BOB,
    ROOT_KEY,
    START,
    Topics,
    agent,
    approver,
    bundle_document,
    together,
)

LAX = quality_document(name="lax", ttl=1e9)


def find_name(topics: Topics) -> str | None:
    known = topics.reduce().registry.orgs.get("acme")
    return None if known is None else known.quality_bundle_id


def test_one_approver_cannot_lead_a_tenant_to_a_lax_bundle_of_a_new_name() -> None:
    topics = trust_both()
    quality(topics, quality_document(), ALICE)
    quality(topics, LAX, ALICE)
    switch = topics.entry(org(quality_bundle_id="lax"), ALICE)
    assert topics.refusals() == [(switch, "second_approver_missing")]
    assert "from the default quality bundle to lax" in topics.reduce().refused[0].message
    assert find_name(topics) is None


def test_nor_to_a_name_that_is_filled_later() -> None:
    topics = trust_both()
    topics.entry(org(quality_bundle_id="lax"), ALICE, BOB)
    alone = quality(topics, LAX, ALICE)
    assert topics.refusals() == [(alone, "second_approver_missing")]
    assert "tenant acme names it already" in topics.reduce().refused[0].message
    quality(topics, LAX, ALICE, BOB)
    assert find_in_force(topics, "lax") == 1


def test_nor_back_to_the_default() -> None:
    topics = trust_both()
    topics.entry(org(quality_bundle_id="strict"), ALICE, BOB)
    for revision in (2, 3):
        topics.entry(org(revision), ALICE)
    assert [code for _, code in topics.refusals()] == ["second_approver_missing"] * 2
    assert find_name(topics) == "strict"


def test_two_approvers_can_and_one_may_change_the_rest_of_the_entry() -> None:
    topics = trust_both()
    topics.entry(org(quality_bundle_id="lax"), ALICE, BOB)
    topics.entry(org(2, quality_bundle_id="lax", irreversible_row_threshold=5), ALICE)
    assert topics.refusals() == []
    assert find_name(topics) == "lax"


def test_a_tenant_that_names_none_needs_one_approver() -> None:
    topics = trust_both()
    topics.entry(org(), ALICE)
    assert topics.refusals() == []


def enforcement(topics: Topics) -> str | None:
    known = topics.reduce().registry.orgs.get("acme")
    return None if known is None else known.enforcement


def test_one_approver_cannot_lead_an_enforced_tenant_into_shadow_mode() -> None:
    topics = trust_both()
    topics.entry(org(), ALICE)
    later = topics.entry(org(2, enforcement="shadow"), ALICE)
    assert topics.refusals() == [(later, "second_approver_missing")]
    assert "acme goes from enforce to shadow" in topics.reduce().refused[0].message
    assert enforcement(topics) == "enforce"


def test_a_tenant_may_begin_in_shadow_mode_with_one_approver() -> None:
    topics = trust_both()
    topics.entry(org(enforcement="shadow"), ALICE)
    assert topics.refusals() == []
    assert enforcement(topics) == "shadow"


def test_two_approvers_can_and_one_leads_it_out_again() -> None:
    topics = trust_both()
    topics.entry(org(enforcement="shadow"), ALICE, BOB)
    topics.entry(org(2, enforcement="shadow", irreversible_row_threshold=5), ALICE)
    assert enforcement(topics) == "shadow"
    topics.entry(org(3, enforcement="enforce"), BOB)
    assert topics.refusals() == []
    assert enforcement(topics) == "enforce"


def test_in_a_change_of_several_entries_the_second_approver_must_still_be_one_at_its_end() -> None:
    topics = trust_both()
    first, last = together("c", org(quality_bundle_id="lax"), agent())
    topics.entry(first, ALICE, BOB)
    topics.entry(approver("bob", BOB, 2, signs=SIGNS, active=False), ROOT_KEY)
    topics.entry(last, ALICE)
    assert {code for _, code in topics.refusals()} == {"second_approver_missing", "change_refused"}
    assert find_name(topics) is None


def overrides(topics: Topics) -> list[str]:
    return [one.approver_id for one in topics.reduce().registry.overrides.get(("acme", "doc-1"), [])]


def test_an_override_is_its_approvers_word() -> None:
    topics = trust_both()
    topics.entry(override(), ALICE)
    (one,) = topics.reduce().registry.overrides["acme", "doc-1"]
    assert (one.id, one.approver_id, one.expires_ms) == ("o1", "alice", START + 86_400_000)


def refusal(spec: dict[str, Any], limits: dict[str, Any] | None = None) -> tuple[str, str]:
    topics = trust_both()
    if limits is not None:
        topics.entry(approver("alice", ALICE, 2, **{"signs": SIGNS, "roles": ROLES, **limits}), ROOT_KEY)
    topics.entry(override(**spec), ALICE)
    assert overrides(topics) == []
    (one,) = topics.reduce().refused
    return one.code, one.path


@pytest.mark.parametrize(
    ("spec", "limits", "told"),
    [
        ({"approver_id": "bob"}, None, ("key_not_allowed", "$.spec.approver_id")),
        ({"approver_id": "nobody"}, None, ("key_not_allowed", "$.spec.approver_id")),
        ({}, {"signs": ["org"]}, ("key_not_allowed", "$.signatures")),
        ({}, {"active": False}, ("key_not_allowed", "$.signatures")),
        ({}, {"roles": ["reviewer"]}, ("key_not_allowed", "$.spec.approver_id")),
        ({}, {"tenants": ["globex"]}, ("key_not_allowed", "$.spec.tenant_id")),
        ({"expires_at": "2025-12-21T13:00:04.000Z"}, None, ("invalid_entry", "$.spec.expires_at")),
        ({"expires_at": "9999-12-31T23:59:59.999Z"}, None, ("invalid_entry", "$.spec.expires_at")),
        ({"justification": "because"}, None, ("invalid_entry", "$.spec.justification")),
        ({"justification": " " * 20}, None, ("invalid_entry", "$.spec.justification")),
        ({"tenant_id": "unregistered"}, None, ("invalid_entry", "$.spec.tenant_id")),
    ],
)
def test_an_override_that_breaks_a_rule_is_refused(
    spec: dict[str, Any], limits: dict[str, Any] | None, told: tuple[str, str]
) -> None:
    assert refusal(spec, limits) == told


@pytest.mark.parametrize("role", ["approver", "vp"])
def test_either_role_that_answers_escalations_will_do(role: str) -> None:
    topics = trust_both()
    topics.entry(approver("alice", ALICE, 2, signs=SIGNS, roles=[role]), ROOT_KEY)
    topics.entry(override(), ALICE)
    assert overrides(topics) == ["alice"]


def test_an_override_ends_within_thirty_days_of_its_record() -> None:
    topics = trust_both()
    topics.entry(override(expires_at="2025-12-21T13:00:03.000Z"), ALICE)
    assert overrides(topics) == ["alice"]


def test_an_override_that_waits_for_its_change_gains_no_time_by_waiting() -> None:
    topics = trust_both()
    first, last = together("c", override(expires_at="2025-12-21T13:00:04.000Z"), agent())
    topics.entry(last, ALICE)
    topics.now_ms += 86_400_000
    topics.entry(first, ALICE)
    assert overrides(topics) == ["alice"]
    early = trust_both()
    early.entry(first, ALICE)
    early.now_ms += 86_400_000
    early.entry(last, ALICE)
    assert overrides(early) == []


def test_the_signature_of_another_beside_the_approvers_does_no_harm() -> None:
    topics = trust_both()
    topics.entry(override(approver_id="bob"), ALICE, BOB)
    assert overrides(topics) == ["bob"]


def test_a_newer_revision_takes_an_override_back() -> None:
    topics = trust_both()
    topics.entry(override(), ALICE)
    topics.entry(override(revision=2, approver_id="bob", active=False), BOB)
    assert overrides(topics) == []
    assert topics.refusals() == []


def make_bundle_with(revision: int, **approvals: Any) -> dict[str, Any]:
    """A policy bundle with these terms."""
    return bundle_document(revision, approvals=approvals)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"quorum": {"T4": 2}}, {"quorum": {"T4": 1}}, "an action of T4 needs 1 approvals, not 2"),
        ({"quorum": {"T4": 2}}, {}, "an action of T4 needs 1 approvals, not 2"),
        ({"own_key_tiers": ["T4"]}, {}, "a delegate may sign answers to actions of T4"),
        (
            {"routing": [{"groups": ["desk"]}]},
            {"routing": [{"groups": ["desk"], "tiers": ["T3"]}]},
            "what went to desk: every approver may answer",
        ),
    ],
)
def test_one_approver_cannot_let_fewer_or_others_approve(
    before: dict[str, Any], after: dict[str, Any], told: str
) -> None:
    topics = trust_both()
    topics.bundle(make_bundle_with(1, **before), ALICE)
    alone = topics.bundle(make_bundle_with(2, **after), ALICE)
    assert topics.refusals() == [(alone, "second_approver_missing")]
    assert f"it relaxes small@1: {told}" in topics.reduce().refused[0].message
    topics.bundle(make_bundle_with(2, **after), ALICE, BOB)
    assert topics.reduce().bundles["small"].revision == 2
    assert list(topics.reduce().entries.values())[-1].relaxations == (told,)


RULE = {"id": "no_drop", "type": "forbidden", "reason": "no", "condition": "action.tool == 'drop'"}
PATTERN = {"id": "pat", "reason": "no", "severity": "critical", "source": "own", "targets": ["/etc/shadow"]}


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"rules": [RULE]}, {"rules": []}, "the rule no_drop is gone"),
        ({"irreversible_row_threshold": 5}, {"irreversible_row_threshold": 6}, "denied above 6 rows"),
        ({"patterns": {"targets": [PATTERN]}}, {"patterns": {}}, "the pattern pat is gone"),
        ({"memory": {}}, {"memory": {"enabled": False}}, "memory: every memory write is allowed"),
        ({}, {"stages": ["controls", "tier_auth"]}, "the gate limits no longer runs"),
        ({"topology": {}}, {"topology": {"max_chain_depth": 9}}, "a chain may hold 9 delegations"),
    ],
)
def test_one_approver_cannot_relax_a_policy_bundle_in_anything(
    before: dict[str, Any], after: dict[str, Any], told: str
) -> None:
    topics = trust_both()
    topics.bundle(bundle_document(1, **before), ALICE)
    alone = topics.bundle(bundle_document(2, **after), ALICE)
    assert topics.refusals() == [(alone, "second_approver_missing")]
    assert told in topics.reduce().refused[0].message
    topics.bundle(bundle_document(2, **after), ALICE, BOB)
    assert topics.reduce().bundles["small"].revision == 2
    assert told in list(topics.reduce().entries.values())[-1].relaxations[0]
    topics.bundle(bundle_document(3, **before), BOB)
    assert topics.reduce().bundles["small"].revision == 3


def test_one_approver_begins_an_installation_and_two_add_a_bundle_under_a_new_id() -> None:
    topics = trust_both()
    other = {**bundle_document(), "id": "other"}
    topics.bundle(bundle_document(), ALICE)
    alone = topics.bundle(other, ALICE)
    assert topics.refusals() == [(alone, "second_approver_missing")]
    assert "a policy bundle under a new id, beside small" in topics.reduce().refused[0].message
    topics.bundle({**other, "revision": 7}, BOB)
    assert sorted(topics.reduce().bundles) == ["small"]
    topics.bundle(other, ALICE, BOB)
    assert sorted(topics.reduce().bundles) == ["other", "small"]
    topics.bundle({**other, "revision": 2}, ALICE)
    assert topics.reduce().bundles["other"].revision == 2


def test_one_approver_may_ask_for_more_approvals_and_fewer_groups() -> None:
    topics = trust_both()
    topics.bundle(make_bundle_with(1, quorum={"T3": 1}), ALICE)
    topics.bundle(make_bundle_with(2, quorum={"T3": 2}, routing=[{"groups": ["desk"]}]), ALICE)
    assert (topics.refusals(), topics.reduce().bundles["small"].revision) == ([], 2)
