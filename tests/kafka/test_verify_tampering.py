"""`sluice ledger verify` on a real broker: an intact ledger, and the same after each kind of tampering."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from load.tamper import TAMPERINGS
from tests.kafka.laid_ledger import PARTITIONS, RECORDS, SEED, Ledger, genuine

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka

INTACT, FOUND, IMPOSSIBLE = 0, 1, 2


@pytest.fixture
def ledger(kafka: str, prefix: str) -> Ledger:
    return Ledger(kafka, prefix)


async def test_a_genuine_ledger_is_intact(ledger: Ledger) -> None:
    await ledger.lay(genuine())
    code, report = await ledger.verify()
    assert (code, report["intact"], report["records"], report["findings"]) == (INTACT, True, RECORDS, [])
    last = [part["last"] for part in report["partitions"].values()]
    assert last == [RECORDS // PARTITIONS] * PARTITIONS


@pytest.mark.parametrize("kind", TAMPERINGS)
async def test_tampering_is_found_and_named(ledger: Ledger, kind: str) -> None:
    tampered = TAMPERINGS[kind](genuine(), random.Random(SEED))  # noqa: S311 - seeded, not secret
    await ledger.lay(tampered.records)
    code, report = await ledger.verify()
    assert code == FOUND
    assert tampered.codes <= {finding["code"] for finding in report["findings"]}, tampered.what


async def test_an_export_is_verified_without_the_broker(ledger: Ledger, tmp_path: Path) -> None:
    await ledger.lay(genuine())
    file = tmp_path / "ledger.jsonl"
    assert (await asyncio.to_thread(ledger.sluice, "ledger", "export", str(file)))[0] == 0
    offline = Ledger("127.0.0.1:1", ledger.prefix)
    assert offline.sluice("ledger", "verify", "--from", str(file))[0] == INTACT
    lines = file.read_text().splitlines()
    kept = [line for line in lines if '\\"sequence\\":1,' not in line]
    assert len(kept) == len(lines) - PARTITIONS
    file.write_text("\n".join(kept))
    code, out = offline.sluice("ledger", "verify", "--from", str(file))
    assert code == FOUND
    assert "missing" in out


async def test_an_export_never_overwrites_a_file(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "ledger.jsonl"
    file.write_text("precious")
    assert (await asyncio.to_thread(ledger.sluice, "ledger", "export", str(file)))[0] == IMPOSSIBLE
    assert file.read_text() == "precious"


async def test_topics_that_are_not_there_are_no_intact_ledger(ledger: Ledger) -> None:
    assert (await asyncio.to_thread(ledger.sluice, "ledger", "verify"))[0] == IMPOSSIBLE
