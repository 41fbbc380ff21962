"""Mend 22.3: a stranger's record among the escalations does not end the command with which people answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import orjson
import pytest

from sluice.adapters.kafka.kafka_quarantine import parse_ledger_record
from sluice.cli.ledger.pending_subjects import find_grant
from sluice.core.reports.pending_subject import collect_subjects
from sluice_topics.catalog import ESCALATIONS, get_wire_schema
from sluice_topics.records import EscalationExpired, GrantGiven
from tests.unit.records import ledger_records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

STRANGE = (
    None,
    b"x",
    b"[]",
    b"\xff",
    b"null",
    orjson.dumps({"schema": get_wire_schema(EscalationExpired)}),
    orjson.dumps({"schema": get_wire_schema(GrantGiven), "grant_id": "grant-1"}),
    orjson.dumps({"schema": {"no": "name"}}),
)
KINDS = ledger_records()


class Topic:
    """What lies on gate.escalations, as the reader of the command gives it."""

    async def read_records(self, base: str, text: str) -> AsyncIterator[dict[str, Any]]:
        for record in (KINDS["EscalationOpened"], KINDS["GrantGiven"]):
            assert (base, text) == (ESCALATIONS, "grant-1")
            yield record


@pytest.mark.parametrize("value", STRANGE)
def test_what_no_worker_wrote_is_passed_over(value: bytes | None) -> None:
    assert parse_ledger_record(ESCALATIONS, value) is None


async def test_a_grant_that_was_not_given_is_not_found() -> None:
    assert await find_grant(cast("Any", Topic()), "grant-1") is None


def test_a_grant_given_with_an_approval_is_no_event_of_its_escalation() -> None:
    an_id = {"escalation_id": KINDS["EscalationOpened"]["escalation_id"]}
    names = ("EscalationOpened", "EscalationResolved", "GrantGiven")
    (subject,) = collect_subjects({**KINDS[name], **an_id} for name in names).values()
    assert subject.status == "approved"
    assert len(subject.records) == 2
