"""What the gateway says still waits, from the records of gate.escalations and gate.quarantine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.client.input_kinds import ESCALATIONS, QUARANTINE
from app.gateway.waiting_subjects import WaitingSubjects
from tests.unit.records import ledger_records
from topics.catalog import BY_NAME

RECORDS = ledger_records()
ENDS = {
    "EscalationResolved",
    "EscalationExpired",
    "RetrievalEscalationResolved",
    "RetrievalEscalationExpired",
    "QuarantineApproved",
    "QuarantineRejected",
    "QuarantineExpired",
    "QuarantineEvicted",
}
OPENS = {ESCALATIONS: "EscalationOpened", QUARANTINE: "QuarantineEntered"}
IDS = {ESCALATIONS: "escalation_id", QUARANTINE: "memory_id"}


def taking(*given: tuple[str, dict[str, Any]]) -> WaitingSubjects:
    """A reader that has read these records, each with its topic."""
    subjects = WaitingSubjects({}, "", 1)
    for topic, record in given:
        subjects._take(topic, json.dumps(record).encode())  # noqa: SLF001 - as it reads them
    return subjects


@pytest.mark.parametrize(
    ("topic", "kind"),
    [(topic, model.__name__) for topic in OPENS for model in BY_NAME[topic].records],
)
def test_only_an_end_ends_the_waiting(topic: str, kind: str) -> None:
    opened = RECORDS[OPENS[topic]]
    later = {**RECORDS[kind], IDS[topic]: opened[IDS[topic]]}
    subjects = taking((topic, opened), (topic, later))
    assert (subjects.get(topic, opened[IDS[topic]]) is None) == (kind in ENDS)


def test_the_group_is_the_one_that_has_it_now() -> None:
    opened, later = RECORDS["EscalationOpened"], RECORDS["EscalationRerouted"]
    after = taking((ESCALATIONS, opened), (ESCALATIONS, {**later, "group": "board", "next_group": None}))
    waiting = after.get(ESCALATIONS, opened["escalation_id"])
    assert waiting is not None
    assert (waiting["group"], waiting["next_group"], waiting["reason"]) == ("board", None, opened["reason"])
