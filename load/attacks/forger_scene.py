"""Where answers are forged: a real worker that waits, a victim, and an attacker who writes to any topic."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from load.installations import neutral_policy
from load.installations.approvers import REFUND, entry
from load.installations.installation import SLOW_MARK, TestInstallation, prepare, records_of
from load.installations.worker_process import WorkerProcess
from sluice.cli.policy.key_files import make_private_key
from sluice.client import AsyncGateClient, ClientError, ClientOptions
from sluice.client.binding import compute_digest
from sluice.core.registry.keys import SigningKey
from sluice.stream.engine.outbox import Output, home_of
from sluice.stream.engine.record_signer import RecordSigner
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import VERDICTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from sluice.adapters.kafka.kafka_read import StoredRecord

READ = neutral_policy.READ_TOOL
PATIENCE_S = 60.0
LOOK_S = 0.02
RAN, HELD = "ran", "NeedsHuman"
Fields = dict[str, Any]


class Warnings(logging.Handler):
    """Counts what the client passes over."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep its text."""
        self.lines.append(record.getMessage())


@dataclass
class ForgerScene:
    """A worker that waits where the attacker needs time, a victim, and the attacker's producer. `wary`: a
    victim that was told the worker's key. `signer` signs with that key, as a worker that was fenced can;
    `retired` with the key before it. `true`: an honest verdict of another session, which the attacker has
    read."""

    installation: TestInstallation
    worker: WorkerProcess
    gate: AsyncGateClient
    forger: AIOKafkaProducer
    wary: AsyncGateClient
    signer: RecordSigner
    retired: RecordSigner
    passed_over: Warnings
    true: Fields = field(default_factory=dict)

    def partition(self, session: str) -> int:
        """Where a session's inputs and answers lie."""
        return home_of(session.encode(), self.installation.partitions)

    async def next_place(self, topic: str, session: str) -> str:
        """The coordinates that the session's next input will have."""
        async with AIOKafkaConsumer(bootstrap_servers=self.installation.bootstrap_servers) as consumer:
            part = TopicPartition(self.installation.real(topic), self.partition(session))
            consumer.assign([part])
            return f"{topic}:{part.partition}:{(await consumer.end_offsets([part]))[part]}"

    async def write(
        self, topic: str, session: str, an_id: str, record: Fields | bytes, *proof: tuple[str, bytes]
    ) -> None:
        """Write a record under an id, as anybody may, with the header `proof` if one is given."""
        value = record if isinstance(record, bytes) else json.dumps(record).encode()
        await self.forger.send_and_wait(
            self.installation.real(topic),
            value,
            key=session.encode(),
            partition=self.partition(session),
            headers=[("ce_id", an_id.encode()), ("ce_type", b"sluice.gate.forged.v1"), *proof],
        )

    def sign_record(self, signer: RecordSigner, session: str, record: Fields) -> tuple[str, bytes]:
        """The proof of a verdict by a key."""
        output = Output(VERDICTS, session.encode(), json.dumps(record).encode(), [])
        signer.sign(self.partition(session), [output])
        return output.headers[-1]

    async def fetch_record(self, topic: str, session: str, number: int = 0) -> StoredRecord:
        """One of the session's records in a topic, by its number from 0, once it is there."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                of_session = [
                    record
                    for record in await records_of(self.installation, topic)
                    if record.key == session.encode()
                ]
                if len(of_session) > number:
                    return of_session[number]
                await asyncio.sleep(LOOK_S)

    async def call(
        self, session: str, tool: str = REFUND, *, gate: AsyncGateClient | None = None, **more: Any
    ) -> str:
        """What comes of a call for which the gate wants a person: that it ran, or the error."""
        fields = {"parameters": {"order": "o-1", SLOW_MARK: True}, "rows_affected": 1, **more}
        try:
            async with (gate or self.gate).action(tool, session_id=session, **fields):
                return RAN
        except ClientError as error:
            return type(error).__name__

    @asynccontextmanager
    async def write_before(self, topic: str, session: str, an_id: str, record: Fields) -> AsyncIterator[None]:
        """Within the block, the record is written and not yet visible; what comes meanwhile is younger."""
        name = f"{self.installation.prefix}forger"
        servers = self.installation.bootstrap_servers
        async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id=name) as forger:
            await forger.begin_transaction()
            await replace(self, forger=forger).write(topic, session, an_id, record)
            yield
            await forger.commit_transaction()

    @contextmanager
    def hold_worker(self) -> Iterator[None]:
        """Within the block, the worker answers no slow action."""
        self.worker.withhold()
        try:
            yield
        finally:
            self.worker.answer()

    async def read(self, call: asyncio.Task[str], before: int) -> None:
        """Return when the victim has met a forgery: it has passed it over, or has taken it. Call it while the
        worker is held: so the victim has met nothing else."""
        await wait_until(lambda: call.done() or len(self.passed_over.lines) > before)


async def wait_until(holds: Callable[[], bool]) -> None:
    """Return once it holds. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - another process, and a log, bring it about
            await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def open_forgery(servers: str, folder: Path) -> AsyncIterator[ForgerScene]:
    """An installation of its own on this broker, with a tool that needs a person."""
    installation = await prepare(servers, folder, f"forged-{uuid.uuid4().hex[:8]}")
    tool = {"tier": "T3", "action_type": "PAYMENT", "reversible": False}
    await publish_policy(
        servers, installation.prefix, installation.trust.sign_entries([entry("tool", REFUND, **tool)])
    )
    key = make_private_key(folder / "verdicts.pem")
    installation.settings["SLUICE_VERDICTS__SIGNING_KEY"] = str(folder / "verdicts.pem")
    warnings, worker = Warnings(), WorkerProcess(installation, "decides", 0.0)
    logging.getLogger("sluice.client").addHandler(warnings)
    try:
        await wait_until(lambda: bool(worker.partitions()))
        options = ClientOptions(topic_prefix=installation.prefix, deadline_s=PATIENCE_S)
        client_options = replace(
            options, verdict_keys=[key.public.text], installation=installation.trust.installation
        )
        async with (
            AsyncGateClient(servers, neutral_policy.AGENT, options) as gate,
            AsyncGateClient(servers, neutral_policy.AGENT, client_options) as wary,
            AIOKafkaProducer(bootstrap_servers=servers) as forger,
        ):
            true = await gate.propose(READ, {"table": "orders"}, session_id="another")
            audience = installation.trust.make_audience(installation.prefix)
            signer, retired = (
                RecordSigner(signing_key, audience)
                for signing_key in (key, SigningKey(Ed25519PrivateKey.generate()))
            )
            yield ForgerScene(
                installation, worker, gate, forger, wary, signer, retired, warnings, dict(true.record)
            )
    finally:
        logging.getLogger("sluice.client").removeHandler(warnings)
        worker.end(PATIENCE_S)


@dataclass(frozen=True, slots=True)
class Asked:
    """The victim's input as the attacker sees it on its topic."""

    fields: Fields
    coordinates: Fields

    @property
    def verdict_id(self) -> str:
        """Of the verdict that the victim waits for."""
        return "verdict:{topic}:{partition}:{offset}".format_map(self.coordinates)

    def make_allowed(self, true: Fields, **changed: Any) -> Fields:
        """A verdict that allows it, but for what is changed."""
        names = {name: self.fields[name] for name in ("action_id", "agent_id", "session_id")}
        return {**true, **names, "verdict_id": self.verdict_id, "input": self.coordinates, **changed}


def read_asked(record: StoredRecord, topic: str) -> Asked:
    """The input that lies in a record of a topic (base name)."""
    coordinates = {
        "topic": topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "digest": compute_digest(record.value or b""),
    }
    return Asked(json.loads(record.value or b"null"), coordinates)
