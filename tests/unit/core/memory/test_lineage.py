"""Memories that derive from others: the least trusted parent, and parents that nobody knows."""

from __future__ import annotations

import pytest

from sluice.core.foundation.requests import Answer
from tests.unit.core.memory.write_scene import STRANGER, Place, place

ELSEWHERE = "memory:gate.memory.writes.proposed:5:77"
"""A memory of a session in another partition."""


def test_a_child_has_the_least_trust_of_its_parents() -> None:
    family = Place()
    parents = [
        family.decide("user")["memory_id"],
        family.decide("feed", source={"id": "feed", "type": "external"})["memory_id"],
    ]
    system = {"source": {"id": "os", "type": "system"}}
    child = family.decide("child", derived_from=parents, **system)
    assert child["trustScore"]["caps"] == [{"value": 0.77, "by": "parent_trust"}]
    assert (child["trustScore"]["uncapped"], child["trustScore"]["total"]) == (0.92, 0.77)
    grandchild = family.decide("grandchild", derived_from=[child["memory_id"]], **system)
    assert grandchild["trustScore"]["total"] == 0.77


def test_an_unknown_parent_has_the_child_wait_whatever_its_source() -> None:
    decided = Place().decide(derived_from=[STRANGER], source={"id": "os", "type": "system"})
    assert (decided["action"], decided["trustScore"]["total"]) == ("quarantine", 0.65)
    assert decided["seen"]["parents"] == [{"memory_id": STRANGER, "trust": None}]


def test_a_parent_that_no_score_was_made_for_is_an_unknown_one() -> None:
    family = Place()
    parent = family.decide("parent", timestamp=None)
    assert family.decide("child", derived_from=[parent["memory_id"]])["reason"] == "unknown_parent"


def test_a_parent_that_was_let_through_unjudged_is_an_unknown_one() -> None:
    """Its score is -1, which is no trust."""
    off = place(enabled=False)
    parent = off.decide("parent")
    family = Place(sessions=off.sessions, offset=off.offset)
    assert family.decide("child", derived_from=[parent["memory_id"]])["reason"] == "unknown_parent"


def test_a_parent_in_quarantine_is_known_to_other_sessions_of_its_tenant_only() -> None:
    family = Place()
    held = family.hold("parent")
    child = family.decide("child", session_id="s-2", derived_from=[held["memory_id"]])
    assert (child["reason"], child["trustScore"]["total"]) == ("parent_trust", 0.65)
    stranger = family.decide("child", agent_id="other", derived_from=[held["memory_id"]])
    assert stranger["seen"]["parents"] == [{"memory_id": held["memory_id"], "trust": None}]


@pytest.mark.parametrize(
    ("decision", "action", "total"), [("approve", "allow", 0.7), ("reject", "reject", 0)]
)
def test_what_a_reviewer_said_of_the_parent_goes_for_the_child(
    decision: str, action: str, total: float
) -> None:
    family = Place()
    held = family.hold("parent")
    family.review(held, decision)
    child = family.decide("child", derived_from=[held["memory_id"]])
    assert (child["action"], child["trustScore"]["total"]) == (action, total)


@pytest.mark.parametrize(
    ("found", "total", "reason"),
    [(0.9, 0.845, "trusted"), (0.4, 0.4, "parent_trust"), (None, 0.65, "unknown_parent")],
)
def test_a_parent_of_another_session_is_looked_up(found: float | None, total: float, reason: str) -> None:
    family = Place()
    family.answers["lineage"] = Answer("answered", {"parents": {ELSEWHERE: found}})
    child = family.decide(derived_from=[ELSEWHERE])
    assert (child["trustScore"]["total"], child["reason"]) == (total, reason)
    (asked,) = family.asked
    assert asked.payload == {"tenant": "acme", "memories": [ELSEWHERE], "approved": 0.7}


@pytest.mark.parametrize(
    "answer",
    [
        Answer("unavailable", detail="down"),
        Answer("answered", {"parents": {ELSEWHERE: 7}}),
        Answer("answered", {"parents": {}}),
    ],
)
def test_a_parent_that_cannot_be_looked_up_stays_unknown(answer: Answer) -> None:
    family = Place()
    family.answers["lineage"] = answer
    assert family.decide(derived_from=[ELSEWHERE])["reason"] == "unknown_parent"


def test_no_answer_raises_the_trust_of_a_parent_that_the_session_knows() -> None:
    family = Place()
    parent = family.decide("parent", source={"id": "feed", "type": "external"})["memory_id"]
    family.answers["lineage"] = Answer("answered", {"parents": {parent: 1, ELSEWHERE: 1}})
    child = family.decide("child", derived_from=[parent, ELSEWHERE], source={"id": "os", "type": "system"})
    assert child["trustScore"]["total"] == 0.77


def test_parents_are_counted_once_each() -> None:
    decided = Place().decide(derived_from=[STRANGER, STRANGER])
    assert len(decided["seen"]["parents"]) == 1
