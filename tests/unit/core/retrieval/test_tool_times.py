"""Times to live of a tool's own: for a registered tool that the agent may use, and by nobody's word."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.retrieval.scene import OLD, Scene, item, quality
from tests.unit.core.scene import entry

ARCHIVE = quality(ttl_by_tool={"archive": {"legal_text": None}, "quote": {"legal_text": 1}})
TOOLS = (
    entry("tool", "archive"),
    entry("tool", "quote"),
    entry("agent", "clerk", tenant_id="acme", tier="T3", autonomy_tier="bounded", tools=["quote"]),
)
STALE = item(timestamp=OLD)


def test_a_registered_tool_s_own_time_goes_before_the_class_s() -> None:
    scene = Scene(quality=ARCHIVE, entries=TOOLS)
    assert scene.read(STALE).outcomes == ["deny"]
    assert scene.read(STALE, toolName="archive").outcomes == ["pass"]
    assert scene.read(item(), toolName="quote").outcomes == ["deny"]
    assert scene.statuses() == {"identical"}


@pytest.mark.parametrize("agent", ["bounded", "clerk"])
def test_the_name_of_a_tool_that_nobody_registered_or_granted_opens_nothing(agent: str) -> None:
    entries = TOOLS if agent == "clerk" else ()
    scene = Scene(quality=ARCHIVE, entries=entries)
    assert scene.read(STALE, agent_id=agent, toolName="archive").outcomes == ["deny"]
    assert scene.statuses() == {"identical"}


def test_the_tool_s_entry_is_among_those_that_the_decision_rests_on() -> None:
    event = Scene(quality=ARCHIVE, entries=TOOLS).read(STALE, toolName="archive").event
    assert "tool/archive@1" in event["registry_hashes"]


@pytest.mark.parametrize("entries", [(), TOOLS])
def test_a_shorter_time_of_a_tool_holds_for_whoever_names_it(entries: tuple[dict[str, Any], ...]) -> None:
    scene = Scene(quality=ARCHIVE, entries=entries)
    assert scene.read(item(), toolName="quote").outcomes == ["deny"]
    assert scene.statuses() == {"identical"}
