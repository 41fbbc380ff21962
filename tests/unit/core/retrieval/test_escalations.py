"""Denied items wait for a person at high_privilege, for a high-impact tool category, and never else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.foundation.clock import rfc3339
from tests.unit.core.retrieval.scene import OLD, POISONED, TIERS, Scene, item
from tests.unit.core.scene import START, entry

if TYPE_CHECKING:
    from tests.unit.core.retrieval.reading import Reading

STALE = item(timestamp=OLD)
PAYS: dict[str, Any] = {"agent_id": "high_privilege", "tool_category": "payment"}


def open_escalation(found: Reading) -> list[dict[str, Any]]:
    return found.bodies("RetrievalEscalationOpened")


def test_all_denied_items_of_a_request_wait_in_one_escalation() -> None:
    found = Scene().read(STALE, item(item_id="i-2"), item(item_id="i-3", confidence_score=0), **PAYS)
    (one,) = open_escalation(found)
    assert [waits["item_id"] for waits in one["items"]] == ["i-1", "i-3"]
    assert [event["escalation_id"] for event in found.events] == [
        one["escalation_id"],
        None,
        one["escalation_id"],
    ]
    assert one["items"] == found.served["withheld"]
    assert (one["tool_category"], one["required_role"]) == ("payment", "approver")
    assert (one["opened_at"], one["expires_at"]) == (rfc3339(START), rfc3339(START + 3_600_000))
    assert one["reason"] == found.events[0]["reason"]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("category", [None, "payment", "search", "PAYMENT"])
def test_only_high_privilege_and_high_impact_together_ask_a_person(tier: str, category: str | None) -> None:
    found = Scene().read(STALE, agent_id=tier, tool_category=category)
    expected = tier == "high_privilege" and category in ("payment", "PAYMENT")
    assert bool(open_escalation(found)) == expected
    assert (found.event["escalation_id"] is not None) == expected


@pytest.mark.parametrize(
    ("fields", "entries"),
    [
        ({}, ()),
        ({"body": POISONED}, ()),
        ({"timestamp": OLD}, ("known_bad",)),
        ({"timestamp": OLD}, ("freeze",)),
    ],
)
def test_what_no_override_could_let_through_asks_nobody(
    fields: dict[str, Any], entries: tuple[str, ...]
) -> None:
    known = {
        "known_bad": entry(
            "known_bad", "k", tenant_id=None, subject="item", value="i-1", reason="by an attacker"
        ),
        "freeze": entry("freeze", "f", subject="session", subject_id="s-1", reason="an incident"),
    }
    scene = Scene(entries=tuple(known[name] for name in entries))
    assert open_escalation(scene.read(item(**fields), **PAYS)) == []


def test_another_request_is_another_escalation() -> None:
    scene = Scene()
    ids = {open_escalation(scene.read(STALE, **PAYS))[0]["escalation_id"] for _ in range(3)}
    assert len(ids) == 3
    assert scene.statuses() == {"identical"}
