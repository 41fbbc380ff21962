"""How often a key may ask: at one gateway, and at all of them with a real Redis."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.gateway.http.rate_limits import OwnRate, RateLimit, SharedRate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.redis_server import RedisServer


BUSY_S = 30.0
"""What a busy machine may take to answer."""


@given(
    per_second=st.floats(0.1, 1000),
    burst=st.integers(1, 50),
    pauses=st.lists(st.floats(0, 5), min_size=1, max_size=200),
)
async def test_no_more_come_through_than_the_burst_and_what_the_time_gives(
    per_second: float, burst: int, pauses: list[float]
) -> None:
    now, taken = 1e6, 0
    rate = OwnRate(per_second, burst, lambda: now)
    for pause in pauses:
        now += pause
        wait = await rate.take("key")
        if wait is None:
            taken += 1
        else:
            now += wait + 1e-6
            assert await rate.take("key") is None, "who waits as long as told comes through"
            taken += 1
    assert taken <= burst + (now - 1e6) * per_second + 1e-3
    assert await rate.take("another") is None


async def test_whoever_paused_has_the_whole_burst_again() -> None:
    now = 0.0
    rate = OwnRate(2, 3, lambda: now)
    assert [await rate.take("k") for _ in range(4)] == [None, None, None, 0.5]
    now = 1.5
    assert [await rate.take("k") for _ in range(4)] == [None, None, None, 0.5]


@pytest.fixture
def redis(real_redis: type[RedisServer], tmp_path: Path) -> Iterator[RedisServer]:
    with real_redis(tmp_path) as server:
        yield server


async def take(gateways: list[SharedRate], key: str, count: int) -> int:
    """How many of so many requests at once, in turn at each of the gateways, come through."""
    asked = [gateways[number % len(gateways)].take(key) for number in range(count)]
    return sum(one is None for one in await asyncio.gather(*asked))


async def close(*rates: RateLimit) -> None:
    for one in rates:
        await one.close()


async def test_all_gateways_of_a_redis_share_one_limit(redis: RedisServer) -> None:
    gateways = [SharedRate(redis.url, "a.", OwnRate(0.01, 30), BUSY_S) for _ in range(4)]
    other = SharedRate(redis.url, "b.", OwnRate(0.01, 30), BUSY_S)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(close, *gateways, other)
        assert await take(gateways, "k", 200) == 30
        wait = await gateways[3].take("k")
        assert wait is not None
        assert 90 < wait <= 100
        assert await gateways[0].take("another key") is None
        assert await other.take("k") is None, "another installation"


async def test_who_waits_as_long_as_told_comes_through(redis: RedisServer) -> None:
    one, two = (SharedRate(redis.url, "", OwnRate(0.5, 1), BUSY_S) for _ in range(2))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(close, one, two)
        assert await one.take("k") is None
        wait = await two.take("k")
        assert wait is not None
        assert 0 < wait <= 2
        await asyncio.sleep(wait + 0.01)
        assert await two.take("k") is None


async def test_without_its_redis_each_gateway_limits_alone_and_waits_for_it_once(redis: RedisServer) -> None:
    gateways = [SharedRate(redis.url, "", OwnRate(0.01, 5)) for _ in range(2)]
    async with AsyncExitStack() as stack:
        stack.push_async_callback(close, *gateways)
        assert await take(gateways, "k", 20) == 5
        redis.send(signal.SIGSTOP)
        began = time.monotonic()
        for gateway in gateways:
            assert [await gateway.take("k") is None for _ in range(20)] == [True] * 5 + [False] * 15
        assert time.monotonic() - began < 10
        redis.stop()
        third = SharedRate(redis.url, "", OwnRate(0.01, 5))
        stack.push_async_callback(third.close)
        assert [await third.take("k") is None for _ in range(6)] == [True] * 5 + [False]
