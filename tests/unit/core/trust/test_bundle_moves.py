"""Issue 23.10: one approver alone leads no agent to a laxer bundle, and takes no case out of a bundle."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.trust.quality_scene import org, quality, quality_document, trust_both
from tests.unit.core.trust.scene import (
    ALICE,
    BOB,
    ROOT_KEY,
    Topics,
    agent,
    approver,
    bundle_document,
    together,
)

STRICT = bundle_document(escalation_ttl_ms=1000)
LAX = {**bundle_document(escalation_ttl_ms=2000), "id": "lax"}
MISSING = "second_approver_missing"


def holding_both() -> Topics:
    """Topics with the bundle "small" and the laxer "lax" in force."""
    topics = trust_both()
    topics.bundle(STRICT, ALICE)
    topics.bundle(LAX, ALICE, BOB)
    return topics


def get_bundle_id(topics: Topics) -> str | None:
    return topics.reduce().registry.agents["reader"].policy_bundle_id


def led(name: str | None, revision: int = 1) -> dict[str, Any]:
    return agent(revision=revision, policy_bundle_id=name)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("small", "lax", "from small to lax: an escalation can be answered for 2000 ms, not for 1000 ms"),
        ("small", None, "from small to the default bundle, which may be lax: an escalation"),
        ("small", "nowhere", "from small to the default bundle, which may be lax: an escalation"),
        (None, "lax", "from the default bundle to lax, which may be small: an escalation"),
    ],
)
def test_two_approvers_lead_an_agent_to_a_laxer_bundle(before: str | None, after: str, told: str) -> None:
    topics = holding_both()
    topics.entry(led(before), ALICE, BOB)
    alone = topics.entry(led(after, 2), ALICE)
    assert topics.refusals() == [(alone, MISSING)]
    assert f"agent reader goes {told}" in topics.reduce().refused[0].message
    assert get_bundle_id(topics) == before
    topics.entry(led(after, 2), ALICE, BOB)
    assert get_bundle_id(topics) == after


@pytest.mark.parametrize(
    ("before", "after"), [("lax", "small"), (None, "small"), ("lax", None), ("small", "small"), (None, None)]
)
def test_one_approver_leads_an_agent_to_a_bundle_that_is_nowhere_laxer(
    before: str | None, after: str | None
) -> None:
    topics = holding_both()
    topics.entry(led(before), ALICE, BOB)
    topics.entry({**led(after, 2), "spec": {**led(after)["spec"], "tools": ["search"]}}, ALICE)
    assert (topics.refusals(), get_bundle_id(topics)) == ([], after)


def test_a_new_agent_begins_under_a_laxer_bundle_by_two_and_under_the_default_one_by_one() -> None:
    topics = holding_both()
    alone = topics.entry(led("lax"), ALICE)
    assert topics.refusals() == [(alone, MISSING)]
    topics.entry(led(None), ALICE)
    assert len(topics.refusals()) == 1
    topics.entry(led("lax", 2), ALICE, BOB)
    assert get_bundle_id(topics) == "lax"


def test_where_no_other_bundle_is_in_force_one_approver_may_name_any() -> None:
    topics = trust_both()
    topics.entry(led("lax"), ALICE)
    topics.bundle(STRICT, ALICE)
    topics.entry(led("small", 2), ALICE)
    topics.entry(led("nowhere", 3), ALICE)
    assert topics.refusals() == []


def test_a_relaxed_revision_counts_for_the_comparison_and_a_refused_one_does_not() -> None:
    topics = trust_both()
    topics.bundle(STRICT, ALICE)
    topics.bundle({**STRICT, "id": "lax"}, ALICE, BOB)
    topics.entry(led("small"), ALICE)
    topics.bundle({**LAX, "revision": 2}, ALICE)
    topics.entry(led("lax", 2), ALICE)
    assert get_bundle_id(topics) == "lax"
    topics.entry(led("small", 3), ALICE)
    topics.bundle({**LAX, "revision": 2}, ALICE, BOB)
    topics.entry(led("lax", 4), ALICE)
    assert get_bundle_id(topics) == "small"


def test_in_a_change_the_second_approver_must_still_be_one_when_it_is_whole() -> None:
    topics = holding_both()
    topics.entry(led("small"), ALICE)
    first, last = together("c", led("lax", 2), agent("other"))
    topics.entry(first, ALICE, BOB)
    topics.entry(approver("bob", BOB, 2, signs=["agent"], active=False), ROOT_KEY)
    topics.entry(last, ALICE)
    assert {code for _, code in topics.refusals()} == {MISSING, "change_refused"}
    assert get_bundle_id(topics) == "small"


def moved(tenant: str, revision: int) -> dict[str, Any]:
    return agent(revision=revision, tenant_id=tenant)


def test_two_approvers_lead_an_agent_to_a_tenant_with_a_laxer_quality_bundle() -> None:
    topics = trust_both()
    quality(topics, quality_document(), ALICE)
    quality(topics, quality_document(name="lax", ttl=1e9), ALICE)
    topics.entry(org(tenant="strict", quality_bundle_id="q"), ALICE, BOB)
    topics.entry(org(tenant="mild", quality_bundle_id="lax"), ALICE, BOB)
    topics.entry(org(tenant="empty", quality_bundle_id="nowhere"), ALICE, BOB)
    topics.entry(moved("strict", 1), ALICE)
    topics.entry(moved("mild", 2), ALICE)
    topics.entry(moved("acme", 2), ALICE)
    topics.entry(moved("empty", 3), ALICE)
    topics.entry(moved("strict", 4), ALICE)
    assert [code for _, code in topics.refusals()] == [MISSING] * 3
    told = [one.message for one in topics.reduce().refused]
    assert "agent reader goes from q to lax: " in told[0]
    assert "from q to the default quality bundle, which may be lax: " in told[1]
    assert "from quality bundle nowhere, which is not in force, to q" in told[2]
    topics.entry(moved("strict", 4), ALICE, BOB)
    assert topics.reduce().registry.agents["reader"].tenant == "strict"


def test_two_approvers_lead_an_agent_to_a_tenant_in_shadow() -> None:
    topics = trust_both()
    topics.entry(org(tenant="trial", enforcement="shadow"), ALICE, BOB)
    topics.entry(moved("acme", 1), ALICE)
    alone = topics.entry(moved("trial", 2), ALICE)
    assert topics.refusals() == [(alone, MISSING)]
    assert (
        "agent reader goes from tenant acme to trial, which is in shadow"
        in topics.reduce().refused[0].message
    )
    topics.entry(moved("trial", 2), ALICE, BOB)
    topics.entry(moved("acme", 3), ALICE)
    assert topics.reduce().registry.agents["reader"].tenant == "acme"


CASE: dict[str, Any] = {"name": "reads", "action": {"toolName": "read"}, "expect": {"outcome": "ESCALATE"}}
OTHER = {**CASE, "name": "writes"}
RULED = {**CASE, "name": "ruled", "expect": {"outcome": "ESCALATE", "rules": {"few": True}}}


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ([CASE], "the case 'writes' is gone"),
        ([CASE, {**OTHER, "action": {"toolName": "x"}}], "the case 'writes' no longer asks for what it did"),
        ([CASE, {**OTHER, "expect": {"outcome": "ALLOW"}}], "the case 'writes' no longer asks"),
        ([CASE, {**RULED, "expect": {"outcome": "BLOCK"}}], "the case 'ruled' no longer asks"),
        ([{**CASE, "expect": {"outcome": "ESCALATE", "gate": "rules"}}, OTHER], "the case 'reads' no longer"),
    ],
)
def test_two_approvers_take_a_case_out_of_a_policy_bundle(after: list[Any], told: str) -> None:
    topics = trust_both()
    topics.bundle(bundle_document(cases=[CASE, RULED if after[-1]["name"] == "ruled" else OTHER]), ALICE)
    alone = topics.bundle(bundle_document(2, cases=after), ALICE)
    assert topics.refusals() == [(alone, MISSING)]
    assert f"it relaxes small@1: {told}" in topics.reduce().refused[0].message
    topics.bundle(bundle_document(2, cases=after), ALICE, BOB)
    assert topics.reduce().bundles["small"].revision == 2


@pytest.mark.parametrize(
    "after",
    [[OTHER, CASE], [CASE, OTHER, {**CASE, "name": "new"}], [{**CASE, "expect": {"outcome": "BLOCK"}}]],
)
def test_one_approver_adds_cases_moves_them_and_lets_them_expect_more(after: list[Any]) -> None:
    topics = trust_both()
    before = [CASE, OTHER][: len(after)]
    topics.bundle(bundle_document(cases=before), ALICE)
    topics.bundle(bundle_document(2, cases=after), ALICE)
    assert (topics.refusals(), topics.reduce().bundles["small"].revision) == ([], 2)


def test_two_approvers_take_a_case_out_of_a_quality_bundle() -> None:
    topics = trust_both()
    first, second = quality_document()["cases"][0], {**quality_document()["cases"][0], "name": "another"}
    quality(topics, quality_document(cases=[first, second]), ALICE)
    alone = quality(topics, quality_document(2, cases=[first]), ALICE)
    assert topics.refusals() == [(alone, MISSING)]
    assert "the case 'another' is gone" in topics.reduce().refused[0].message
    quality(topics, quality_document(2, cases=[first]), ALICE, BOB)
    assert topics.reduce().quality["q"].revision == 2
