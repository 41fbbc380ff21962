"""C08 behind the quality gate: an item that is fit may still say what must not reach a prompt."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.core.retrieval.scene import (
    POISONED,
    SHIPPED,
    SUSPECT,
    TEXT,
    TIERS,
    Scene,
    flag_only,
    item,
    quality,
)

WEAK = "weakly bad"


@pytest.mark.parametrize(
    ("tier", "expected"),
    [
        ("sandbox", ["pass", "pass", "flag", "downgrade"]),
        ("bounded", ["pass", "pass", "downgrade", "deny"]),
        ("high_privilege", ["pass", "pass", "deny", "deny"]),
    ],
)
def test_what_a_find_comes_to_is_by_its_weight_and_the_tier(tier: str, expected: list[str]) -> None:
    bodies = [item(item_id=text, body=text) for text in (TEXT, WEAK, SUSPECT, POISONED)]
    found = Scene().read(*bodies, agent_id=tier)
    assert found.outcomes == expected
    flagged = [one["flags_set"] == ["content_suspect"] for one in found.events]
    assert flagged == [False, False, True, True]


def test_what_was_found_is_in_the_event_and_nowhere_in_what_the_agent_sees() -> None:
    found = Scene().read(item(body=f"{WEAK}, {SUSPECT}"), agent_id="sandbox")
    assert [one["id"] for one in found.event["findings"]] == ["test.strong", "test.weak"]
    assert found.event["reason"] == "test.strong: a test"
    (served,) = found.served["items"]
    assert "findings" not in served
    assert served["flags"]["content_suspect"] is True
    assert served["body"] == f"{WEAK}, {SUSPECT}"


@pytest.mark.parametrize("both", [f"{SUSPECT}, {POISONED}", f"{POISONED}, {SUSPECT}"])
def test_of_several_finds_the_gravest_decides(both: str) -> None:
    event = Scene().read(item(body=both)).event
    assert (event["outcome"], event["reason"]) == ("deny", "test.definite: a test")
    assert [one["weight"] for one in event["findings"]] == ["definite", "strong"]


def test_a_bundle_may_say_otherwise() -> None:
    actions = {**SHIPPED["content_actions"], "bounded": {"strong": "pass", "definite": "flag"}}
    scene = Scene(quality=quality(content_actions=actions))
    assert scene.read(item(body=SUSPECT), item(body=POISONED)).outcomes == ["pass", "flag"]
    assert scene.statuses() == {"identical"}


def test_flag_only_is_for_quality_alone() -> None:
    found = Scene(quality=quality(rollout=flag_only("legal_text"))).read(item(body=POISONED))
    assert (found.event["outcome"], found.event["would_have_been"]) == ("deny", "deny")


@pytest.mark.parametrize("tier", TIERS)
def test_a_text_too_long_to_be_read_whole_counts_as_a_strong_find(tier: str) -> None:
    found = Scene().read(item(body="a b " * 60_000), agent_id=tier)
    assert found.event["reason"].startswith("inconclusive: ")
    assert found.outcomes == [SHIPPED["content_actions"][tier]["strong"]]


@pytest.mark.parametrize(
    "body",
    [
        {"text": POISONED},
        {POISONED: 1},
        [["deep", {"er": [POISONED]}]],
        {"text": f'he said "{POISONED}"'},
        {"text": f"first line\n{POISONED}\nlast line"},
        {"text": f"one\t{POISONED}\ttwo"},
    ],
)
def test_what_stands_in_other_json_is_found_too(body: Any) -> None:
    assert Scene().read(item(body=body)).outcomes == ["deny"]


@settings(max_examples=20, deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8), st.lists, max_leaves=8))
def test_whatever_stands_around_it_in_a_list_hides_nothing(beside: Any) -> None:
    assert Scene().read(item(body=[beside, POISONED, beside])).outcomes == ["deny"]
