"""An installation on a running broker in which people answer: for attacks on their answers."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
import uuid
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaProducer

from load.installations import approvers
from load.installations.installation import prepare, records_of
from load.installations.worker_process import WorkerProcess
from sluice.core.trust.signing import sign_review
from sluice.stream.engine.outbox import home_of
from sluice_demo.throwaway_trust import publish_policy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from load.installations.installation import TestInstallation
    from sluice_demo.throwaway_trust import ControlRecord, ThrowawayTrust

PATIENCE_S, END_S, POLL_S = 90.0, 60.0, 0.1
Fields = dict[str, Any]


class AnsweredInstallation:
    """`producers`: of two people, who do not wait for each other."""

    def __init__(self, installation: TestInstallation, producers: Sequence[AIOKafkaProducer]) -> None:
        self.installation = installation
        self._producers = producers

    async def send(self, topic: str, fields: Fields, person: int = 0) -> str:
        """Publish a record under its session; its place, as ids have it."""
        key, value = fields["session_id"].encode(), json.dumps(fields).encode()
        sent = await self._producers[person].send_and_wait(self.installation.real(topic), value, key=key)
        return f"{topic}:{sent.partition}:{sent.offset}"

    async def all_of(self, topic: str) -> list[Fields]:
        """Every record of a topic of answers, each partition's in order."""
        return [json.loads(record.value or b"null") for record in await records_of(self.installation, topic)]

    async def wait_for_records(self, topic: str, enough: Callable[[list[Fields]], bool]) -> list[Fields]:
        """The records of a topic once there are enough. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                records = await self.all_of(topic)
                if enough(records):
                    return records
                await asyncio.sleep(POLL_S)

    def review(self, waits: Fields, by: str, decision: str, **changed: Any) -> Fields:
        """A person's signed answer to what waits."""
        fields = {
            "subject_id": next(waits[name] for name in SUBJECTS if name in waits),
            "session_id": waits["session_id"],
            "decision": decision,
            "approver_id": by,
            "digest": next(waits[name] for name in DIGESTS if name in waits),
            "justification": "looked at and compared",
            **changed,
        }
        signed = sign_review(fields, approvers.KEYS[by], self.installation.audience)
        return signed.model_dump(mode="json", exclude_unset=True)

    def session_in(self, partition: int, name: str) -> str:
        """A session of this name that lies in the partition."""
        names = (f"{name}-{number}" for number in range(10_000))
        return next(
            session
            for session in names
            if home_of(session.encode(), self.installation.partitions) == partition
        )


SUBJECTS = ("grant_id", "memory_id", "escalation_id")
DIGESTS = ("action_digest", "request_hash", "content_digest", "grant_digest")
"""What an answer is to, and what it is bound to, in the record of what waits."""


@asynccontextmanager
async def open_installation(
    servers: str,
    more: Callable[[ThrowawayTrust], Sequence[ControlRecord]] = lambda _: (),
    slow_s: float = 0.0,
) -> AsyncIterator[AnsweredInstallation]:
    """Approvers, their tools and agents, and what `more` gives; a worker decides. `slow_s`: what an action
    with the mark of slow ones waits in a gate."""
    with tempfile.TemporaryDirectory(prefix="sluice-attack-") as folder:
        installation = await prepare(servers, Path(folder), f"answers-{uuid.uuid4().hex[:8]}")
        installation.settings["SLUICE_WORKER__TIMER_INTERVAL_S"] = "0.2"
        await publish_policy(
            servers, installation.prefix, [*approvers.records(installation.trust), *more(installation.trust)]
        )
        worker = WorkerProcess(installation, "worker", slow_s)
        producers = [AIOKafkaProducer(bootstrap_servers=servers, acks="all") for _ in range(2)]
        try:
            end = time.monotonic() + PATIENCE_S
            while not worker.partitions():
                if worker.exit_code is not None or time.monotonic() > end:
                    raise RuntimeError(worker.last_words())
                await asyncio.sleep(POLL_S)
            await asyncio.gather(*(producer.start() for producer in producers))
            yield AnsweredInstallation(installation, producers)
        finally:
            await asyncio.gather(*(producer.stop() for producer in producers))
            await asyncio.to_thread(worker.end, END_S)
