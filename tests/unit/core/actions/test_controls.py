"""Gate "controls": a freeze stops everything of its subject and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.scene import Session, entry, point

FREEZE: dict[str, Any] = {"reason": "incident 7"}


@pytest.mark.parametrize(
    ("subject", "subject_id"),
    [("all", "all"), ("tenant", "acme"), ("agent", "operator"), ("session", "s-1")],
)
def test_a_frozen_subject_is_denied_with_the_reason(subject: str, subject_id: str) -> None:
    frozen = entry("freeze", "f", subject=subject, subject_id=subject_id, **FREEZE)
    verdict = Session(point(frozen)).verdict()
    assert (verdict["verdict"], verdict["blockReason"]) == ("denied", f"frozen_{subject}: incident 7")
    assert [gate["gate"] for gate in verdict["gateResults"]] == ["controls"]
    assert "freeze/f@1" in verdict["registry_hashes"]


@pytest.mark.parametrize(
    ("subject", "subject_id"),
    [("tenant", "globex"), ("agent", "reader"), ("session", "s-2"), ("agent", "acme")],
)
def test_a_freeze_of_something_else_stops_nothing(subject: str, subject_id: str) -> None:
    frozen = entry("freeze", "f", subject=subject, subject_id=subject_id, **FREEZE)
    verdict = Session(point(frozen)).verdict()
    assert verdict["verdict"] == "allowed"
    assert "freeze/f@1" not in verdict["registry_hashes"]


def test_a_newer_revision_lifts_a_freeze() -> None:
    frozen = entry("freeze", "f", subject="tenant", subject_id="acme", **FREEZE)
    lifted = entry("freeze", "f", 2, subject="tenant", subject_id="acme", active=False, **FREEZE)
    assert Session(point(lifted, frozen)).verdict()["verdict"] == "allowed"


def test_a_subject_that_recovers_acts_only_with_a_person() -> None:
    asks = entry("freeze", "f", subject="agent", subject_id="operator", stage="ask", **FREEZE)
    verdict = Session(point(asks)).verdict()
    assert (verdict["verdict"], verdict["blockReason"]) == ("needs_human", "recovering_agent: incident 7")
    assert "freeze/f@1" in verdict["registry_hashes"]


def test_what_a_gate_denies_is_denied_in_a_recovery_too() -> None:
    asks = entry("freeze", "f", subject="agent", subject_id="operator", stage="ask", **FREEZE)
    verdict = Session(point(asks)).verdict(parameters={"command": "rm -rf /"})
    assert verdict["verdict"] == "denied"


def test_a_freeze_that_stops_goes_before_one_that_asks() -> None:
    asks = entry("freeze", "a", subject="all", subject_id="all", stage="ask", **FREEZE)
    stops = entry("freeze", "s", subject="session", subject_id="s-1", **FREEZE)
    verdict = Session(point(asks, stops)).verdict()
    assert (verdict["verdict"], verdict["blockReason"]) == ("denied", "frozen_session: incident 7")


def test_who_asks_again_after_a_freeze_may_not_start_what_was_allowed() -> None:
    frozen = entry("freeze", "f", subject="agent", subject_id="operator", **FREEZE)
    thawed = entry("freeze", "f", 2, subject="agent", subject_id="operator", active=False, **FREEZE)
    session = Session(point())
    first = session.verdict()
    session.point = point(frozen)
    again = session.verdict()
    assert (first["verdict"], again["verdict"]) == ("allowed", "denied")
    assert (again["blockReason"], again["duplicate_of"]) == ("frozen_agent: incident 7", first["verdict_id"])
    assert "freeze/f@1" in again["registry_hashes"]
    session.point = point(frozen, thawed)
    assert session.verdict()["verdict"] == "allowed"
