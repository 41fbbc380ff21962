"""A tenant in shadow mode: nothing is withheld, everything is recorded as it would have been."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.retrieval.scene import OLD, POISONED, SUSPECT, TEXT, Scene, item, quality
from tests.unit.core.scene import entry

FROZEN = entry("freeze", "f1", subject="agent", subject_id="trial", reason="an incident")
BAD = entry("known_bad", "k1", tenant_id=None, subject="item", value="i-1", reason="by an attacker")


@pytest.mark.parametrize(
    ("made", "fields", "code"),
    [
        ({"entries": (FROZEN,)}, {}, "FROZEN"),
        ({"quality": quality(access={"legal_text": {"tenants": []}})}, {}, "ACCESS_DENIED"),
        ({"entries": (BAD,)}, {}, "KNOWN_BAD"),
        ({}, {"timestamp": OLD}, "FRESHNESS_TTL_EXCEEDED"),
        ({}, {"body": POISONED}, "CONTENT_UNSAFE"),
    ],
)
def test_what_would_be_denied_goes_out_flagged(made: Any, fields: Any, code: str) -> None:
    scene = Scene(**made)
    found = scene.read(item(**fields), agent_id="trial")
    event = found.event
    assert (event["outcome"], event["would_have_been"], event["enforcement"]) == ("flag", "deny", "shadow")
    assert event["reason_codes"] == [code]
    assert found.served["items"][0]["body"] == fields.get("body", TEXT)
    assert found.bodies("RetrievalEscalationOpened") == []
    assert scene.statuses() == {"identical"}


def test_what_an_earlier_stage_would_have_denied_is_judged_to_the_end_and_has_its_flags() -> None:
    found = Scene(entries=(BAD,)).read(item(timestamp=OLD, body=SUSPECT), agent_id="trial")
    event = found.event
    assert [one["stage"] for one in event["stages"]] == [
        "controls",
        "access",
        "poisoning",
        "quality",
        "content",
    ]
    assert event["flags_set"] == ["stale", "content_suspect"]
    assert event["reason_codes"] == ["KNOWN_BAD", "FRESHNESS_TTL_EXCEEDED", "CONTENT_UNSAFE"]
    assert event["would_have_been"] == "deny"


def test_without_a_quality_bundle_nothing_could_be_flagged_so_nothing_is_served() -> None:
    scene = Scene(quality=None)
    found = scene.read(agent_id="trial")
    assert (found.event["outcome"], found.event["reason_codes"]) == ("deny", ["NO_QUALITY_BUNDLE"])
    assert found.served["items"] == []
    assert scene.statuses() == {"identical"}


def test_what_passes_passes() -> None:
    event = Scene().read(agent_id="trial").event
    assert (event["outcome"], event["would_have_been"]) == ("pass", "pass")


def test_a_downgrade_is_shown_with_its_body() -> None:
    found = Scene().read(item(confidence_score=0.1, content_class="internal_policy"), agent_id="trial")
    assert (found.event["outcome"], found.event["would_have_been"]) == ("flag", "downgrade")
    assert found.served["items"][0]["body"] == TEXT


def test_an_unregistered_agent_has_no_tenant_that_could_let_it_read() -> None:
    assert Scene().read(agent_id="nobody").event["enforcement"] == "enforce"
