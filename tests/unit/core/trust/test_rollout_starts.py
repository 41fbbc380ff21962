"""A flag-only that begins in the future would never be overdue, so nobody publishes one (seed 004)."""

from __future__ import annotations

import pytest

from tests.unit.core.trust.quality_scene import SHIPPED, quality, quality_document, trust_both
from tests.unit.core.trust.scene import ALICE, BOB, START

PUBLISHED_MS = START + 3000
"""Of the third record: 2025-11-21T13:00:03Z."""


def collect_refusals(since: str, mode: str = "flag_only") -> list[tuple[str, str, str]]:
    topics = trust_both()
    rollout = {**SHIPPED["rollout"], "legal_text": {"mode": mode, "since": since}}
    published = quality(topics, quality_document(rollout=rollout), ALICE, BOB)
    assert published.timestamp_ms == PUBLISHED_MS
    return [(one.code, one.path, one.message) for one in topics.reduce().refused]


@pytest.mark.parametrize("since", ["2025-11-22T13:00:03.001Z", "2999-01-01T00:00:00.000Z"])
def test_a_flag_only_that_begins_more_than_a_day_ahead_is_refused_whoever_signed_it(since: str) -> None:
    told = "flag-only published now begins by 2025-11-22T13:00:03.000Z"
    assert collect_refusals(since) == [("invalid_bundle", "$.rollout.legal_text.since", told)]


@pytest.mark.parametrize("since", ["2025-11-22T13:00:03.000Z", "2025-11-21T00:00:00.000Z"])
def test_one_within_the_day_counts(since: str) -> None:
    assert collect_refusals(since) == []


def test_an_enforced_class_may_name_any_day_since_no_alarm_waits_for_it() -> None:
    assert collect_refusals("2999-01-01T00:00:00.000Z", "enforce") == []
