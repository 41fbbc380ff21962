"""A store's report of what it returned, held against the decisions that the session remembers."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.state.recent_retrieval import has_mark, item_mark
from tests.unit.core.retrieval.scene import OLD, Scene, item
from tests.unit.core.scene import LIMITS, MINUTE


def test_every_decided_item_is_covered_also_a_denied_one() -> None:
    scene = Scene()
    scene.read(item(), item(item_id="i-2", timestamp=OLD))
    found = scene.report("i-1", "i-2")
    assert (found["reported"], found["covered"], found["uncovered"]) == (2, 2, [])
    assert (found["tenant_id"], found["autonomy_tier"]) == ("acme", "bounded")


def test_an_item_without_a_decision_counts_against_coverage() -> None:
    scene = Scene()
    scene.read(item())
    found = scene.report("i-9", "i-1", "i-8")
    assert (found["reported"], found["covered"], found["uncovered"]) == (3, 1, ["i-9", "i-8"])


def test_an_item_named_often_is_one_item() -> None:
    scene = Scene()
    scene.read(item())
    found = scene.report(*["i-1"] * 9, "i-9", "i-9")
    assert (found["reported"], found["covered"], found["uncovered"]) == (2, 1, ["i-9"])


@pytest.mark.parametrize("fields", [{"request_id": "r-9"}, {"agent_id": "other"}, {"agent_id": "nobody"}])
def test_a_retrieval_that_the_gate_never_saw_is_uncovered(fields: dict[str, Any]) -> None:
    scene = Scene()
    scene.read(item())
    assert scene.report("i-1", **fields)["covered"] == 0


def test_a_report_on_a_session_that_nobody_knows_leaves_no_session_behind() -> None:
    scene = Scene()
    found = scene.report("i-1", agent_id="nobody")
    assert (found["tenant_id"], found["autonomy_tier"], found["covered"]) == (None, "high_privilege", 0)
    assert scene.state.gone


def test_what_left_the_window_is_uncovered() -> None:
    scene = Scene()
    scene.read(item())
    scene.now += LIMITS.action_window_ms - 1
    assert scene.report("i-1")["covered"] == 1
    scene.now += 1
    assert scene.report("i-1")["covered"] == 0


def test_a_session_that_was_idle_for_too_long_is_folded_and_knows_nothing() -> None:
    scene = Scene()
    scene.read(item())
    scene.now += LIMITS.idle_timeout_ms + MINUTE
    assert scene.report("i-1")["covered"] == 0


def test_the_tier_is_the_decisions_where_there_are_some() -> None:
    scene = Scene()
    scene.read(item(), agent_id="sandbox", autonomy_tier="bounded")
    assert scene.report("i-1", agent_id="sandbox", autonomy_tier="sandbox")["autonomy_tier"] == "bounded"
    named = scene.report("i-1", request_id="r-9", agent_id="sandbox", autonomy_tier="high_privilege")
    assert named["autonomy_tier"] == "high_privilege"


def test_at_most_a_hundred_uncovered_items_are_named() -> None:
    found = Scene().report(*(f"i-{number}" for number in range(1000)))
    assert (found["reported"], found["covered"], len(found["uncovered"])) == (1000, 0, 100)


def test_ids_of_any_characters_are_covered() -> None:
    scene, odd = Scene(), ["\x01" * 256, "é" * 256, '"\\', "#", "😀", "i-1:stale"]
    scene.read(*(item(item_id=name) for name in odd))
    assert scene.report(*odd)["covered"] == len(odd)


@given(st.lists(st.text(min_size=1, max_size=4), max_size=30), st.text(min_size=1, max_size=4))
def test_an_item_is_among_the_kept_ones_exactly_if_it_was_kept(kept: list[str], asked: str) -> None:
    assert has_mark("".join(map(item_mark, kept)), asked) == (asked in kept)


def test_a_mark_that_only_stands_across_two_others_is_none() -> None:
    mark = item_mark("i-1")
    across = f"000{mark}0000000"
    assert not has_mark(across, "i-1")
    assert has_mark(across + mark, "i-1")


@pytest.mark.parametrize("order", list(permutations(["bounded", "sandbox", "high_privilege"])))
def test_of_agents_who_asked_in_one_millisecond_the_last_one_s_tier_counts(order: tuple[str, ...]) -> None:
    """The one whose agent the session had known for longest was taken for the first of them."""
    scene = Scene()
    for agent in ("high_privilege", "bounded", "sandbox", *order):
        scene.read(item(item_id="i-1"), agent_id=agent)
    assert scene.report("i-1")["autonomy_tier"] == order[-1]
