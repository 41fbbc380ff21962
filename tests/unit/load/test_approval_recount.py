"""The recount of routes finds a step that is missing, doubled, early, late or after the end."""

from __future__ import annotations

from typing import Any

import pytest

from load.installations.approvers import EXPIRED, OPENED, REMINDED, REROUTED, RESOLVED
from load.recomputation.approval_recount import wrong_steps
from sluice.core.foundation.clock import rfc3339

BEGAN = 1_763_730_000_000
STEPS = ((REMINDED, 700), (REROUTED, 2000), (REMINDED, 2700))


def ledger(*steps: tuple[str, int], end: str = EXPIRED, ended: int = 9000, at: int = 99) -> dict[str, Any]:
    """One escalation with these steps, and its end at a place in the chain."""
    ends = {"escalation_id": "e", "sequence": at, "input": {"timestamp": BEGAN + ended}}
    opened = {"escalation_id": "e", "input": {"timestamp": BEGAN}, "expires_at": rfc3339(BEGAN + 9000)}
    by: dict[str, Any] = {OPENED: [opened], RESOLVED: [], EXPIRED: [], REMINDED: [], REROUTED: []}
    by[end].append(ends)
    for sequence, (schema, after) in enumerate(steps):
        by[schema].append(
            {"escalation_id": "e", "sequence": sequence, "schema": schema, "due_at": rfc3339(BEGAN + after)}
        )
    return {schema: [{"schema": schema, **one} for one in found] for schema, found in by.items()}


@pytest.mark.parametrize(
    ("by", "wrong"),
    [
        (ledger(*STEPS), 0),
        (ledger(*STEPS[:2]), 1),
        (ledger(*STEPS[:1], *STEPS), 1),
        (ledger(STEPS[1], STEPS[0], STEPS[2]), 1),
        (ledger((REMINDED, 701), *STEPS[1:]), 1),
        (ledger(*STEPS, at=1), 1),
        (ledger(end=RESOLVED, ended=699), 0),
        (ledger(end=RESOLVED, ended=700), 1),
        (ledger(STEPS[0], end=RESOLVED, ended=700), 0),
        (ledger(STEPS[0], end=RESOLVED, ended=699), 0),
    ],
)
def test_steps_are_held_against_the_route(by: dict[str, Any], wrong: int) -> None:
    assert len(wrong_steps(by)) == wrong
