"""The quality bundle that a worker decides with, as its settings name it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sluice.core.registry.registry_entries import NO_ORG
from sluice.core.trust.in_force import PolicyReducer
from tests.unit.core.trust.quality_scene import org, quality, quality_document, trust_both
from tests.unit.core.trust.scene import ALICE, BOB, ROOTS, Topics, bundle_document

if TYPE_CHECKING:
    from sluice.core.policy.policy import Policy


def policy_of(topics: Topics, default_quality: str) -> Policy:
    """The policy itself in place of a decision point over it."""
    point: Any = PolicyReducer(ROOTS, "small", lambda policy: cast("Any", policy), default_quality)(
        topics.records
    ).point
    return cast("Policy", point)


def run_worker() -> Topics:
    topics = trust_both()
    topics.bundle(bundle_document(), ALICE)
    quality(topics, quality_document(), ALICE)
    return topics


def test_the_default_of_the_settings_judges_tenants_that_name_none() -> None:
    asked_for, bundle = policy_of(run_worker(), "q").find_quality(NO_ORG)
    assert asked_for == "q"
    assert bundle is not None
    assert bundle.revision == 1


def test_without_it_in_force_policy_still_decides_and_there_is_no_quality_bundle() -> None:
    assert policy_of(run_worker(), "other").find_quality(NO_ORG) == ("other", None)


def test_a_tenants_own_goes_before_the_default_even_where_nobody_knows_it() -> None:
    topics = run_worker()
    topics.entry(org(quality_bundle_id="strict"), ALICE, BOB)
    policy = policy_of(topics, "q")
    assert policy.find_quality(policy.registry.orgs["acme"]) == ("strict", None)
