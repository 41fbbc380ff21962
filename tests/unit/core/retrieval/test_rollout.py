"""Flag-only: a class is judged and never withheld for its quality, and the event says what it would be."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.core.retrieval.scene import (
    OLD,
    POISONED,
    SUSPECT,
    TEXT,
    TIERS,
    Scene,
    flag_only,
    item,
    quality,
)

SOFT = quality(rollout=flag_only("legal_text"))


@pytest.mark.parametrize(
    ("tier", "real"), [("sandbox", "flag"), ("bounded", "deny"), ("high_privilege", "deny")]
)
def test_an_old_item_goes_out_flagged_with_what_it_would_have_been(tier: str, real: str) -> None:
    scene = Scene(quality=SOFT)
    found = scene.read(item(timestamp=OLD), agent_id=tier)
    event = found.event
    assert (event["outcome"], event["would_have_been"], event["rollout"]) == ("flag", real, "flag_only")
    assert (event["flags_set"], event["reason_codes"]) == (["stale"], ["FRESHNESS_TTL_EXCEEDED"])
    assert found.served["items"][0]["body"] == TEXT
    assert [one["outcome"] for one in event["stages"]][3] == real
    assert scene.statuses() == {"identical"}


def test_what_passes_would_have_passed() -> None:
    event = Scene(quality=SOFT).read().event
    assert (event["outcome"], event["would_have_been"]) == ("pass", "pass")


def test_a_class_in_enforce_hides_nothing() -> None:
    event = Scene(quality=SOFT).read(item(content_class="internal_policy", timestamp=OLD)).event
    assert (event["outcome"], event["rollout"], event["would_have_been"]) == ("deny", "enforce", None)


def test_an_item_that_would_have_been_withheld_is_still_read_for_its_content() -> None:
    suspect, poisoned = item(timestamp=OLD, body=SUSPECT), item(timestamp=OLD, body=POISONED)
    found = Scene(quality=SOFT).read(suspect, poisoned)
    assert found.outcomes == ["downgrade", "deny"]
    assert [one["would_have_been"] for one in found.events] == ["deny", "deny"]


def test_a_class_that_the_bundle_does_not_know_is_enforced() -> None:
    event = Scene(quality=SOFT).read(item(content_class="gossip"), agent_id="high_privilege").event
    assert (event["outcome"], event["rollout"], event["would_have_been"]) == ("deny", "enforce", None)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(TIERS),
    st.sampled_from([None, OLD, "2025-11-20T10:00:00Z", "2999-01-01T00:00:00Z"]),
    st.sampled_from([None, 0, 0.3, 0.9, "high", True]),
    st.sampled_from([None, "https://example.com/terms", "https://unknown.example/", "ftp://x.example/y", 7]),
)
def test_flag_only_never_withholds_for_quality(tier: str, time: object, score: object, uri: object) -> None:
    fields = {"timestamp": time, "confidence_score": score, "provenance_uri": uri}
    event = Scene(quality=SOFT).read(item(**fields), agent_id=tier).event
    real = Scene().read(item(**fields), agent_id=tier).event
    assert event["outcome"] in ("pass", "flag")
    assert (event["would_have_been"], event["flags_set"]) == (real["outcome"], real["flags_set"])
    assert event["body_released"]
