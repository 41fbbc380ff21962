"""Mend 22.1: an error that nobody foresaw at one destination holds up one subject there, and nobody else."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest
from aiokafka.errors import KafkaConnectionError

from sluice.notify.backlog import AssignedPart, CommittedEvent
from sluice.notify.notifier import Notifier, Patience, run_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sluice.notify.backlog import Part, Pending

PART = ("gate.escalations", 0)
RECORDS = [CommittedEvent(PART, offset, 1, {"escalation_id": name}) for offset, name in enumerate("abc")]


class Ledger:
    """One partition with RECORDS, all at once."""

    def __init__(self) -> None:
        self.positions: dict[Part, int] = {}
        self.left: list[CommittedEvent] = []

    async def connect(self) -> None:
        self.left = [*RECORDS]

    async def read_changes(self) -> tuple[frozenset[Part], Sequence[AssignedPart]]:
        return frozenset(), [AssignedPart(PART, 0, 0)] if self.left else []

    async def read_some(
        self, wait_s: float, *, paused: bool
    ) -> tuple[list[CommittedEvent], Mapping[Part, int]]:
        del paused
        await asyncio.sleep(min(wait_s, 0.01))
        came, self.left = self.left, []
        return came, {PART: len(RECORDS)}

    async def commit(self, positions: Mapping[Part, int]) -> None:
        self.positions.update(positions)

    async def close(self) -> None:
        pass


class Told:
    """A destination that fails for one subject, so many times."""

    name = "a webhook"

    def __init__(self, error: Exception, times: int, enough: Callable[[], object]) -> None:
        self.told: list[str] = []
        self._error, self._times, self._enough = error, times, enough

    def name_subject(self, record: CommittedEvent) -> str | None:
        return str(record.fields["escalation_id"])

    def name_scope(self, pending: Pending) -> str | None:
        del pending
        return None

    async def assign(self, parts: Iterable[Part]) -> None:
        pass

    async def deliver(self, subject: str, records: Sequence[CommittedEvent]) -> None:
        del records
        if subject == "a" and self._times:
            self._times -= 1
            raise self._error
        self.told.append(subject)
        self._enough()

    async def close(self) -> None:
        pass


def test_it_is_tried_again_later_and_the_others_are_told_meanwhile(caplog: pytest.LogCaptureFixture) -> None:
    notifiers: list[Notifier] = []
    places: list[Told] = []

    def enough() -> None:
        if all(len(one.told) == len(RECORDS) for one in places):
            for one in notifiers:
                one.stop()

    places += [
        Told(AttributeError("'list' object has no attribute 'get'"), 2, enough),
        Told(OSError(), 0, enough),
    ]
    ledgers = [Ledger(), Ledger()]
    notifiers += [
        Notifier(ledger, place, Patience(0.01, 0.02), 100)
        for ledger, place in zip(ledgers, places, strict=True)
    ]
    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(run_all(notifiers), 30))
    assert [one.told for one in places] == [["b", "c", "a"], ["a", "b", "c"]]
    assert [one.positions for one in ledgers] == [{PART: len(RECORDS)}] * 2
    assert caplog.text.count("a is put off for") == 2
    assert "no attribute 'get'" in caplog.text


def test_a_fault_of_the_broker_ends_it() -> None:
    place = Told(KafkaConnectionError(), 1, lambda: None)
    with pytest.raises(KafkaConnectionError):
        asyncio.run(asyncio.wait_for(run_all([Notifier(Ledger(), place, Patience(0.01, 0.02), 100)]), 30))
