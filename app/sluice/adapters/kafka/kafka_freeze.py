"""Freeze and thaw: signed and published in one step, for whoever holds the key of an approver.

The command and the gateway's pages call it alike. What is published is judged first as every worker judges
it, and read back from the broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.partitioner import murmur2

from sluice.adapters.kafka.kafka_consumers import Connection, batches_since
from sluice.adapters.kafka.kafka_control import publish_control
from sluice.adapters.kafka.kafka_publish import Outgoing
from sluice.adapters.kafka.kafka_read import KafkaUnreachable
from sluice.core.foundation.clock import rfc3339
from sluice.core.state.session import session_key
from sluice.core.trust.compile_cache import Compiled
from sluice.core.trust.fold import fold
from sluice.core.trust.freezing import describe_unknown, freeze_entry, thaw_entries
from sluice.core.trust.in_force import arrivals, refused_of, rehearse
from sluice.core.trust.signing import signed_entries
from sluice_topics.catalog import REGISTRY
from sluice_topics.headers import input_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.core.foundation.arrival import Arrival
    from sluice.core.registry.keys import Roots, SigningKey
    from sluice.core.registry.registry_entries import EntryFile
    from sluice.core.trust.fold import Folded
    from sluice.core.trust.freezing import FreezeSubject
    from sluice_topics.audience import Audience

SOURCE = "/sluice/freeze"
"""ce_source of what is published here."""


class FreezeOrder(NamedTuple):
    """What somebody wants. `active` False: thaw it. `unknown_too`: freeze it also if nobody knows it."""

    subject: FreezeSubject
    reason: str
    active: bool = True
    unknown_too: bool = False


@dataclass(frozen=True, slots=True)
class FreezeOutcome:
    """What became of an order. `written`: keys of the entries in force now, "freeze/id@revision"; `refused`:
    why nothing was written, in sentences. Both empty: a thaw of what is not frozen."""

    written: tuple[str, ...]
    refused: tuple[str, ...] = ()


class FreezePlace(NamedTuple):
    """Where freezes are published. `registry`, `changelog`: the topics' names on the broker; `writer`: the
    transactional id of an installation's publishers."""

    bootstrap_servers: str
    registry: str
    changelog: str
    partitions: int
    writer: str


class KafkaFreezing:
    """Freezes and thaws in one installation."""

    def __init__(self, place: FreezePlace, roots: Roots, audience: Audience) -> None:
        self._place = place
        self._roots = roots
        self._compiled = Compiled(lambda _: (), audience)

    async def order(self, order: FreezeOrder, key: SigningKey, now_ms: int) -> FreezeOutcome:
        """Sign and publish what the order needs, as of now in ms.

        Raises KafkaUnreachable, UnknownTopics and AnotherPublisherError.
        """
        is_session = order.subject.kind == "session" and order.active and not order.unknown_too
        alive = await self.is_session(order.subject.id) if is_session else False
        publishing = _Publishing(self, order, key, {order.subject.id} if alive else set(), now_ms)
        topics, place = {self._place.registry: REGISTRY}, self._place
        records = await publish_control(place.bootstrap_servers, topics, place.writer, publishing.choose)
        return publishing.outcome(records)

    async def is_session(self, session_id: str) -> bool:
        """Whether a session lives: its partition's changelog has its state. Raises KafkaUnreachable."""
        servers, key = self._place.bootstrap_servers, session_key(session_id)
        number = int(murmur2(session_id.encode()) & 0x7FFFFFFF) % self._place.partitions
        part = TopicPartition(self._place.changelog, number)
        reading, asking = Connection(servers, "read_committed"), Connection(servers, "read_uncommitted")
        lives = False
        try:
            async for batch in batches_since(await reading.consumer(), await asking.consumer(), part, 0):
                found = [one.value is not None for one in batch if one.key == key]
                lives = found[-1] if found else lives
        except KafkaError as error:
            raise KafkaUnreachable(f"{servers}: {error}") from error
        finally:
            await reading.close()
            await asking.close()
        return lives

    def fold(self, records: Sequence[Arrival]) -> Folded:
        """The registry in force after these records."""
        return fold(records, self._roots, self._compiled)

    def refused(self, records: Sequence[Arrival], new: Sequence[Arrival]) -> tuple[str, ...]:
        """Why `new` would not count behind `records`."""
        return tuple(map(str, rehearse(records, new, self._roots, self._compiled).refused))


class _Publishing:
    """One order, on what the topic holds when it is its turn to write."""

    def __init__(
        self, freezing: KafkaFreezing, order: FreezeOrder, key: SigningKey, sessions: set[str], now_ms: int
    ) -> None:
        self._freezing, self._order, self._key = freezing, order, key
        self._sessions, self._now_ms = sessions, now_ms
        self._new: list[Arrival] = []
        self._refused: tuple[str, ...] = ()

    def choose(self, records: Sequence[Arrival]) -> list[tuple[str, Outgoing]]:
        """The records to write; none where the order is refused."""
        folded = self._freezing.fold(records)
        entries = self._entries(folded)
        values = signed_entries(entries, [self._key], separately=True)
        self._new = arrivals(REGISTRY, values, records, self._now_ms)
        self._refused = self._refused or self._freezing.refused(records, self._new)
        return [] if self._refused else [(REGISTRY, self._outgoing(one)) for one in self._new]

    def outcome(self, records: Sequence[Arrival]) -> FreezeOutcome:
        """What became of it; `records`: those of the topic afterwards."""
        if self._refused:
            return FreezeOutcome((), self._refused)
        values = {(one.key, one.value) for one in self._new}
        written = [one for one in records if (one.key, one.value) in values]
        refused = refused_of(self._freezing.fold(records), written)
        return FreezeOutcome(tuple((one.key or b"").decode() for one in written), tuple(map(str, refused)))

    def _entries(self, folded: Folded) -> list[EntryFile]:
        order = self._order
        if not order.active:
            return thaw_entries(folded, order.subject, order.reason)
        unknown = describe_unknown(folded.registry, order.subject, self._sessions)
        if unknown is None or order.unknown_too:
            return [freeze_entry(folded, order.subject, order.reason)]
        self._refused = (unknown,)
        return []

    def _outgoing(self, arrival: Arrival) -> Outgoing:
        name = f"{REGISTRY}:{(arrival.key or b'').decode()}"
        headers = input_headers(name, "DsseEnvelope", SOURCE, rfc3339(self._now_ms))
        return Outgoing(arrival.key, arrival.value or b"", tuple(headers))
