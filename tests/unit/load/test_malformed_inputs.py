"""The malformed inputs of the fault runs are malformed, each of them, and only by what is wrong with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from load.inputs.malformed_inputs import kinds_by_topic, make_report, make_retrieval
from sluice.core.decide.kinds import read_input_message
from sluice.core.foundation.input_record import InputRecord
from sluice_topics.catalog import MEMORY_WRITES, REPORTED, RETRIEVALS, REVIEWS
from sluice_topics.record_reading import Unreadable

if TYPE_CHECKING:
    from sluice.core.decide.kinds import Message

SESSION, SALT = "s-1", "run-7"
EVERY = kinds_by_topic()
KINDS = [(topic, name) for topic in (MEMORY_WRITES, REVIEWS, RETRIEVALS, REPORTED) for name in EVERY[topic]]


@pytest.mark.parametrize(("topic", "name"), KINDS, ids=[name for _, name in KINDS])
def test_no_malformed_input_is_readable(topic: str, name: str) -> None:
    assert isinstance(_read(topic, EVERY[topic][name](SESSION, SALT)), Unreadable)


def test_the_retrieval_and_the_report_that_they_are_made_of_are_readable() -> None:
    assert not isinstance(_read(RETRIEVALS, json.dumps(make_retrieval(SESSION, SALT)).encode()), Unreadable)
    assert not isinstance(_read(REPORTED, json.dumps(make_report(SESSION, SALT)).encode()), Unreadable)


def _read(topic: str, value: bytes) -> Message | Unreadable:
    return read_input_message(InputRecord(topic, 0, 0, 0, SESSION.encode(), value))
