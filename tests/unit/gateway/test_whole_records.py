"""Mend 22.2: where no workers' key is known, a record that lacks what a worker writes is on no page, and ends
none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiokafka.structs import ConsumerRecord

from sluice.client.record_proofs import NO_PROOFS
from sluice.gateway.ledger_scan import ScanQuery, select_matches
from sluice_topics.catalog import VERDICTS
from tests.unit.records import ledger_records

VERDICT = ledger_records()["Verdict"]
HALF: list[dict[str, Any]] = [
    {name: VERDICT[name] for name in ("schema", "tenant_id")},
    {name: value for name, value in VERDICT.items() if name != "decided_at"},
    {**VERDICT, "decided_at": "yesterday"},
    {**VERDICT, "session": None},
    {**VERDICT, "schema": ["sluice/verdict/v1"]},
]


def read_stored(said: dict[str, Any]) -> ConsumerRecord[bytes, bytes]:
    value = json.dumps(said).encode()
    return ConsumerRecord(VERDICTS, 0, 0, 7, 0, b"s-1", value, None, 3, len(value), ())


@pytest.mark.parametrize("half", HALF)
def test_a_half_written_record_is_passed_over(half: dict[str, Any]) -> None:
    """By the scan of the whole retention, and by what reads the newest records."""
    asked = ScanQuery([VERDICTS], VERDICT["tenant_id"])
    found = select_matches(VERDICTS, [read_stored(half), read_stored(VERDICT)], asked, NO_PROOFS)
    assert [one.fields for one in found] == [VERDICT]
    assert NO_PROOFS.read_record(VERDICTS, read_stored(half)) is None
    assert NO_PROOFS.read_record(VERDICTS, read_stored(VERDICT)) == VERDICT
