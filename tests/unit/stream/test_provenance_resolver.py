"""The resolver beside the decisions: each wanted reference gets a record, whatever the others do."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaConnectionError

from sluice.ports import Known, ProvenanceAnswer
from sluice.stream.feeds.provenance_resolver import ProvenanceResolver, ResolverSettings
from sluice.stream.feeds.provenance_work import Shares
from sluice.stream.feeds.shared_feeds import Kept, ProvenanceFeed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    import pytest

NOW = 1_763_730_000_000
INTERVAL_S = 60.0
DIGEST = "sha256:" + "a" * 64
FOUND = ProvenanceAnswer(Known(DIGEST, 5, '"v1"', None), "")
A, B, SLOW = "https://a.example/1", "https://b.example/1", "https://slow.example/1"


def make_wanted(uri: str, tenant: str = "acme") -> bytes:
    body = {"schema": "sluice/provenance_wanted/v1", "tenant_id": tenant, "uri": uri, "wanted_by": "write"}
    return json.dumps(body | {"decided_at": "2025-11-21T13:00:00.000Z"}).encode()


class Broker:
    """The topics: one partition of wanted references, read on from what was committed at each connection."""

    def __init__(self, *values: bytes) -> None:
        self.values = list(values)
        self.published: list[dict[str, Any]] = []
        self.committed = 0
        self.away = 0
        self.connected = 0
        self.taken_away: frozenset[int] = frozenset()
        self._at = 0
        self._turned = asyncio.Event()

    async def connect(self) -> None:
        self.connected += 1
        self._at = self.committed

    async def some(self) -> Sequence[tuple[int, int, bytes | None]]:
        await asyncio.sleep(0)
        came = [(0, offset, self.values[offset]) for offset in range(self._at, len(self.values))]
        self._at = len(self.values)
        return came

    def take_lost(self) -> frozenset[int]:
        lost, self.taken_away = self.taken_away, frozenset()
        return lost

    async def publish(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        if self.away:
            self.away -= 1
            raise KafkaConnectionError
        for key, value in records:
            record = json.loads(value)
            assert json.loads(key) == [record["tenant_id"], record["uri"]]
            self.published.append(record)

    async def commit(self, positions: Mapping[int, int]) -> None:
        self.committed = positions.get(0, self.committed)
        self._turned.set()

    async def close(self) -> None:
        pass

    async def wait_until(self, there: Callable[[], bool]) -> None:
        """Let the resolver go on until this holds."""
        async with asyncio.timeout(10):
            while not there():
                self._turned.clear()
                await self._turned.wait()

    def uris(self) -> list[str]:
        return [one["uri"] for one in self.published]


class Source:
    """Answers at once, but by what it is told of a URI: say so, wait for ever, or raise."""

    name = "http"

    def __init__(self, told: Mapping[str, Exception | ProvenanceAnswer | None] | None = None) -> None:
        self._told = told or {}
        self.asked: list[tuple[str, Known | None]] = []

    async def resolve(self, tenant: str, uri: str, known: Known | None) -> ProvenanceAnswer:
        assert tenant in ("acme", "globex")
        self.asked.append((uri, known))
        if uri not in self._told:
            return FOUND
        told = self._told[uri]
        if isinstance(told, ProvenanceAnswer):
            return told
        if told is not None:
            raise told
        await asyncio.Event().wait()
        raise AssertionError


class Records:
    """The topic of records."""

    def __init__(self, *values: bytes) -> None:
        self._values = list(values)

    async def to_end(self) -> AsyncIterator[list[bytes]]:
        yield self._values

    async def close(self) -> None:
        pass


@asynccontextmanager
async def run_resolver(broker: Broker, source: Source, *recorded: bytes) -> AsyncIterator[ProvenanceResolver]:
    """A resolver at work, whose feed knows these records."""
    feed = ProvenanceFeed(Records(*recorded), 0.0, Kept(100, 100_000), lambda: NOW)
    await feed.catch_up()
    settings = ResolverSettings(Shares(4, 2, 3, 100, 50, 90), INTERVAL_S, again_s=0.0, pause_s=0.0)
    resolver = ProvenanceResolver(source, broker, feed, settings, lambda: NOW)
    running = asyncio.create_task(resolver.run())
    try:
        yield resolver
    finally:
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()


def record(uri: str, seen_at: int, status: str = "resolved") -> bytes:
    body = {"schema": "sluice/provenance_record/v1", "tenant_id": "acme", "uri": uri, "status": status}
    more = {"resolver": "http", "hash": DIGEST, "detail": "", "size": 5, "etag": '"v0"', "seen_at": seen_at}
    return json.dumps(body | more).encode()


async def test_a_wanted_reference_gets_a_record_and_then_its_place_is_committed() -> None:
    broker = Broker(make_wanted(A))
    async with run_resolver(broker, Source()):
        await broker.wait_until(lambda: broker.committed == 1)
    assert broker.published == [
        {
            "schema": "sluice/provenance_record/v1",
            "tenant_id": "acme",
            "uri": A,
            "status": "resolved",
            "resolver": "http",
            "hash": DIGEST,
            "detail": "",
            "size": 5,
            "etag": '"v1"',
            "last_modified": None,
            "seen_at": NOW,
        }
    ]


async def test_a_source_that_never_answers_delays_its_own_reference_and_no_commit_passes_it() -> None:
    broker = Broker(make_wanted(A), make_wanted(SLOW), make_wanted(B))
    async with run_resolver(broker, Source({SLOW: None})):
        await broker.wait_until(lambda: len(broker.published) == 2)
        broker.values.append(make_wanted("https://c.example/"))
        await broker.wait_until(lambda: len(broker.published) == 3)
    assert (broker.uris(), broker.committed) == ([A, B, "https://c.example/"], 1)


async def test_a_fault_over_one_reference_is_that_ones_record(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(make_wanted(SLOW), make_wanted(A))
    async with run_resolver(broker, Source({SLOW: ZeroDivisionError()})):
        await broker.wait_until(lambda: broker.committed == 2)
    told = {one["uri"]: (one["status"], one["hash"], one["detail"]) for one in broker.published}
    assert told == {SLOW: ("unresolvable", None, "the resolver failed"), A: ("resolved", DIGEST, "")}
    assert "https://slow.example/1 of acme cannot be resolved" in caplog.text


LATE = ProvenanceAnswer(None, "too late", "passing")
REFUSED = ProvenanceAnswer(None, "host not allowed", "refused")


async def test_a_hiccup_leaves_what_was_found_before_and_its_age() -> None:
    broker, old = Broker(make_wanted(A), make_wanted(A)), NOW - 10**8
    async with run_resolver(broker, source := Source({A: LATE}), record(A, old)):
        await broker.wait_until(lambda: broker.committed == 2)
        broker.values.append(make_wanted(A))
        await broker.wait_until(lambda: broker.committed == 3)
    told = [
        (one["status"], one["hash"], one["etag"], one["seen_at"], one["detail"]) for one in broker.published
    ]
    assert told == [("resolved", DIGEST, '"v0"', old, "too late")]
    assert len(source.asked) == 1


async def test_a_hiccup_over_what_was_never_found_is_on_record() -> None:
    broker = Broker(make_wanted(A))
    async with run_resolver(broker, Source({A: LATE})):
        await broker.wait_until(lambda: broker.committed == 1)
    assert [(one["status"], one["seen_at"]) for one in broker.published] == [("unresolvable", NOW)]


async def test_what_lies_there_no_more_is_on_record_whatever_was_found_before() -> None:
    broker = Broker(make_wanted(A), make_wanted(B))
    told = {A: ProvenanceAnswer(None, "the server answered 404"), B: REFUSED}
    async with run_resolver(broker, Source(told), record(A, NOW - 10**8), record(B, NOW - 10**8)):
        await broker.wait_until(lambda: broker.committed == 2)
    assert {(one["status"], one["hash"]) for one in broker.published} == {("unresolvable", None)}
    assert sorted(broker.uris()) == [A, B]


async def test_of_references_that_the_rules_refuse_or_nobody_had_room_for_there_is_nothing_to_say() -> None:
    invented = [f"https://h{n}.example/" for n in range(40)]
    broker = Broker(*map(make_wanted, invented), make_wanted(B))
    told = dict.fromkeys(invented, REFUSED) | {B: ProvenanceAnswer(None, "too many names", "unasked")}
    async with run_resolver(broker, Source(told), record(B, NOW - 10**8)):
        await broker.wait_until(lambda: broker.committed == 41)
    assert broker.published == []


async def test_one_reference_is_resolved_once_however_it_is_spelt() -> None:
    broker = Broker(make_wanted("https://A.example:443/./1#x"), make_wanted(A))
    async with run_resolver(broker, source := Source()):
        await broker.wait_until(lambda: broker.committed == 2)
    assert (broker.uris(), source.asked) == ([A], [(A, None)])


async def test_many_decisions_that_want_one_reference_have_it_resolved_once() -> None:
    broker = Broker(*[make_wanted(A)] * 50)
    async with run_resolver(broker, source := Source()):
        await broker.wait_until(lambda: broker.committed == 50)
        broker.values += [make_wanted(A)] * 50
        await broker.wait_until(lambda: broker.committed == 100)
    assert source.asked == [(A, None)]


async def test_a_young_record_is_not_resolved_again_and_an_old_one_is_with_what_is_known() -> None:
    broker = Broker(make_wanted(A), make_wanted(B), make_wanted(A, "globex"))
    interval = int(INTERVAL_S * 1000)
    recorded = record(A, NOW - interval + 1), record(B, NOW - interval)
    async with run_resolver(broker, source := Source(), *recorded):
        await broker.wait_until(lambda: broker.committed == 3)
    assert source.asked == [(B, Known(DIGEST, 5, '"v0"', None)), (A, None)]


async def test_a_record_from_the_future_does_not_keep_a_reference_from_being_resolved() -> None:
    broker = Broker(make_wanted(A))
    async with run_resolver(broker, source := Source(), record(A, NOW + 10**9)):
        await broker.wait_until(lambda: broker.committed == 1)
    assert len(source.asked) == 1


async def test_a_broker_that_goes_away_gives_again_what_was_not_committed() -> None:
    broker = Broker(make_wanted(A), make_wanted(B))
    broker.away = 3
    async with run_resolver(broker, Source()):
        await broker.wait_until(lambda: broker.committed == 2)
    assert sorted(broker.uris()) == [A, B]
    assert broker.connected == 4


async def test_what_cannot_be_read_is_told_and_passed(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker(b"{", make_wanted(A), b"")
    async with run_resolver(broker, Source()):
        await broker.wait_until(lambda: broker.committed == 3)
    assert broker.uris() == [A]
    assert caplog.text.count("a wanted reference cannot be read") == 2


async def test_what_too_many_of_one_host_is_left_and_others_are_resolved(
    caplog: pytest.LogCaptureFixture,
) -> None:
    flood = [make_wanted(f"https://slow.example/{n}") for n in range(80)]
    told = {f"https://slow.example/{n}": None for n in range(80)}
    broker = Broker(*flood, make_wanted(A))
    async with run_resolver(broker, Source(told)):
        await broker.wait_until(lambda: broker.uris() == [A])
    assert caplog.text.count("too many of its host or tenant wait") == 30


async def test_places_of_a_partition_that_was_taken_away_are_committed_by_its_owner() -> None:
    broker = Broker(make_wanted(SLOW))
    async with run_resolver(broker, source := Source({SLOW: None})):
        await broker.wait_until(lambda: len(source.asked) == 1)
        broker.taken_away = frozenset({0})
        await broker.wait_until(lambda: not broker.taken_away)
        broker.values.append(make_wanted(A))
        await broker.wait_until(lambda: broker.committed == 2)
    assert broker.uris() == [A]
