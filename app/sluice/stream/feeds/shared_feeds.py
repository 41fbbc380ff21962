"""Topics through which workers share state: each worker reads them to the end before its first decision,
then on.

They have each memory source's history and how often each agent used each destination, as their owners
publish them, and the resolutions of provenance references, as the resolvers record them. The newest record
under a key counts. The state may lag behind its owner's: decisions do not wait for it, and record what they
saw.

A feed runs in a thread with its own loop: if it is slow or fails, decisions go on.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple, Protocol

from aiokafka.errors import KafkaError

from sluice.core.metadata.provenance import Resolution
from sluice.core.state.history import History, SourceName
from sluice.core.state.usual import UseCount, UsualName
from sluice.ports import Known
from sluice_topics.record_reading import Unreadable, read
from sluice_topics.records import ProvenanceRecord, SourceHistory, UsualDestination

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

log = logging.getLogger(__name__)


class CompactedReader(Protocol):
    """A reader of one compacted topic; each call continues where the last one stopped."""

    def to_end(self) -> AsyncIterator[list[bytes]]:
        """The values of every record up to the topic's present end, in batches small enough not to block the
        loop. Raises KafkaError."""

    async def close(self) -> None:
        """Give up the connection."""


class CompactedFeed:
    """A feed that gives every value to `take`, in order. `what`: the name of the records, for the log."""

    def __init__(
        self, reader: CompactedReader, interval_s: float, what: str, take: Callable[[bytes], None]
    ) -> None:
        self._reader = reader
        self._interval_s = interval_s
        self._what = what
        self._take = take
        self._turn = asyncio.Lock()

    async def catch_up(self) -> None:
        """Read to the topic's present end. Raises KafkaError."""
        async with self._turn:
            async for batch in self._reader.to_end():
                for value in batch:
                    self._take(value)
                await asyncio.sleep(0)

    async def follow(self) -> None:
        """Catch up again and again, until cancelled. A broker that is away is asked again."""
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.catch_up()
            except KafkaError as away:
                log.warning("the %s cannot be read now: %s", self._what, away)

    async def close(self) -> None:
        """Give up the connection."""
        async with self._turn:
            await self._reader.close()


class SourceFeed(CompactedFeed):
    """The feed of histories. `histories` is one mapping that changes in place: a decision reads it once."""

    def __init__(self, reader: CompactedReader, interval_s: float) -> None:
        super().__init__(reader, interval_s, "source histories", self._take)
        self.histories: dict[SourceName, History] = {}

    def _take(self, value: bytes) -> None:
        record = read(SourceHistory, value)
        if isinstance(record, Unreadable):
            log.error("a source history cannot be read: %s at %s", record.code, record.path)
            return
        name = SourceName(record.tenant_id, record.source_id)
        history = self.histories.get(name)
        if history is None or history.revision < record.revision:
            self.histories[name] = History(record.type, record.positive, record.negative, record.revision)


MOST_USES = 1_000_000
"""Counts of destinations that a worker keeps, some 400 bytes each; of those beyond it knows nothing, so a
person is asked."""


class UseFeed(CompactedFeed):
    """The feed of how often destinations were used. `uses` is one mapping that changes in place: a decision
    looks up what it needs."""

    def __init__(self, reader: CompactedReader, interval_s: float) -> None:
        super().__init__(reader, interval_s, "usual destinations", self._take)
        self.uses: dict[UsualName, UseCount] = {}
        self._is_full = False

    def _take(self, value: bytes) -> None:
        record = read(UsualDestination, value)
        if isinstance(record, Unreadable):
            log.error("a usual destination cannot be read: %s at %s", record.code, record.path)
            return
        name = UsualName(record.tenant_id, record.agent_id, record.tool, record.role, record.fingerprint)
        registered = self.uses.get(name)
        if registered is not None and registered.revision >= record.revision:
            return
        bounds, answer = (record.first_at, record.last_at), (record.answered_at or 0, record.known_until or 0)
        count = UseCount(*bounds, record.times, record.days, record.revision, *answer)
        if count.is_forgotten:
            self.uses.pop(name, None)
        elif registered is not None or len(self.uses) < MOST_USES:
            self.uses[name] = count
        elif not self._is_full:
            self._is_full = True
            log.warning("more than %d usual destinations: of the others nothing is known here", MOST_USES)


CLOCKS_APART_MS = 60_000
"""A record further in the future comes from a wrong clock; it would count for ever."""


class Kept(NamedTuple):
    """How many of a tenant's resolutions are kept; `max_bytes` counts the records as published."""

    max_recorded: int
    max_bytes: int


class ProvenanceFeed(CompactedFeed):
    """The feed of resolutions. `recorded` is one mapping that changes in place, by tenant and URI: a
    decision reads it once.

    It keeps the newest resolutions of each tenant, as many as `stored` says. So invented references can
    displace only those of their own tenant, and a displaced reference is requested again. `wall_ms`: the
    time.
    """

    def __init__(
        self, reader: CompactedReader, interval_s: float, stored: Kept, wall_ms: Callable[[], int]
    ) -> None:
        super().__init__(reader, interval_s, "resolved references", self._take)
        self.recorded: dict[tuple[str, str], Resolution] = {}
        self._resolutions: defaultdict[str, dict[str, tuple[Known | None, int]]] = defaultdict(dict)
        self._bytes: defaultdict[str, int] = defaultdict(int)
        self._limits = stored
        self._wall_ms = wall_ms

    def find(self, tenant: str, uri: str) -> Known | None:
        """The last resolution, None if it found nothing or there was none."""
        return self._resolutions[tenant].get(uri, _NOTHING)[0] if tenant in self._resolutions else None

    def _take(self, value: bytes) -> None:
        record = read(ProvenanceRecord, value)
        if isinstance(record, Unreadable):
            log.error("a resolved reference cannot be read: %s at %s", record.code, record.path)
            return
        if record.seen_at > self._wall_ms() + CLOCKS_APART_MS:
            log.warning("a resolved reference is from the future and counts for nothing: %s", record.uri)
        elif not self._is_behind(record):
            self._forget(record.tenant_id, record.uri)
            self._keep(record, len(value))

    def _is_behind(self, record: ProvenanceRecord) -> bool:
        """Whether a record is older than the known one: the resolution that began later counts, whichever
        was published last."""
        resolution = self.recorded.get((record.tenant_id, record.uri))
        return resolution is not None and record.seen_at < resolution.seen_ms

    def _keep(self, record: ProvenanceRecord, size: int) -> None:
        tenant, registered = record.tenant_id, self._resolutions[record.tenant_id]
        self.recorded[tenant, record.uri] = Resolution(
            record.status, record.hash, record.resolver, record.seen_at, record.detail
        )
        registered[record.uri] = _read_known(record), size
        self._bytes[tenant] += size
        while len(registered) > self._limits.max_recorded or self._bytes[tenant] > self._limits.max_bytes:
            self._forget(tenant, next(iter(registered)))

    def _forget(self, tenant: str, uri: str) -> None:
        self.recorded.pop((tenant, uri), None)
        self._bytes[tenant] -= self._resolutions[tenant].pop(uri, _NOTHING)[1]


_NOTHING: tuple[Known | None, int] = (None, 0)


def _read_known(record: ProvenanceRecord) -> Known | None:
    if record.hash is None:
        return None
    return Known(record.hash, record.size or 0, record.etag, record.last_modified)


class ThreadRunner:
    """One coroutine, started anew whenever it ends. `again_s`: seconds between its end and the next start;
    `patience_s`: how long `close` waits for it."""

    def __init__(
        self, name: str, run: Callable[[], Coroutine[None, None, None]], again_s: float, patience_s: float
    ) -> None:
        self._name = name
        self._run = run
        self._again_s = again_s
        self._patience_s = patience_s
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None  # made where it starts, and not before
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; only the first call has an effect. The thread ends with the process at the
        latest."""
        if self._thread is None:
            self._loop = loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._live, args=(loop,), name=self._name, daemon=True)
            self._thread.start()

    async def close(self) -> None:
        """Cancel the coroutine and wait for its end; if it does not end, it ends with the process."""
        if self._loop is None or self._thread is None or not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        await asyncio.to_thread(self._thread.join, self._patience_s)
        if self._thread.is_alive():
            log.warning("%s has not ended after %g s", self._name, self._patience_s)

    def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._turns())

    async def _turns(self) -> None:
        stop = asyncio.create_task(self._stopping.wait())
        while not stop.done():
            running = asyncio.create_task(self._run())
            await asyncio.wait([running, stop], return_when=asyncio.FIRST_COMPLETED)
            if not stop.done():
                log.error("%s ended; it starts again", self._name, exc_info=running.exception())
                await asyncio.wait([stop], timeout=self._again_s)
            running.cancel()
            await asyncio.wait([running])
