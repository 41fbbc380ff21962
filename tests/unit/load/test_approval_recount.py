"""The recount of routes finds a step that is missing, doubled, early, late or after the end."""

from __future__ import annotations

from typing import Any

import pytest

from load.installations.approvers import EXPIRED, OPENED, REFUSED, REMINDED, REROUTED, RESOLVED
from load.recomputation.approval_recount import find_overtaken, wrong_steps
from sluice.core.foundation.clock import rfc3339
from sluice_topics.catalog import REVIEWS

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


@pytest.mark.parametrize(
    ("due", "why", "expired", "overtaken"),
    [
        (((1, 7), "approve"), "it ended EXPIRED at 2026-11-27T03:51:18Z", ["e"], {"e"}),
        (((1, 7), "deny"), "it ended EXPIRED at 2026-11-27T03:51:18Z", ["e"], {"e"}),
        (((1, 8), "approve"), "it ended EXPIRED at 2026-11-27T03:51:18Z", ["e"], set()),
        (((1, 7), "approve"), "it ended APPROVED at 2026-11-27T03:51:18Z by lena", ["e"], set()),
        (((1, 7), "approve"), "it ended EXPIRED at 2026-11-27T03:51:18Z", [], set()),
        (None, "it ended EXPIRED at 2026-11-27T03:51:18Z", ["e"], set()),
    ],
)
def test_an_answer_is_overtaken_where_it_was_due_and_time_had_ended_what_it_answers(
    due: Any, why: str, expired: list[str], overtaken: set[str]
) -> None:
    refused = {"partition": 1, "input": {"topic": REVIEWS, "offset": 7}, "message": why}
    by: dict[str, Any] = {REFUSED: [refused], EXPIRED: [{"escalation_id": name} for name in expired]}
    assert find_overtaken({"e": due}, by) == overtaken
