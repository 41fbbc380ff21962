"""A retrieval from its request to what the agent may see: one event per item, and nothing served without."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.metadata.provenance import Resolution
from tests.unit.core.retrieval.scene import HASH, OLD, SUSPECT, TERMS, TEXT, TIERS, Scene, item
from tests.unit.core.scene import START

SEED_FIELDS = {
    "timestamp",
    "request_hash",
    "item_id",
    "content_class",
    "freshness_age_seconds",
    "confidence_score",
    "provenance_uri",
    "provenance_hash_verified",
    "quality_bundle_hash",
    "outcome",
    "flags_set",
    "trace_id",
    "ledger_event_id",
}
NEWS = "https://news.example/1"


@pytest.mark.parametrize("tier", TIERS)
def test_a_good_item_passes_every_stage_and_is_served_whole(tier: str) -> None:
    found = Scene().read(agent_id=tier)
    assert found.stages == ["controls", "access", "poisoning", "quality", "content"]
    assert (found.event["outcome"], found.event["reason"], found.event["flags_set"]) == ("pass", None, [])
    (served,) = found.served["items"]
    assert (served["body"], served["outcome"], set(served["flags"].values())) == (TEXT, "pass", {False})
    assert found.served["withheld"] == []


def test_the_event_has_every_field_that_the_seed_lists_with_the_item_s_values() -> None:
    event = Scene().read(traceId="t-1").event
    assert event.keys() >= SEED_FIELDS
    assert event["timestamp"] == "2025-11-21T13:00:00.000Z"
    assert event["freshness_age_seconds"] == 27 * 3600
    assert (event["confidence_score"], event["provenance_uri"]) == (0.9, TERMS)
    assert (event["provenance_hash_verified"], event["trace_id"]) == (True, "t-1")


def test_one_event_per_item_in_the_request_s_order() -> None:
    good, old, doubtful = item(), item(item_id="i-2", timestamp=OLD), item(item_id="i-3", body=SUSPECT)
    found = Scene().read(good, old, doubtful)
    assert [(one["place"], one["item_id"]) for one in found.events] == [(0, "i-1"), (1, "i-2"), (2, "i-3")]
    assert found.outcomes == ["pass", "deny", "downgrade"]
    assert len({one["ledger_event_id"] for one in found.events}) == 3


def test_a_downgraded_item_is_acknowledged_without_its_body() -> None:
    (served,) = Scene().serve(item(confidence_score=0.1, content_class="internal_policy"))["items"]
    assert (served["outcome"], served["body"], served["flags"]["low_confidence"]) == ("downgrade", None, True)


def test_a_denied_item_is_named_with_its_codes_and_nothing_else_of_it() -> None:
    served = Scene().serve(item(timestamp=OLD))
    (withheld,) = served["withheld"]
    assert served["items"] == []
    assert withheld.keys() == {"item_id", "ledger_event_id", "reason_codes", "escalation_id"}
    assert withheld["reason_codes"] == ["FRESHNESS_TTL_EXCEEDED"]


def test_a_request_that_comes_again_is_judged_again_since_items_grow_old() -> None:
    scene = Scene()
    pricing = item(content_class="product_pricing", timestamp="2025-11-21T12:00:00Z")
    assert scene.read(pricing).outcomes == ["pass"]
    scene.now += 86_400_000
    assert scene.read(pricing).outcomes == ["deny"]


def test_the_same_id_twice_is_two_items() -> None:
    found = Scene().read(item(), item(timestamp=OLD))
    assert found.outcomes == ["pass", "deny"]


@pytest.mark.parametrize("body", ["", 0, False, [], {}, {"a": [1, None, "x"]}, [0.5], 10**20])
def test_a_body_may_be_any_json(body: Any) -> None:
    found = Scene().read(item(body=body))
    assert found.served["items"][0]["body"] == (str(body) if body == 10**20 else body)
    assert found.stages[-1] == "content"


def test_an_item_without_a_body_is_served_as_its_metadata() -> None:
    found = Scene().read(item(body=None))
    assert (found.event["body_digest"], found.event["body_released"]) == (None, False)
    assert found.stages[-1] == "quality"
    assert found.served["items"][0]["body"] is None


def test_a_reference_that_nobody_resolved_yet_is_asked_for_once_and_nothing_waits_for_it() -> None:
    one, other = (item(item_id=name, provenance_uri=NEWS) for name in ("i-1", "i-2"))
    found = Scene().read(one, other, item(item_id="i-3"))
    assert found.outcomes == ["flag", "flag", "pass"]
    (wanted,) = found.bodies("ProvenanceWanted")
    assert (wanted["tenant_id"], wanted["uri"], wanted["wanted_by"]) == ("acme", NEWS, "retrieval")


def test_a_recorded_resolution_is_relied_on_and_recorded_with_the_decision() -> None:
    seen = Resolution("resolved", HASH, "http", START - 1000, "")
    found = Scene(provenance={("acme", NEWS): seen}).read(item(provenance_uri=NEWS))
    assert found.outcomes == ["pass"]
    assert found.bodies("ProvenanceWanted") == []
    assert found.event["seen"] == {
        "status": "resolved",
        "resolver": "http",
        "hash": HASH,
        "seen_at": START - 1000,
        "detail": "",
    }


def test_a_resolution_of_another_tenant_s_is_nobody_else_s() -> None:
    seen = Resolution("resolved", HASH, "http", START - 1000, "")
    found = Scene(provenance={("globex", NEWS): seen}).read(item(provenance_uri=NEWS))
    assert (found.event["flags_set"], found.event["seen"]) == (["provenance_unverified"], None)


def test_the_stricter_of_the_registered_and_the_asked_tier_counts() -> None:
    scene = Scene()
    asked = [
        scene.read(agent_id=agent, autonomy_tier=tier).event["autonomy_tier"]
        for agent, tier in [
            ("sandbox", "bounded"),
            ("bounded", "sandbox"),
            ("sandbox", None),
            ("untiered", None),
            ("untiered", "bounded"),
            ("untiered", "sandbox"),
            ("nobody", None),
        ]
    ]
    assert asked == [
        "bounded",
        "bounded",
        "sandbox",
        "high_privilege",
        "high_privilege",
        "high_privilege",
        "high_privilege",
    ]
