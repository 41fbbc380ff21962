"""What the actions that wait are, for lists of many: read once each, in the background.

The ledger's record of an escalation has a digest of its action and no content. So a list that shows tools and
parameters would read two records of two topics for each line, at every look. This reader follows what waits
and keeps a summary of each, as long as it waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokafka.errors import KafkaError

from sluice.client.binding import compute_digest
from sluice.client.input_kinds import ACTIONS, VERDICTS
from sluice.client.kafka_reading import POLL_MS, connect_consumer
from sluice.client.past_records import read_answer_id
from sluice.gateway.action_summary import summarize
from sluice_topics.json_text import Unreadable, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aiokafka import AIOKafkaConsumer, TopicPartition

    from sluice.gateway.action_summary import WaitingContent

log = logging.getLogger(__name__)
AGAIN_S = 1.0
"""After a broker that did not answer."""
READ_TOGETHER = 500
FETCHED_BYTES = 65_536
FETCH_WAIT_MS = 10
"""How long the broker holds a fetch that finds nothing: the next place is read only after it."""
APART_MS = 5_000
"""So near to each other are the opening and the verdict of one transaction, whatever the clocks say."""
SEARCHED = 2_000
"""Records of a partition that are looked through for one of them."""


class _ContentQuery(NamedTuple):
    """An escalation whose action is to be read. `coordinates`: of its input; `at_ms`: when it opened."""

    an_id: str
    coordinates: Mapping[str, Any]
    verdict_id: str
    at_ms: int


class WaitingContents:
    """Reads them, for a process that is told of each opening. On one event loop."""

    def __init__(self, connection: Mapping[str, Any], prefix: str) -> None:
        """`connection`: aiokafka's arguments."""
        self._connection = connection
        self._prefix = prefix
        self._contents: dict[str, WaitingContent | None] = {}
        self._queries: dict[str, _ContentQuery] = {}
        self._stirred = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def get(self, an_id: str) -> WaitingContent | None:
        """The content of a waiting action; None while it is not read, or where it cannot be."""
        return self._contents.get(an_id)

    def request(self, an_id: str, opened: Mapping[str, Any], at_ms: int) -> None:
        """Read it soon. `at_ms`: the broker's time of the record that opened it."""
        coordinates, verdict_id = opened.get("input") or {}, str(opened.get("verdict_id"))
        self._queries[an_id] = _ContentQuery(an_id, coordinates, verdict_id, at_ms)
        self._stirred.set()

    def forget(self, an_id: str) -> None:
        """It waits no more."""
        self._queries.pop(an_id, None)
        self._contents.pop(an_id, None)

    async def start(self, notify: Callable[[str], None]) -> None:
        """Connect, and read from now on what is asked for; `notify` is called with each id that was read.
        Raises KafkaError."""
        consumer = await connect_consumer(
            self._connection, fetch_max_wait_ms=FETCH_WAIT_MS, max_partition_fetch_bytes=FETCHED_BYTES
        )
        self._task = asyncio.create_task(self._follow(consumer, notify))

    async def close(self) -> None:
        """Disconnect."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _follow(self, consumer: AIOKafkaConsumer, notify: Callable[[str], None]) -> None:
        try:
            while True:
                await self._stirred.wait()
                self._stirred.clear()
                try:
                    await self._read_all(consumer, notify)
                except (KafkaError, ConnectionError) as error:
                    log.warning("what waits cannot be read: %s", error)
                    await asyncio.sleep(AGAIN_S)
                    self._stirred.set()
        finally:
            await consumer.stop()

    async def _read_all(self, consumer: AIOKafkaConsumer, notify: Callable[[str], None]) -> None:
        while self._queries:
            asked = list(self._queries.values())[:READ_TOGETHER]
            contents = await self._read(consumer, asked)
            for query in asked:
                if self._queries.pop(query.an_id, None) is not None:
                    self._contents[query.an_id] = contents.get(query.an_id)
                    notify(query.an_id)

    async def _read(
        self, consumer: AIOKafkaConsumer, asked: Sequence[_ContentQuery]
    ) -> dict[str, WaitingContent | None]:
        """Read the contents that were asked for, of all partitions at once."""
        actions = {query.an_id: query for query in asked if query.coordinates.get("topic") == ACTIONS}
        inputs = await _find(
            consumer,
            [
                self._locate_wanted(
                    action, ACTIONS, action.coordinates["offset"], action.coordinates["offset"]
                )
                for action in actions.values()
            ],
            lambda record: record.offset,
        )
        begins = []
        for query in actions.values():
            part = self._make_part(VERDICTS, query.coordinates["partition"])
            begin = (await consumer.offsets_for_times({part: query.at_ms - APART_MS}))[part]
            if begin is not None:
                begins.append(self._locate_wanted(query, VERDICTS, query.verdict_id, begin.offset))
        verdicts = await _find(consumer, begins, read_answer_id)
        return {
            an_id: _read_content(value, actions[an_id].coordinates.get("digest"), verdicts.get(an_id))
            for an_id, value in inputs.items()
        }

    def _locate_wanted(self, query: _ContentQuery, topic: str, key: object, offset: int) -> _RecordQuery:
        return _RecordQuery(query.an_id, self._make_part(topic, query.coordinates["partition"]), key, offset)

    def _make_part(self, topic: str, number: int) -> TopicPartition:
        from aiokafka import TopicPartition  # noqa: PLC0415 - as above

        return TopicPartition(self._prefix + topic, number)


class _RecordQuery(NamedTuple):
    """A record of a partition that has this key, at `offset` or soon after it."""

    an_id: str
    part: TopicPartition
    key: object
    offset: int


async def _find(
    consumer: AIOKafkaConsumer, wanted: Sequence[_RecordQuery], key_of: Callable[[Any], object]
) -> dict[str, bytes]:
    """The values of the wanted records by id, without those that are not there within `SEARCHED` records."""
    values_by_id: dict[str, bytes] = {}
    keys = {(query.part, query.key): query.an_id for query in wanted}
    left: dict[TopicPartition, deque[_RecordQuery]] = defaultdict(deque)
    for query in sorted(wanted, key=lambda query: query.offset):
        left[query.part].append(query)
    if not left:
        return values_by_id
    consumer.assign(list(left))
    ends = await consumer.end_offsets(list(left))
    for part, wants in left.items():
        consumer.seek(part, wants[0].offset)
    while left:
        for part, records in (await consumer.getmany(timeout_ms=POLL_MS)).items():
            values = {(part, key_of(record)): bytes(record.value or b"") for record in records}
            values_by_id |= {keys[key]: values[key] for key in values.keys() & keys.keys()}
        for part, wants in list(left.items()):
            at = await consumer.position(part)
            while wants and (
                wants[0].an_id in values_by_id or at >= min(ends[part], wants[0].offset + SEARCHED)
            ):
                wants.popleft()
            _advance(consumer, left, part, at)
    return values_by_id


def _advance(
    consumer: AIOKafkaConsumer, left: dict[TopicPartition, deque[_RecordQuery]], part: TopicPartition, at: int
) -> None:
    """Leave a partition where nothing more is wanted; else skip what lies before the next one."""
    if not left[part]:
        del left[part]
        consumer.pause(part)
    elif left[part][0].offset > at:
        consumer.seek(part, left[part][0].offset)


def _read_content(value: bytes, digest: object, verdict: bytes | None) -> WaitingContent | None:
    if compute_digest(value) != digest:
        return None
    content = parse(value)
    if isinstance(content, Unreadable):
        return None
    notify = None if verdict is None else parse(verdict)
    is_on_it = isinstance(notify, dict) and (notify.get("input") or {}).get("digest") == digest
    return summarize(content, notify if is_on_it else None)
