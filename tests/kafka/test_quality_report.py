"""The quality report of a ledger on a real broker is the report of its export."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from sluice.verifier.export import Located
from tests.kafka.laid_ledger import Ledger
from tests.quality_ledger import TOPICS, alarm, decision, flag_only, report

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka

EVENTS = [
    *(decision(day, outcome="deny", flags_set=["stale"]) for day in range(20)),
    *(flag_only(day, "deny", "public_reference") for day in range(20)),
    report(3, "bounded", 10, 10),
    report(3, "high_privilege", 10, 9),
    alarm(16, "public_reference"),
]


async def test_it_is_read_from_the_broker_as_from_an_export(kafka: str, prefix: str, tmp_path: Path) -> None:
    ledger = Ledger(kafka, prefix)
    await ledger.lay(
        [
            Located(TOPICS[event["schema"]], place % 3, 0, b"s-1", json.dumps(event).encode())
            for place, event in enumerate(EVENTS)
        ]
    )
    code, out = await asyncio.to_thread(ledger.sluice, "quality", "report", "--json")
    found = json.loads(out)
    assert (code, found["overall"]["decisions"]) == (1, 40)
    export = str(tmp_path / "ledger.jsonl")
    assert (await asyncio.to_thread(ledger.sluice, "ledger", "export", export))[0] == 0
    again = await asyncio.to_thread(ledger.sluice, "quality", "report", "--json", "--from", export)
    exported = json.loads(again[1])
    assert found["ledger"].pop("source") == f"the topics {prefix}gate.* at {kafka}"
    assert exported["ledger"].pop("source") == "the export ledger.jsonl"
    assert (code, found) == (again[0], exported)
    listed = await asyncio.to_thread(ledger.sluice, "quality", "alarms", "--json")
    assert [one["subject"] for one in json.loads(listed[1])] == ["public_reference"]
