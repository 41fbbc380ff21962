"""Who may read a content class at all: by the agent's registered classes and the bundle's tenants."""

from __future__ import annotations

import pytest

from tests.unit.core.retrieval.scene import Scene, flag_only, item, quality

CLOSED = quality(access={"legal_text": {"tenants": ["globex"]}, "internal_policy": {"tenants": None}})


def test_an_agent_reads_the_classes_that_it_was_granted() -> None:
    scene = Scene()
    other = item(item_id="i-2", content_class="internal_policy")
    found = scene.read(item(), other, agent_id="lawyer", autonomy_tier="bounded")
    assert found.outcomes == ["pass", "deny"]
    assert found.events[1]["reason"] == "class_not_granted: to agent lawyer"
    assert scene.statuses() == {"identical"}


@pytest.mark.parametrize("named", [None, 5, ["legal_text"], "legal_text ", "LEGAL_TEXT", "no_such_class"])
def test_what_is_not_exactly_a_granted_class_is_denied(named: object) -> None:
    event = Scene().read(item(content_class=named), agent_id="lawyer").event
    assert (event["outcome"], event["reason_codes"]) == ("deny", ["ACCESS_DENIED"])


def test_a_class_may_be_for_some_tenants_only() -> None:
    scene = Scene(quality=CLOSED)
    assert scene.read().event["reason"] == "class_not_granted: to tenant acme"
    assert scene.read(agent_id="other").outcomes == ["pass"]
    assert scene.read(item(content_class="internal_policy")).outcomes == ["pass"]
    assert scene.statuses() == {"identical"}


def test_nothing_of_the_quality_of_an_item_is_said_to_who_may_not_read_it() -> None:
    event = Scene(quality=CLOSED).read().event
    assert (event["dimensions"], event["flags_set"], event["freshness_age_seconds"]) == ([], [], None)
    assert event["provenance_hash_verified"] is False


def test_flag_only_opens_no_closed_class() -> None:
    closed = quality(access={"legal_text": {"tenants": ["globex"]}}, rollout=flag_only("legal_text"))
    assert Scene(quality=closed).read().outcomes == ["deny"]


@pytest.mark.parametrize("named", [None, 5, ["legal_text"], "legal_text ", "Legal_text", "no_such_class"])
def test_where_classes_are_closed_nobody_gets_in_by_a_name_that_the_bundle_does_not_know(
    named: object,
) -> None:
    scene = Scene(quality=CLOSED)
    event = scene.read(item(content_class=named), agent_id="sandbox").event
    assert (event["outcome"], event["reason_codes"]) == ("deny", ["ACCESS_DENIED"])
    assert scene.statuses() == {"identical"}


def test_a_class_that_is_open_to_all_by_name_closes_no_other() -> None:
    open_to_all = quality(access={"legal_text": {"tenants": None}})
    event = Scene(quality=open_to_all).read(item(content_class="gossip"), agent_id="sandbox").event
    assert event["outcome"] == "flag"
