"""What is known to be bad never reaches the quality gate: an item, a content, a source and all below it."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from tests.unit.core.retrieval.scene import OLD, TEXT, Scene, flag_only, item, quality
from tests.unit.core.scene import entry

CONTENT = "sha256:" + sha256(TEXT.encode()).hexdigest()


def make_known_bad(subject: str, value: str, tenant: str | None = "acme", **more: Any) -> dict[str, Any]:
    told = {"reason": "written by an attacker", **more}
    return entry("known_bad", "k1", tenant_id=tenant, subject=subject, value=value, **told)


@pytest.mark.parametrize(
    ("subject", "value"),
    [
        ("item", "i-1"),
        ("content", CONTENT),
        ("source", "https://example.com/terms"),
        ("source", "https://example.com"),
        ("source", "HTTPS://EXAMPLE.com/"),
    ],
)
def test_a_known_bad_item_content_or_source_is_denied(subject: str, value: str) -> None:
    scene = Scene(entries=(make_known_bad(subject, value),))
    found = scene.read()
    assert (found.event["outcome"], found.event["reason_codes"]) == ("deny", ["KNOWN_BAD"])
    assert found.event["reason"] == f"known_bad_{subject}: written by an attacker"
    assert found.stages == ["controls", "access", "poisoning"]
    assert "known_bad/k1@1" in found.event["registry_hashes"]
    assert scene.statuses() == {"identical"}


@pytest.mark.parametrize(
    ("subject", "value"),
    [
        ("item", "i-10"),
        ("source", "https://example.com/ter"),
        ("source", "https://example.com.evil.example"),
        ("content", "sha256:" + "00" * 32),
    ],
)
def test_what_only_looks_alike_passes(subject: str, value: str) -> None:
    assert Scene(entries=(make_known_bad(subject, value),)).read().outcomes == ["pass"]


def test_one_tenant_s_knowledge_is_its_own_unless_it_is_of_all() -> None:
    own, of_all = make_known_bad("item", "i-1"), make_known_bad("item", "i-1", tenant=None)
    assert Scene(entries=(own,)).read(agent_id="other").outcomes == ["pass"]
    assert Scene(entries=(of_all,)).read(agent_id="other").outcomes == ["deny"]


def test_what_was_lifted_is_read_again() -> None:
    lifted = {**make_known_bad("item", "i-1", active=False), "revision": 2}
    assert Scene(entries=(make_known_bad("item", "i-1"), lifted)).read().outcomes == ["pass"]


def test_neither_flag_only_nor_its_age_lets_a_poisoned_item_through() -> None:
    scene = Scene(entries=(make_known_bad("item", "i-1"),), quality=quality(rollout=flag_only("legal_text")))
    event = scene.read(item(timestamp=OLD)).event
    assert (event["outcome"], event["reason_codes"], event["rollout"]) == ("deny", ["KNOWN_BAD"], None)


def test_a_body_that_is_no_text_is_known_by_its_canonical_form() -> None:
    digest = "sha256:" + sha256(b'{"a":1,"b":[2]}').hexdigest()
    scene = Scene(entries=(make_known_bad("content", digest),))
    assert scene.read(item(body={"b": [2.0], "a": 1})).outcomes == ["deny"]
