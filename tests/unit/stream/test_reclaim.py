"""Mend 8: the three steps by which an expired producer id is taken up again, with every answer to each."""

from __future__ import annotations

import logging

import pytest
from aiokafka.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    KafkaError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
)

from sluice.stream.engine.reclaim import is_forgotten, is_news, reclaim


class Partition:
    """Answers in turn whether the changelog went on; `refuses` is the broker's answer to InitProducerId."""

    def __init__(self, *went_on: bool, refuses: bool = False) -> None:
        self._went_on = list(went_on)
        self._refuses = refuses
        self.asked: list[str] = []

    async def written_since(self) -> bool:
        self.asked.append("look")
        return self._went_on.pop(0)

    async def init(self) -> None:
        self.asked.append("init")
        if self._refuses:
            raise InvalidProducerEpoch


async def test_an_id_is_taken_up_between_two_looks_at_the_changelog() -> None:
    partition = Partition(False, False)
    await reclaim(partition.written_since, partition.init)
    assert partition.asked == ["look", "init", "look"]


async def test_an_owner_that_has_written_is_not_even_asked_to_give_way() -> None:
    partition = Partition(True)
    with pytest.raises(ProducerFenced):
        await reclaim(partition.written_since, partition.init)
    assert partition.asked == ["look"]


async def test_an_owner_that_the_broker_knows_stays() -> None:
    partition = Partition(False, refuses=True)
    with pytest.raises(ProducerFenced):
        await reclaim(partition.written_since, partition.init)
    assert partition.asked == ["look", "init"]


async def test_what_was_written_between_the_first_look_and_the_fence_counts() -> None:
    """A worker that is suspended between the two, until the other owner's id has expired as well."""
    partition = Partition(False, True)
    with pytest.raises(ProducerFenced):
        await reclaim(partition.written_since, partition.init)


def test_only_a_forgotten_id_is_taken_up_however_the_answer_is_wrapped() -> None:
    def wrap(inner: Exception) -> KafkaError:
        fault = KafkaError("Unexpected error during batch delivery")
        fault.__cause__ = inner
        return fault

    assert is_forgotten(InvalidProducerIdMapping())
    assert is_forgotten(wrap(InvalidProducerIdMapping()))
    assert not is_forgotten(wrap(OutOfOrderSequenceNumber()))
    assert not is_forgotten(ProducerFenced())


def test_the_log_keeps_every_traceback_but_that_of_a_forgotten_id() -> None:
    def line(fault: Exception | None) -> logging.LogRecord:
        told = None if fault is None else (type(fault), fault, None)
        return logging.LogRecord("aiokafka", logging.ERROR, "", 0, "Unexpected error", None, told)

    assert is_news(line(None))
    assert is_news(line(OutOfOrderSequenceNumber()))
    assert not is_news(line(InvalidProducerIdMapping()))
