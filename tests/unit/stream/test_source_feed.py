"""The histories of all sources as a worker knows them: the newest revision of each, whatever comes late."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from aiokafka.errors import KafkaConnectionError

from sluice.core.state.history import History, SourceName
from sluice.stream.feeds.shared_feeds import SourceFeed
from tests.unit.stream.read_topic import Topic

if TYPE_CHECKING:
    import pytest

MAIL = SourceName("acme", "mail")


def history(revision: int, positive: int = 0, source_id: str = "mail") -> bytes:
    body = {
        "schema": "sluice/source_history/v1",
        "tenant_id": "acme",
        "source_id": source_id,
        "type": "user",
        "positive": positive,
        "negative": 0,
        "revision": revision,
        "decided_at": "2025-11-21T13:00:00.000Z",
    }
    return json.dumps(body).encode()


async def test_the_newest_revision_counts_in_whatever_order_it_comes() -> None:
    feed = SourceFeed(Topic([history(2, 5)], [history(1, 4), history(3, 6), history(1, 4)]), 0.0)
    known = feed.histories
    await feed.catch_up()
    assert known == {MAIL: History("user", 5, 0, 2)}
    await feed.catch_up()
    assert known == {MAIL: History("user", 6, 0, 3)}


async def test_what_cannot_be_read_is_told_and_its_neighbours_count(caplog: pytest.LogCaptureFixture) -> None:
    feed = SourceFeed(Topic([b"{", history(1), b'{"schema": 7}']), 0.0)
    await feed.catch_up()
    assert list(feed.histories) == [MAIL]
    assert caplog.text.count("a source history cannot be read") == 2


async def test_a_broker_that_is_away_is_asked_again() -> None:
    topic = Topic(KafkaConnectionError(), [history(1)])
    feed = SourceFeed(topic, 0.0)
    following = asyncio.create_task(feed.follow())
    async with asyncio.timeout(10):
        await topic.read_all.wait()
    following.cancel()
    await asyncio.wait([following])
    assert list(feed.histories) == [MAIL]
    await feed.close()
    assert topic.closed
