"""References on a real broker: wanted ones are resolved beside the decisions, by whichever worker is up."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import orjson
import pytest
from aiokafka.admin import AIOKafkaAdminClient

from load.installations.loopback_http import HttpAnswer, HttpCall, serve_http
from sluice.adapters.kafka.kafka_consumers import KafkaCompacted
from sluice.adapters.kafka.kafka_groups import KafkaProvenance
from sluice.ports import Known, ProvenanceAnswer
from sluice.stream.feeds.provenance_resolver import ProvenanceResolver, ResolverSettings
from sluice.stream.feeds.provenance_work import Shares
from sluice.stream.feeds.shared_feeds import Kept, ProvenanceFeed
from sluice_topics.catalog import PROVENANCE_RECORDS, PROVENANCE_WANTED, VERDICTS
from tests.kafka.installation import action, make_small_installation, publish, run_worker, write
from tests.kafka.laid_memories import PARTITIONS, Memories, memories

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from sluice.broker.handle import Broker

pytestmark = pytest.mark.kafka

HOST = "docs.example.com"
BODY = b"as it was written"
DIGEST = f"sha256:{hashlib.sha256(BODY).hexdigest()}"
FOUND = ProvenanceAnswer(Known(DIGEST, len(BODY), None, None), "")


def make_wanted(uri: str, tenant: str = "acme") -> tuple[bytes, bytes]:
    """Key and value."""
    body = {"schema": "sluice/provenance_wanted/v1", "tenant_id": tenant, "uri": uri, "wanted_by": "write"}
    return orjson.dumps([tenant, uri]), json.dumps(body | {"decided_at": "2025-11-21T13:00:00.000Z"}).encode()


@pytest.fixture
def port() -> Iterator[int]:
    """Of pages that are answered at once but for /slow, which waits until the test is over."""
    over = threading.Event()

    def answer(call: HttpCall) -> HttpAnswer:
        if call.path == "/slow":
            over.wait(60)
        return HttpAnswer(200, BODY)

    with serve_http(answer) as url:
        yield int(url.rpartition(":")[2])
        over.set()


def test_a_worker_resolves_what_is_wanted_and_decides_beside_a_server_that_stalls(
    kafka: str, tmp_path: Path, prefix: str, port: int
) -> None:
    settings = {
        "ALLOWED_HOSTS": f'["{HOST}"]',
        "ALLOWED_PORTS": f"[{port}]",
        "ALLOW_LOOPBACK": "true",
        "PINNED": f'{{"{HOST}": "127.0.0.1"}}',
        "TIMEOUT_MS": "5000",
    }
    installation = make_small_installation(
        kafka, tmp_path, prefix.strip("."), **{f"SLUICE_PROVENANCE__{k}": v for k, v in settings.items()}
    )
    slow, page, inside = f"http://{HOST}:{port}/slow", f"http://{HOST}:{port}/page", "http://169.254.169.254/"
    for worker in run_worker(installation):
        publish(installation, [make_wanted(inside), make_wanted(slow), make_wanted(page)], PROVENANCE_WANTED)
        publish(installation, [action("s-1", "a-1")])
        assert write(installation, VERDICTS, 1, worker)[0]["action_id"] == "a-1"
        found = write(installation, PROVENANCE_RECORDS, 2, worker)
    told = {one["uri"]: (one["status"], one["hash"], one["detail"]) for one in found}
    assert told == {
        page: ("resolved", DIGEST, ""),
        slow: ("unresolvable", None, "no whole answer within 5000 ms"),
    }


class Source:
    """Answers when it may: at once, if it is not stuck."""

    name = "http"

    def __init__(self, *, stuck: bool = False) -> None:
        self.asked: list[str] = []
        self.may = asyncio.Event()
        if not stuck:
            self.may.set()

    async def resolve(self, tenant: str, uri: str, known: Known | None) -> ProvenanceAnswer:
        assert tenant == "acme"
        assert known is None or known == FOUND.resolution
        self.asked.append(uri)
        await self.may.wait()
        return FOUND


@pytest.fixture
async def laid(kafka: str, prefix: str) -> Memories:
    return await memories(kafka, prefix)


def feed_on(laid: Memories) -> ProvenanceFeed:
    records = KafkaCompacted(laid.servers, laid.names[PROVENANCE_RECORDS], PARTITIONS)
    return ProvenanceFeed(records, 0.1, Kept(100, 1_000_000), lambda: 1)


@asynccontextmanager
async def member(laid: Memories, source: Source) -> AsyncIterator[ProvenanceFeed]:
    """A resolver of the group, at work, and the records as it knows them."""
    feed, names = feed_on(laid), laid.names
    topic = KafkaProvenance(
        laid.servers,
        f"{laid.prefix}-provenance",
        names[PROVENANCE_WANTED],
        names[PROVENANCE_RECORDS],
        max_request_bytes=1_000_000,
    )
    settings = ResolverSettings(Shares(8, 8, 8, 100, 100, 100), min_interval_s=0.001)
    resolver = ProvenanceResolver(source, topic, feed, settings, lambda: 1)
    at_work = [asyncio.create_task(resolver.run()), asyncio.create_task(feed.follow())]
    try:
        yield feed
    finally:
        for task in at_work:
            task.cancel()
        await asyncio.wait(at_work)
        await feed.close()


async def lay(laid: Memories, *uris: str) -> None:
    for number, uri in enumerate(uris):
        await laid.lay(PROVENANCE_WANTED, [make_wanted(uri)[1]], number % PARTITIONS)


async def wait_until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Return once it holds."""
    async with asyncio.timeout(40):
        while not await holds():  # noqa: ASYNC110 - a broker tells nobody
            await asyncio.sleep(0.05)


async def make_known(feed: ProvenanceFeed, count: int) -> set[str]:
    """The references on record once there are so many."""

    async def enough() -> bool:
        return len(feed.recorded) >= count

    await wait_until(enough)
    return {uri for _, uri in feed.recorded}


async def wait_until_begun(source: Source, count: int) -> None:
    """Return once so many references are in work."""

    async def enough() -> bool:
        return len(source.asked) >= count

    await wait_until(enough)


async def read_committed(laid: Memories) -> int:
    """How many places the group has left behind."""
    admin = AIOKafkaAdminClient(bootstrap_servers=laid.servers)
    await admin.start()
    try:
        offsets = await admin.list_consumer_group_offsets(f"{laid.prefix}-provenance")
    finally:
        await admin.close()
    return sum(max(one.offset, 0) for one in offsets.values())


async def test_what_one_resolver_did_not_get_done_is_resolved_by_the_next(laid: Memories) -> None:
    uris = [f"https://{HOST}/{number}" for number in range(6)]
    await lay(laid, *uris)
    async with member(laid, stuck := Source(stuck=True)):
        await wait_until_begun(stuck, len(uris))
    async with member(laid, Source()) as feed:
        assert await make_known(feed, 6) == set(uris)


async def test_what_is_done_is_not_resolved_again_after_a_restart(laid: Memories) -> None:
    await lay(laid, first := f"https://{HOST}/1")
    async with member(laid, Source()) as feed:
        assert await make_known(feed, 1) == {first}

        async def is_done() -> bool:
            return await read_committed(laid) == 1

        await wait_until(is_done)
    await lay(laid, second := f"https://{HOST}/2")
    async with member(laid, source := Source()) as feed:
        assert await make_known(feed, 2) == {first, second}
    assert source.asked == [second]


async def test_two_resolvers_share_what_is_wanted(laid: Memories) -> None:
    async with member(laid, Source()) as feed, member(laid, Source()):
        await lay(laid, *(f"https://{HOST}/{number}" for number in range(40)))
        assert len(await make_known(feed, 40)) == 40


async def test_a_reference_of_an_open_transaction_is_not_resolved_and_delays_no_start(laid: Memories) -> None:
    """A worker's batch that is rolled back has wanted nothing."""
    async with laid.transaction(PROVENANCE_WANTED):
        await lay(laid, f"https://{HOST}/1", second := f"https://{HOST}/2")
        async with member(laid, source := Source()) as feed:
            assert await make_known(feed, 1) == {second}
            assert source.asked == [second]


async def test_a_broker_that_is_killed_and_comes_back_loses_no_reference(
    own_broker: Broker, prefix: str
) -> None:
    laid = await memories(own_broker.bootstrap_servers, prefix)
    await lay(laid, first := f"https://{HOST}/1")
    async with member(laid, source := Source(stuck=True)) as feed:
        await wait_until_begun(source, 1)
        await asyncio.to_thread(own_broker.kill)
        source.may.set()
        await asyncio.to_thread(own_broker.start)
        assert await make_known(feed, 1) == {first}
        await lay(laid, second := f"https://{HOST}/2")
        assert await make_known(feed, 2) == {first, second}
