"""Where references lead as a worker knows it: the newest record of each, bounded by tenant."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaConnectionError

from sluice.core.metadata.provenance import Resolution
from sluice.ports import Known
from sluice.stream.feeds.shared_feeds import CLOCKS_APART_MS, Kept, ProvenanceFeed
from tests.unit.stream.read_topic import Topic

if TYPE_CHECKING:
    import pytest

PAGE = "https://docs.example.com/page"
DIGEST = "sha256:" + "a" * 64


def record(uri: str = PAGE, tenant: str = "acme", seen_at: int = 1, **changed: Any) -> bytes:
    body = {
        "schema": "sluice/provenance_record/v1",
        "tenant_id": tenant,
        "uri": uri,
        "status": "resolved",
        "resolver": "http",
        "hash": DIGEST,
        "detail": "",
        "size": 5,
        "etag": '"v1"',
        "seen_at": seen_at,
    }
    return json.dumps(body | changed).encode()


async def feed_of(
    *readings: list[bytes], most: int = 10, most_bytes: int = 1_000_000, now: int = 1000
) -> ProvenanceFeed:
    feed = ProvenanceFeed(Topic(*readings), 0.0, Kept(most, most_bytes), lambda: now)
    for _ in readings:
        await feed.catch_up()
    return feed


async def test_the_record_that_came_last_counts() -> None:
    feed = await feed_of(
        [record(seen_at=5)], [record(seen_at=9, status="unresolvable", hash=None, detail="why")]
    )
    assert feed.recorded == {("acme", PAGE): Resolution("unresolvable", None, "http", 9, "why")}
    assert feed.find("acme", PAGE) is None


async def test_one_that_began_before_the_record_on_hand_does_not_take_its_place() -> None:
    older = record(seen_at=5, status="unresolvable", hash=None, detail="why")
    feed = await feed_of([record(seen_at=9)], [older])
    assert feed.recorded["acme", PAGE].seen_ms == 9
    assert feed.find("acme", PAGE) is not None


async def test_a_record_of_a_clock_that_was_ahead_gives_way_to_the_next() -> None:
    feed = await feed_of([record(seen_at=CLOCKS_APART_MS + 1001)], [record(seen_at=5)], now=1000)
    assert feed.recorded["acme", PAGE].seen_ms == 5


async def test_long_references_are_kept_as_far_as_their_bytes_go_and_crowd_out_their_own_tenants_only() -> (
    None
):
    long = [record(f"https://a.example/{n}/" + "x" * 8000) for n in range(9)]
    feed = await feed_of([record(tenant="globex"), *long, *long], most_bytes=3 * len(long[0]))
    assert [uri[18:19] for tenant, uri in feed.recorded if tenant == "acme"] == ["6", "7", "8"]
    assert ("globex", PAGE) in feed.recorded


async def test_what_the_last_resolution_left_is_there_for_the_next() -> None:
    feed = await feed_of([record()])
    assert feed.find("acme", PAGE) == Known(DIGEST, 5, '"v1"', None)
    assert feed.find("globex", PAGE) is None


async def test_two_tenants_references_of_one_uri_are_two() -> None:
    feed = await feed_of([record(seen_at=1), record(tenant="globex", seen_at=2)])
    assert {key: one.seen_ms for key, one in feed.recorded.items()} == {
        ("acme", PAGE): 1,
        ("globex", PAGE): 2,
    }


async def test_of_a_tenant_with_too_many_references_those_resolved_last_are_kept_and_others_keep_theirs() -> (
    None
):
    many = [record(f"https://a.example/{n}") for n in range(5)]
    feed = await feed_of([record(tenant="globex"), *many, record("https://a.example/2"), *many[:1]], most=3)
    kept = [("globex", PAGE), ("acme", "https://a.example/4")]
    assert feed.recorded.keys() == {*kept, ("acme", "https://a.example/2"), ("acme", "https://a.example/0")}
    assert feed.find("acme", "https://a.example/1") is None


async def test_what_cannot_be_read_is_told_and_its_neighbours_count(caplog: pytest.LogCaptureFixture) -> None:
    feed = await feed_of([b"{", record(), record(hash="md5:1")])
    assert list(feed.recorded) == [("acme", PAGE)]
    assert caplog.text.count("a resolved reference cannot be read") == 2


async def test_a_broker_that_is_away_is_asked_again() -> None:
    topic = Topic(KafkaConnectionError(), [record()])
    feed = ProvenanceFeed(topic, 0.0, Kept(10, 1_000_000), lambda: 1000)
    following = asyncio.create_task(feed.follow())
    async with asyncio.timeout(10):
        await topic.read_all.wait()
    following.cancel()
    await asyncio.wait([following])
    assert list(feed.recorded) == [("acme", PAGE)]
    await feed.close()
    assert topic.closed
