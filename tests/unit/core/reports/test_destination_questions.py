"""What the gate would have asked, counted from what it left in verdicts."""

from __future__ import annotations

from typing import Any

from sluice.core.reports.destination_questions import DestinationQuestions
from tests.unit.core.actions import test_destinations as scene
from tests.unit.core.scene import START


def observe(**more: Any) -> list[dict[str, Any]]:
    """Verdicts of an observing gate: on an account from the contacts, and on two that nothing holds."""
    session = scene.make_session(mode="observe", **more)
    scene.call(session, "contacts", {"iban": scene.HONEST})
    return [scene.pay(session, iban) for iban in (scene.HONEST, scene.HOSTILE, scene.HOSTILE)]


def test_what_it_would_have_asked_is_counted_with_what_became_of_it() -> None:
    known, asked, other = observe()
    waiting = {**other, "escalationId": "e-1", "outcome": "ESCALATE"}
    denied = {"escalation_id": "e-1", "decision": "deny"}
    blocked = {**other, "outcome": "BLOCK", "decided_at": "2025-11-23T13:00:00.000Z"}
    found = DestinationQuestions(START - 1)
    for one in (known, asked, waiting, blocked, {**asked, "duplicate_of": "v"}):
        found.take_verdict(one)
    found.take_end(denied)
    found.take_end({"escalation_id": "another", "decision": "approve"})
    ((name, count),) = found.counts.items()
    assert name == ("operator", "transfer")
    assert (count.judged, count.asked, count.allowed, count.denied, count.blocked) == (4, 3, 1, 1, 1)
    assert count.origins == {"untainted": 3}
    assert found.count_a_day(count) == 1.5


def test_what_enforces_counts_as_well_and_what_is_older_does_not() -> None:
    session = scene.make_session()
    enforced = scene.pay(session, scene.HOSTILE)
    found = DestinationQuestions(START - 1)
    found.take_verdict(enforced)
    assert found.counts["operator", "transfer"].asked == 1
    later = DestinationQuestions(START + 1)
    later.take_verdict(enforced)
    assert (later.counts, later.days) == ({}, set())


def test_a_tool_without_roles_is_not_looked_at() -> None:
    verdict = scene.make_session(mode="observe").verdict(toolName="change", parameters={"to": "a@b.example"})
    found = DestinationQuestions(0)
    found.take_verdict(verdict)
    assert found.counts == {}
