"""A worker on topics of its own, as a user sees it: publish records, read what it answers."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from load.installations import neutral_policy
from load.installations.installation import INPUTS, TestInstallation, prepare
from load.installations.worker_process import WorkerProcess
from load.scene import count_behind, read_committed
from sluice.adapters.kafka.kafka_read import StoredRecord, open_reader
from sluice.client.kafka_connection import build_client_arguments
from sluice_topics.catalog import ACTIONS, DESTINATION_USES, SOURCE_FEEDBACK

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from load.scene import Ends
    from sluice.client.kafka_connection import KafkaCluster

DEADLINE_S = 90.0
"""Long, for a machine that is busy with other things: nothing waits longer than for what it waits for."""
END_S = 60.0
FEW = 2
"""Eight partitions of each topic cost broker and worker 0.7 s more of processor time."""


def wait_for_own_end(installation: TestInstallation, name: str) -> tuple[int | None, str]:
    """The status of a worker that should end by itself, and its last words."""
    worker = WorkerProcess(installation, name, 0.0)
    deadline = time.monotonic() + DEADLINE_S
    try:
        while worker.exit_code is None and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        status = worker.end_now() if worker.exit_code is None else worker.exit_code
    return status, worker.last_words()


def installation_on(
    kafka: str, folder: Path, name: str, stages: Sequence[str] = neutral_policy.STAGES, **settings: str
) -> TestInstallation:
    """Topics and policy for one worker, with stages and settings of the test's own."""
    installation = asyncio.run(prepare(kafka, folder, name, stages))
    installation.settings.update(settings)
    return installation


def make_small_installation(
    kafka: str, folder: Path, name: str, stages: Sequence[str] = neutral_policy.STAGES, **settings: str
) -> TestInstallation:
    """The same with `FEW` partitions, for one test alone that asks for no more."""
    installation = asyncio.run(prepare(kafka, folder, name, stages, partitions=FEW))
    installation.settings.update(settings)
    return installation


async def delete_topics(cluster: KafkaCluster, prefix: str) -> None:
    """All of a test's, which begin with its prefix; one of a worker's own has its name without the dot."""
    admin = AIOKafkaAdminClient(**build_client_arguments(cluster))
    try:
        await admin.start()
        names = [name for name in await admin.list_topics() if name.startswith(prefix.rstrip("."))]
        if names:
            await admin.delete_topics(names)
    finally:
        await admin.close()


def run_worker(
    installation: TestInstallation, name: str = "worker", slow_s: float = 0.0
) -> Iterator[WorkerProcess]:
    """A worker that decides, stopped in good order afterwards."""
    worker = WorkerProcess(installation, name, slow_s)
    try:
        wait_until(lambda: bool(worker.partitions()), worker)
        yield worker
    finally:
        status = worker.end(END_S)
    assert status == 0, worker.last_words()


def wait_until(holds: Callable[[], bool], worker: WorkerProcess) -> None:
    """Return once it holds; fail with the worker's log when it does not in time or has ended."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert worker.exit_code is None, worker.last_words()
        assert time.monotonic() < deadline, worker.last_words()
        time.sleep(0.05)


def wait_until_decided(installation: TestInstallation, worker: WorkerProcess) -> None:
    """Return once all inputs that lie on the broker now are decided, with all that was written for them: a
    count of one kind of record says nothing of the others."""
    for bases in (INPUTS, (SOURCE_FEEDBACK, DESTINATION_USES)):  # the latter follow from the former
        there = [record for base in bases for record in read_stored(installation, base)]
        ends = {(record.topic, record.partition): record.offset + 1 for record in there}
        wait_until(partial(_is_decided, installation, ends), worker)


def _is_decided(installation: TestInstallation, ends: Ends) -> bool:
    positions = asyncio.run(read_committed(installation))
    return positions is not None and not count_behind(positions, ends)


def action(session: str, action_id: str, **more: Any) -> dict[str, Any]:
    """A proposed action of the neutral policy's agent."""
    return {
        "action_id": action_id,
        "agent_id": neutral_policy.AGENT,
        "session_id": session,
        "toolName": neutral_policy.READ_TOOL,
        "parameters": {},
        "mode": "high_stakes",
        "rows_affected": 10,
    } | more


@dataclass(frozen=True)
class Sent:
    """Where an input lies."""

    partition: int
    offset: int


def publish(
    installation: TestInstallation,
    records: Iterable[dict[str, Any] | tuple[bytes | None, bytes]],
    topic: str = ACTIONS,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> list[Sent]:
    """Publish records in order, keyed by their session; a tuple is a key and raw bytes."""
    return asyncio.run(_publish(installation, records, topic, headers=headers))


async def _publish(
    installation: TestInstallation,
    records: Iterable[Any],
    topic: str,
    partition: int | None = None,
    headers: Sequence[Any] = (),
) -> list[Sent]:
    sent = []
    async with AIOKafkaProducer(bootstrap_servers=installation.bootstrap_servers, acks="all") as producer:
        for record in records:
            key, value = record if isinstance(record, tuple) else _message(record)
            found = await producer.send_and_wait(
                installation.real(topic), value, key=key, partition=partition, headers=list(headers)
            )
            sent.append(Sent(found.partition, found.offset))
    return sent


def publish_to(
    installation: TestInstallation, partition: int, record: dict[str, Any], topic: str = ACTIONS
) -> Sent:
    """Publish a record to a partition of the caller's choice."""
    return asyncio.run(_publish(installation, [record], topic, partition))[0]


def _message(record: dict[str, Any]) -> tuple[bytes, bytes]:
    return record["session_id"].encode(), json.dumps(record).encode()


def read_stored(installation: TestInstallation, topic: str) -> list[StoredRecord]:
    """Everything committed in a topic, each partition in order."""

    async def read() -> list[StoredRecord]:
        async with open_reader(
            installation.bootstrap_servers, [installation.real(topic)], "beginning"
        ) as reader:
            return list(itertools.chain.from_iterable([batch async for batch in reader.to_end()]))

    return asyncio.run(read())


def write(
    installation: TestInstallation, topic: str, count: int, worker: WorkerProcess
) -> list[dict[str, Any]]:
    """The topic's records once there are `count` of them."""
    found = _read_once(lambda found: len(found) >= count, installation, topic, worker)
    return [json.loads(record.value or b"null") for record in found]


def _read_once(
    enough: Callable[[list[StoredRecord]], bool],
    installation: TestInstallation,
    topic: str,
    worker: WorkerProcess,
) -> list[StoredRecord]:
    """Everything committed in a topic once it is enough; fails as `wait_until` does. One reader waits: to
    open one again and again costs a quarter of a core, while the worker has to decide."""
    found = read_stored(installation, topic)
    if not enough(found):
        asyncio.run(_follow(enough, installation, topic, worker))
        found = read_stored(installation, topic)
    return found


async def _follow(
    enough: Callable[[list[StoredRecord]], bool],
    installation: TestInstallation,
    topic: str,
    worker: WorkerProcess,
) -> None:
    deadline = time.monotonic() + DEADLINE_S
    found: list[StoredRecord] = []
    async with open_reader(installation.bootstrap_servers, [installation.real(topic)], "beginning") as reader:
        async for batch in reader.follow(None):
            found += batch
            if batch and enough(found):
                return
            assert worker.exit_code is None, worker.last_words()
            assert time.monotonic() < deadline, worker.last_words()


def records(
    installation: TestInstallation, topic: str, sessions: str | Collection[str]
) -> list[dict[str, Any]]:
    """The records of one session, or of several, in the order of their partitions."""
    return _select_sessions(read_stored(installation, topic), sessions)


def _select_sessions(found: list[StoredRecord], sessions: str | Collection[str]) -> list[dict[str, Any]]:
    wanted = {sessions} if isinstance(sessions, str) else sessions
    bodies = [json.loads(record.value or b"null") for record in found]
    return [body for body in bodies if body["session_id"] in wanted]


def wait_for(
    installation: TestInstallation,
    topic: str,
    sessions: str | Collection[str],
    count: int,
    worker: WorkerProcess,
) -> list[dict[str, Any]]:
    """The same once there are `count`."""
    found = _read_once(
        lambda found: len(_select_sessions(found, sessions)) >= count, installation, topic, worker
    )
    return _select_sessions(found, sessions)


def select_session(records: Iterable[dict[str, Any]], session: str) -> list[dict[str, Any]]:
    """Those of one session, in ledger order."""
    return sorted((r for r in records if r.get("session_id") == session), key=lambda r: r["sequence"])
