"""A tenant in shadow mode: nothing is withheld, everything is recorded as it would have been."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.retrieval.scene import OLD, POISONED, TEXT, Scene, item, quality
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
        ({"quality": None}, {}, "NO_QUALITY_BUNDLE"),
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


def test_what_passes_passes() -> None:
    event = Scene().read(agent_id="trial").event
    assert (event["outcome"], event["would_have_been"]) == ("pass", "pass")


def test_a_downgrade_is_shown_with_its_body() -> None:
    found = Scene().read(item(confidence_score=0.1, content_class="internal_policy"), agent_id="trial")
    assert (found.event["outcome"], found.event["would_have_been"]) == ("flag", "downgrade")
    assert found.served["items"][0]["body"] == TEXT


def test_an_unregistered_agent_has_no_tenant_that_could_let_it_read() -> None:
    assert Scene().read(agent_id="nobody").event["enforcement"] == "enforce"
