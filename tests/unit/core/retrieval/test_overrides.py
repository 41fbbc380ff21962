"""A person's signed override lets an item through that failed the quality gate, and nothing else."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from sluice.core.foundation.clock import rfc3339
from tests.unit.core.retrieval.scene import (
    OLD,
    POISONED,
    TEXT,
    Scene,
    flag_only,
    item,
    quality,
)
from tests.unit.core.scene import MINUTE, START, entry

DIGEST = "sha256:" + sha256(TEXT.encode()).hexdigest()
STALE = item(timestamp=OLD)


def override(**spec: Any) -> dict[str, Any]:
    named = {
        "tenant_id": "acme",
        "item_id": "i-1",
        "approver_id": "carol",
        "expires_at": rfc3339(START + MINUTE),
        "justification": "the lease is still in force",
    }
    return entry("quality_override", "o-1", **{**named, **spec})


@pytest.mark.parametrize(
    "narrowed", [{}, {"agent_id": "bounded"}, {"session_id": "s-1"}, {"body_digest": DIGEST}]
)
def test_an_overridden_item_goes_out_flagged_with_who_answers_for_it(narrowed: dict[str, Any]) -> None:
    scene = Scene(entries=(override(**narrowed),))
    found = scene.read(STALE)
    event = found.event
    assert (event["outcome"], event["flags_set"], event["would_have_been"]) == ("flag", ["stale"], None)
    assert event["override"] == {
        "override_id": "o-1",
        "approver_id": "carol",
        "expires_at": rfc3339(START + MINUTE),
        "justification": "the lease is still in force",
    }
    assert found.served["items"][0]["body"] == TEXT
    assert "quality_override/o-1@1" in event["registry_hashes"]
    assert scene.statuses() == {"identical"}


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"tenant_id": "globex"},
        {"item_id": "i-2"},
        {"agent_id": "sandbox"},
        {"session_id": "s-2"},
        {"body_digest": "sha256:" + "00" * 32},
        {"expires_at": rfc3339(START)},
        {"active": False},
    ],
)
def test_an_override_of_anything_else_changes_nothing(elsewhere: dict[str, Any]) -> None:
    event = Scene(entries=(override(**elsewhere),)).read(STALE).event
    assert (event["outcome"], event["override"]) == ("deny", None)
    assert "quality_override/o-1@1" not in event["registry_hashes"]


def test_an_override_ends_at_its_moment() -> None:
    scene = Scene(entries=(override(),))
    scene.now = START + MINUTE - 1
    assert scene.read(STALE).outcomes == ["flag"]
    scene.now = START + MINUTE
    assert scene.read(STALE).outcomes == ["deny"]
    assert scene.statuses() == {"identical"}


def test_an_overridden_downgrade_has_its_body_again() -> None:
    doubtful = item(confidence_score=0.1, content_class="internal_policy")
    assert Scene(entries=(override(),)).serve(doubtful)["items"][0]["body"] == TEXT


def test_what_passes_needs_no_override() -> None:
    assert Scene(entries=(override(),)).read().event["override"] is None


def test_nobody_overrides_access_poisoning_or_the_content_check() -> None:
    closed = quality(access={"legal_text": {"tenants": []}})
    bad = entry("known_bad", "k", tenant_id=None, subject="item", value="i-1", reason="by an attacker")
    assert Scene(entries=(override(),), quality=closed).read(STALE).outcomes == ["deny"]
    assert Scene(entries=(override(), bad)).read(STALE).outcomes == ["deny"]
    overridden = Scene(entries=(override(),)).read(item(timestamp=OLD, body=POISONED)).event
    assert (overridden["outcome"], overridden["reason"]) == ("deny", "test.definite: a test")


def test_in_shadow_an_overridden_item_would_have_gone_out_flagged() -> None:
    event = Scene(entries=(override(tenant_id="shadowed"),)).read(STALE, agent_id="trial").event
    assert (event["outcome"], event["would_have_been"]) == ("flag", "flag")
    assert event["override"]["override_id"] == "o-1"


def test_in_flag_only_an_override_is_not_needed_and_not_used() -> None:
    scene = Scene(entries=(override(),), quality=quality(rollout=flag_only("legal_text")))
    event = scene.read(STALE).event
    assert (event["outcome"], event["would_have_been"], event["override"]) == ("flag", "deny", None)
