"""What the verbs of `sluice quarantine` read: what waits, and the life of one memory."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from app.adapters.kafka.kafka_named import meanings
from app.adapters.kafka.kafka_quarantine import KafkaQuarantine, event_of
from app.adapters.kafka.kafka_read import KafkaUnreachable, UnknownTopics
from app.cli.output import WRONG, settings_or_stop, stop, stop_unknown_topics
from app.core.foundation.clock import milliseconds_of
from app.core.foundation.ids import coordinates_of, memory_id
from app.core.memory.context import digest_of
from app.core.reports.from_ledger import NotInLedgerError, Waiting, decision_in
from app.ports import PortUnavailable
from app.settings import real_names
from topics.catalog import MEMORY_WRITES
from topics.reading import Unreadable, read
from topics.records import (
    MemoryDecision,
    ProposedMemoryWrite,
    QuarantineApproved,
    QuarantineEntered,
    QuarantineEvicted,
    QuarantineExpired,
    QuarantineRejected,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from app.adapters.kafka.kafka_quarantine import Place
    from app.core.reports.from_ledger import Event

T = TypeVar("T")

WORDS: dict[type[Any], str] = {
    QuarantineEntered: "waiting",
    QuarantineApproved: "approved",
    QuarantineRejected: "rejected",
    QuarantineExpired: "expired",
    QuarantineEvicted: "evicted",
}
NEVER_HELD = "never held"


@dataclass(frozen=True, slots=True)
class Life:
    """Of one memory. `content` None: see `no_content`."""

    memory_id: str
    decision: MemoryDecision | None
    events: tuple[Event, ...]
    content: str | None
    no_content: str

    @property
    def state(self) -> str:
        """A word: how it stands, or how it ended."""
        return WORDS[type(self.events[-1])] if self.events else NEVER_HELD

    @property
    def entered(self) -> QuarantineEntered | None:
        """The event by which it waits; None where it does not."""
        last = self.events[-1] if self.events else None
        return last if isinstance(last, QuarantineEntered) else None


def connected() -> KafkaQuarantine:
    """To the installation of the settings."""
    settings = settings_or_stop()
    return KafkaQuarantine(settings.kafka.bootstrap_servers, real_names(settings))


def asked(question: Coroutine[Any, Any, T]) -> T:
    """The answer; what cannot be read ends the command."""
    try:
        return asyncio.run(question)
    except UnknownTopics as error:
        stop_unknown_topics(error)
    except KafkaUnreachable as error:
        stop(f"the broker does not answer: {error}. `sluice broker start` starts one.")
    except NotInLedgerError as error:
        stop(f"{error}. `sluice ledger verify` says what is wrong with the ledger.")


async def waiting(kafka: KafkaQuarantine) -> list[QuarantineEntered]:
    """What is held now, the oldest first."""
    held = Waiting()
    async for record in kafka.events():
        held.take(event_of(record))
    return list(held)


def place_or_stop(given: str) -> Place:
    """Where the input of a memory lies. A person may leave out what is always the same: 3:17."""
    whole = given if given.count(":") > 1 else f"{MEMORY_WRITES}:{given}"
    try:
        place = coordinates_of(whole)
    except ValueError:
        place = _place_of_write_or_stop(given)
    if place[0] != MEMORY_WRITES:
        stop(f"no id of a memory: {given} is of {place[0]}", WRONG)
    return place


def _place_of_write_or_stop(name: str) -> Place:
    """Where the write lies that its caller named so; several of one name end the command."""
    kafka = settings_or_stop().kafka
    (meant,) = asked(meanings(kafka.bootstrap_servers, kafka.topic_prefix, [name]))
    if not meant.decisions:
        like = memory_id(f"{MEMORY_WRITES}:3:17")
        stop(f"{name}: {meant.why}. Ids of memories are like {like}")
    if len(meant.decisions) > 1:
        stop(f"{name} names several decisions: {', '.join(meant.decisions)}")
    return coordinates_of(meant.decisions[0])


async def life(kafka: KafkaQuarantine, place: Place) -> Life:
    """All that topics hold of the memory whose input lies there."""
    name = memory_id(":".join(map(str, place)))
    events = tuple([event async for event in _events(kafka, name)])
    since_ms = milliseconds_of(events[0].entered_at) if events else 0
    raw = await kafka.decision(name, place[1], since_ms)
    decision = None if raw is None else decision_in(raw)
    if decision is None and not events:
        return Life(name, None, (), None, "nothing was decided on it")
    digest = decision.content_digest if decision else events[0].content_digest
    content, no_content = await _content(kafka, place, digest)
    return Life(name, decision, events, content, no_content)


async def _events(kafka: KafkaQuarantine, name: str) -> Any:
    async for record in kafka.events():
        if name.encode() in (record.value or b""):
            event = event_of(record)
            if event.memory_id == name:
                yield event


async def _content(kafka: KafkaQuarantine, place: Place, digest: str | None) -> tuple[str | None, str]:
    """The content, or None and why. Only what the digest names is the content that was decided on."""
    try:
        write = read(ProposedMemoryWrite, await kafka.content(place))
    except PortUnavailable as error:
        return None, str(error)
    if isinstance(write, Unreadable):
        return None, f"the input is no memory write: {write.message}"
    if digest is not None and digest_of(write.content) != digest:
        return None, "what lies there is not what was decided on: its digest is another"
    return write.content, ""
