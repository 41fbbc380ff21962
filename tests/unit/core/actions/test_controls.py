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
