"""The malformed memory writes and reviews of the fault runs are malformed, each of them."""

from __future__ import annotations

import pytest

from app.core.arrival import Arrival
from app.core.inbound import message_of
from load.malformed_memory import kinds_by_topic
from topics.catalog import MEMORY_WRITES, REVIEWS
from topics.reading import Unreadable

SESSION, SALT = "s-1", "run-7"
KINDS = [(topic, name) for topic in (MEMORY_WRITES, REVIEWS) for name in kinds_by_topic()[topic]]


@pytest.mark.parametrize(("topic", "name"), KINDS, ids=[name for _, name in KINDS])
def test_no_malformed_write_or_review_is_readable(topic: str, name: str) -> None:
    value = kinds_by_topic()[topic][name](SESSION, SALT)
    assert isinstance(message_of(Arrival(topic, 0, 0, 0, SESSION.encode(), value)), Unreadable)
