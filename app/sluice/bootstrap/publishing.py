"""Publishing to the control topics, and the freezes that commands and pages publish."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from sluice.adapters.kafka.kafka_ledger import has_state
from sluice.adapters.kafka.kafka_publish import publish_control
from sluice.client.kafka_writing import Outgoing
from sluice.core.cases.cases import run_cases
from sluice.core.foundation.clock import rfc3339
from sluice.core.registry.freezes import ASK, Stage
from sluice.core.trust.compile_cache import CompileCache
from sluice.core.trust.freezing import (
    FreezeSubject,
    describe_unknown,
    make_asking_entries,
    make_freeze_entry,
    make_thaw_entries,
)
from sluice.core.trust.in_force import Rehearsal, make_input_records, rehearse, select_refused
from sluice.core.trust.reduction import reduce_policy
from sluice.core.trust.signing import sign_entries
from sluice.settings.reader import list_real_names
from sluice_topics.access import CONTROL_WRITER
from sluice_topics.catalog import BUNDLES, BY_NAME, REGISTRY, SESSIONS_CHANGELOG
from sluice_topics.headers import make_input_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.registry.keys import SigningKey
    from sluice.core.registry.registry_entries import EntryFile
    from sluice.core.trust.freezing import FreezeFor
    from sluice.core.trust.reduction import ReducedPolicy
    from sluice.core.trust.refused import Refused
    from sluice.settings.reader import Settings

SOURCE = "/sluice/publish"
"""ce_source of what these commands publish."""


class Publishing:
    """Publishing to the control topics: rehearsed on what they hold, written, and looked at once more."""

    def __init__(
        self,
        settings: Settings,
        choose: Callable[[ReducedPolicy], Sequence[tuple[str, bytes]]],
        only: Sequence[str] = (),
    ) -> None:
        """`choose` gives topics and envelopes for what is in force, those that others depend on first.

        `only`: the topics to read, both if none is given; see `list_control_topics`.
        """
        self._settings = settings
        self._only = only
        self._choose = choose
        self._roots = settings.policy.read_roots()
        self._compiled = CompileCache(run_cases, settings.build_audience())
        self._rehearsal = Rehearsal((), (), ())
        self.written: list[InputRecord] = []
        self.refused: tuple[Refused, ...] = ()

    @property
    def repeats(self) -> tuple[InputRecord, ...]:
        """The records that were there already."""
        return self._rehearsal.repeats

    async def publish(self) -> None:
        """Do it. Raises UnknownTopics, KafkaUnreachable and AnotherPublisherError."""
        kafka = self._settings.kafka
        topics = list_control_topics(self._settings, self._only)
        writer = f"{kafka.topic_prefix}{CONTROL_WRITER}"
        records = await publish_control(kafka.connection, topics, writer, self._choose_writes)
        if not self.refused:
            self._confirm(records)

    def _choose_writes(self, records: Sequence[InputRecord]) -> list[tuple[str, Outgoing]]:
        now_ms = time.time_ns() // 1_000_000
        chosen = self._choose(reduce_policy(records, self._roots, self._compiled))
        new = [
            input_record
            for topic in (REGISTRY, BUNDLES)
            for input_record in make_input_records(
                topic, [value for to, value in chosen if to == topic], records, now_ms
            )
        ]
        self._rehearsal = rehearse(records, new, self._roots, self._compiled)
        self.refused = self._rehearsal.refused
        return [(write.topic, _build_outgoing(write, now_ms)) for write in self._rehearsal.writes]

    def _confirm(self, records: Sequence[InputRecord]) -> None:
        """The broker's time decides, and it may not be this machine's."""
        due = {(write.topic, write.key, write.value): write.offset for write in self._rehearsal.writes}
        self.written = [
            record
            for record in records
            if record.offset >= due.get((record.topic, record.key, record.value), record.offset + 1)
        ]
        self.refused = select_refused(reduce_policy(records, self._roots, self._compiled), self.written)


def list_control_topics(settings: Settings, only: Sequence[str] = ()) -> dict[str, str]:
    """Base name by real name, those that others depend on first.

    `only` some of them: the registry alone comes to the same entries in a fraction of the time, since no
    entry depends on a bundle and none has to be compiled.
    """
    prefix = settings.kafka.topic_prefix
    return {BY_NAME[base].real_name(prefix, ""): base for base in only or (REGISTRY, BUNDLES)}


def _build_outgoing(write: InputRecord, now_ms: int) -> Outgoing:
    name = (write.key or b"").decode()
    return Outgoing(
        write.key,
        write.value or b"",
        tuple(make_input_headers(f"{write.topic}:{name}", "DsseEnvelope", SOURCE, rfc3339(now_ms))),
    )


class FreezeOrder(NamedTuple):
    """What somebody wants. `active` False: thaw it. `unknown_too`: freeze it also if nobody knows it.
    `person`: for whom a gateway signs it. `stage`: "ask" has a person agree to what it does."""

    subject: FreezeSubject
    reason: str
    active: bool = True
    unknown_too: bool = False
    person: FreezeFor | None = None
    stage: Stage = "stop"


class PublishedEntries(NamedTuple):
    """What became of entries. `written`: keys of those in force now, "freeze/id@revision"; `refused`: why
    one is not, in sentences."""

    written: list[str]
    refused: list[str]


async def publish_entries(
    settings: Settings,
    signers: Sequence[SigningKey],
    make: Callable[[ReducedPolicy], list[EntryFile]],
) -> PublishedEntries:
    """Sign and publish entries of the registry, each for itself. `make` makes them for what is in force.
    Raises UnknownTopics, KafkaUnreachable and AnotherPublisherError."""

    def choose(reduced: ReducedPolicy) -> list[tuple[str, bytes]]:
        entries = make(reduced)
        signed = sign_entries(entries, signers, separately=True) if entries else []
        return [(REGISTRY, value) for value in signed]

    publishing = Publishing(settings, choose, (REGISTRY,))
    await publishing.publish()
    written = [(record.key or b"").decode() for record in publishing.written]
    return PublishedEntries(written, [*map(str, publishing.refused)])


async def publish_freeze(
    settings: Settings, order: FreezeOrder, signers: Sequence[SigningKey]
) -> PublishedEntries:
    """Sign and publish what an order needs; nothing written and nothing refused: a thaw of what is not
    frozen. Raises as `publish_entries`."""
    subject, unknown_to_all = order.subject, list[str]()
    must_be_known = order.active and not order.unknown_too
    is_looked_for = must_be_known and subject.kind == "session"
    sessions = {subject.id} if is_looked_for and await is_session(settings, subject.id) else set()

    def make(reduced: ReducedPolicy) -> list[EntryFile]:
        unknown = describe_unknown(reduced.registry, subject, sessions) if must_be_known else None
        if unknown is not None:
            unknown_to_all.append(unknown)
            return []
        return make_entries(order, reduced)

    written, refused = await publish_entries(settings, signers, make)
    return PublishedEntries(written, [*unknown_to_all, *refused])


def make_entries(order: FreezeOrder, reduced: ReducedPolicy) -> list[EntryFile]:
    """The entries that an order needs on this policy."""
    subject, reason = order.subject, order.reason
    if not order.active:
        return make_thaw_entries(reduced, subject, reason)
    if order.stage == ASK:
        return make_asking_entries(reduced, subject, reason)
    return [make_freeze_entry(reduced, subject, reason, order.person)]


async def is_session(settings: Settings, session_id: str) -> bool:
    """Whether a session has state. Raises UnknownTopics and KafkaUnreachable."""
    changelog, kafka = list_real_names(settings)[SESSIONS_CHANGELOG], settings.kafka
    return await has_state(kafka.connection, changelog, kafka.partitions, session_id)
