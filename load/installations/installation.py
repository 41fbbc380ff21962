"""Where a run takes place: broker, topics of its own, folder; how long it is; and what it publishes.

Nothing of one run meets another's. The full lengths are those of `make faults`, the short ones those that the
tests repeat. Each input says its kind in a header: the worker ignores that, the recount needs it for what
cannot be read.

The readers give back everything that a run committed, and how many records more were produced.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from load.installations import neutral_policy
from sluice.adapters.kafka.kafka_read import StoredRecord, open_reader
from sluice.adapters.kafka.kafka_topics import create
from sluice.core.decide.kinds import KINDS
from sluice_demo.throwaway_trust import ThrowawayTrust, publish_policy
from sluice_topics.catalog import (
    ADMITTED,
    CATALOG,
    DEAD_LETTERS,
    DESTINATION_USES,
    PROVENANCE_WANTED,
    SERVED,
    SESSIONS_CHANGELOG,
    SOURCE_FEEDBACK,
    SOURCE_HISTORIES,
    USUAL_DESTINATIONS,
)
from sluice_topics.layout import TopicLayout

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from load.installations.approvers import WhatWasSaid
    from sluice.client.kafka_connection import KafkaCluster, KafkaConnection
    from sluice_topics.audience import Audience


READ_S = 300.0
INPUTS = tuple(kind.topic for kind in KINDS if kind.session)
TOLD = (
    *(ADMITTED, SOURCE_FEEDBACK, SOURCE_HISTORIES, SERVED, PROVENANCE_WANTED, DESTINATION_USES),
    USUAL_DESTINATIONS,
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All records read_committed, each partition in offset order.

    `admitted`: memories released; `feedback` and `histories`: what was learnt of sources, and folded;
    `served`: what agents were let see of retrievals; `wanted`: references to resolve; `uses`: which
    destinations agents used; `usual`: how often.

    `rolled_back`: records of the ledger and the changelog that only a read_uncommitted reader sees.
    """

    installation: TestInstallation
    inputs: list[StoredRecord]
    ledger: list[StoredRecord]
    changelog: list[StoredRecord]
    rolled_back: int
    admitted: list[StoredRecord] = field(default_factory=list)
    feedback: list[StoredRecord] = field(default_factory=list)
    histories: list[StoredRecord] = field(default_factory=list)
    served: list[StoredRecord] = field(default_factory=list)
    wanted: list[StoredRecord] = field(default_factory=list)
    uses: list[StoredRecord] = field(default_factory=list)
    usual: list[StoredRecord] = field(default_factory=list)


async def gather(installation: TestInstallation) -> Evidence:
    """Read the run back. Raises KafkaUnreachable and TimeoutError."""
    async with asyncio.timeout(READ_S):
        inputs = await _read(installation, [installation.real(topic) for topic in INPUTS])
        ledger = await _read(installation, installation.ledger)
        changelog = await _read(installation, [installation.changelog])
        produced = await _count_uncommitted(installation, [*installation.ledger, installation.changelog])
        records = [await records_of(installation, topic) for topic in TOLD]
    return Evidence(
        installation, inputs, ledger, changelog, produced - len(ledger) - len(changelog), *records
    )


async def records_of(installation: TestInstallation, base: str) -> list[StoredRecord]:
    """Everything that one topic holds now."""
    return await _read(installation, [installation.real(base)])


async def policy_refusals(installation: TestInstallation) -> int:
    """How many dead letters there are in a run that publishes no unreadable input."""
    return len(await records_of(installation, DEAD_LETTERS))


async def _read(installation: TestInstallation, topics: Sequence[str]) -> list[StoredRecord]:
    async with open_reader(installation.cluster, topics, "beginning") as reader:
        return list(itertools.chain.from_iterable([batch async for batch in reader.to_end()]))


async def _count_uncommitted(installation: TestInstallation, topics: Sequence[str]) -> int:
    cluster = installation.cluster
    async with open_reader(cluster, topics, "beginning", isolation="read_uncommitted") as reader:
        return sum([len(batch) async for batch in reader.to_end()])


@dataclass(frozen=True, slots=True)
class RunScale:
    """`events` at least, `rate` in events a second, then how many faults of each kind a run has. Behind
    `plenty` of them (None: never) inputs come more slowly: a run that takes long on a busy machine would have
    more and more to do, and take longer for it.

    `outage_s`: seconds that the broker is away. `malformed_every`: one malformed input in so many, published
    at a rate of its own. `soak_s`, `soak_rate`: how long a soak lasts, and its events a second; its
    deadline is later by twice that time.
    """

    events: int
    rate: float
    plenty: int | None
    sessions: int
    kills: int
    mid_commit_kills: int
    stops: int
    mid_commit_stops: int
    outages: int
    outage_s: float
    changes: int
    malformed_every: int
    malformed_rate: float
    deadline_s: float
    soak_s: float
    soak_rate: float


FULL = RunScale(
    events=20_000,
    rate=250,
    plenty=None,
    sessions=200,
    kills=6,
    mid_commit_kills=3,
    stops=5,
    mid_commit_stops=2,
    outages=2,
    outage_s=10,
    changes=4,
    malformed_every=100,
    malformed_rate=500,
    deadline_s=600,
    soak_s=1800,
    soak_rate=150,
)
SHORT = RunScale(
    events=600,
    rate=150,
    plenty=600,
    sessions=40,
    kills=1,
    mid_commit_kills=1,
    stops=1,
    mid_commit_stops=1,
    outages=1,
    outage_s=1,
    changes=1,
    malformed_every=5,
    malformed_rate=300,
    deadline_s=480,
    soak_s=60,
    soak_rate=100,
)


@dataclass(frozen=True, slots=True)
class Mix:
    """Shares of all events, but `slow`, which is a share of actions and writes, and `task`, which is of all
    events where there are tasks, and the others of the rest; what remains are new actions.

    `apart`: memory writes are in sessions of their own, so no action waits behind what is asked about them.
    """

    sessions: int
    slow: float
    repeat: float = 0.05
    conflict: float = 0.03
    outcome: float = 0.12
    signed: float = 0.04
    early: float = 0.05
    write: float = 0.2
    review: float = 0.10
    retrieval: float = 0.1
    report: float = 0.04
    task: float = 0.15
    apart: bool = False
    malformed_every: int = 0


KIND_HEADER = "load-kind"
MALFORMED = "malformed:"
POISON = "poison"
SLOW_MARK = "slow"
POISON_MARK = "poison"
"""Among an action's parameters, or the words of a memory: asks the slow port, kills whoever evaluates it."""


@dataclass(eq=False, slots=True)
class WrittenMemory:
    """A memory write as it was first published. `memory_id`: once the broker has said where it lies."""

    fields: dict[str, Any]
    value: bytes
    memory_id: str | None = None


@dataclass(frozen=True, slots=True)
class TrafficRecord:
    """One record to publish; `topic` is a base name, `write` the memory write that it shows first."""

    topic: str
    key: bytes
    value: bytes
    kind: str
    write: WrittenMemory | None = None


PARTITIONS = 8


class Attending(Protocol):
    """Who signs heads and erases persons beside a run (load/head_signers.py). `settled`: all are erased."""

    settled: asyncio.Event

    async def attend(self, publisher: Any) -> None:
        """Until it is cancelled; its actions are published with the run's Publisher."""


@dataclass(frozen=True, slots=True)
class TestInstallation:
    """`settings` is the environment of a worker here; `began_ms`: when its policy was published.
    `statements`: what its people said; None: it has no people. `login`: how the broker's administrator
    connects where it is a secured one. `attendants`: who signs heads and erases persons meanwhile."""

    __test__: ClassVar[bool] = False  # pytest takes a class of this name for tests

    bootstrap_servers: str
    prefix: str
    app_id: str
    folder: Path
    settings: dict[str, str]
    trust: ThrowawayTrust
    partitions: int = PARTITIONS
    began_ms: int = 0
    statements: WhatWasSaid | None = None
    login: KafkaConnection | None = None
    attendants: Attending | None = None

    @property
    def cluster(self) -> KafkaCluster:
        """What Kafka's clients here take."""
        return self.login or self.bootstrap_servers

    def real(self, base: str) -> str:
        """A topic's name on the broker."""
        return next(t.real_name(self.prefix, self.app_id) for t in CATALOG if t.name == base)

    @property
    def ledger(self) -> list[str]:
        """Real names of the ledger's topics."""
        return [self.real(topic.name) for topic in CATALOG if topic.ledger]

    @property
    def audience(self) -> Audience:
        """What is signed for this installation is signed for this."""
        return self.trust.make_audience(self.prefix)

    @property
    def changelog(self) -> str:
        """Real name of the sessions' changelog."""
        return self.real(SESSIONS_CHANGELOG)


async def prepare(
    cluster: KafkaCluster,
    folder: Path,
    name: str,
    stages: Sequence[str] = neutral_policy.STAGES,
    *,
    replication: int = 1,
    partitions: int = PARTITIONS,
) -> TestInstallation:
    """Create the topics of a run called `name` (unique on this broker) and publish its policy."""
    prefix, trust, began_ms = f"{name}.", ThrowawayTrust(), time.time_ns() // 1_000_000
    await create(cluster, TopicLayout(prefix, name, partitions), replication)
    await publish_policy(cluster, prefix, neutral_policy.records(trust, began_ms, stages))
    settings = {
        "SLUICE_KAFKA__BOOTSTRAP_SERVERS": str(cluster),
        "SLUICE_KAFKA__TOPIC_PREFIX": prefix,
        "SLUICE_KAFKA__PARTITIONS": str(partitions),
        "SLUICE_WORKER__APP_ID": name,
        "SLUICE_WORKER__HALT_ON_OFFSET_GAP": "true",
        **neutral_policy.environment(trust),
    }
    login = None if isinstance(cluster, str) else cluster
    return TestInstallation(
        str(cluster), prefix, name, folder, settings, trust, partitions, began_ms=began_ms, login=login
    )
