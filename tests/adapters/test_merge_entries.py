"""Several topics of one partition, merged by the numbers of their records."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from sluice.adapters.kafka.kafka_evidence import BATCH, merge_entries
from sluice.core.rerun.walk import LedgerEntry, WrittenRecord

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def make_entry(number: int) -> LedgerEntry:
    return LedgerEntry(WrittenRecord("t", 0, number, 0, None, b"", ()), {"sequence": number})


async def give(numbers: list[int], most: int) -> AsyncIterator[list[LedgerEntry]]:
    """Batches of 0 to `most` entries."""
    rng = random.Random(len(numbers))  # noqa: S311 - no secret
    while numbers:
        size = rng.randrange(most + 1)
        yield [make_entry(number) for number in numbers[:size]]
        del numbers[:size]


@pytest.mark.parametrize("most", [1, 7, 2 * BATCH])
def test_all_records_come_once_in_the_order_of_their_numbers(most: int) -> None:
    rng = random.Random(3)  # noqa: S311 - no secret
    topics = {name: list[int]() for name in "abcd"}
    for number in range(1700):
        topics[rng.choice("abc")].append(number)

    async def collect() -> list[list[int]]:
        readers = {name: give(numbers, most) for name, numbers in topics.items()}
        return [[entry.fields["sequence"] for entry in batch] async for batch in merge_entries(readers)]

    batches = asyncio.run(collect())
    assert [number for batch in batches for number in batch] == list(range(1700))
    assert all(len(batch) <= BATCH for batch in batches)
