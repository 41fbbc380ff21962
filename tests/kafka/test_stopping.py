"""A worker waits for a broker no longer than it was told, neither to stop nor for a transaction; and it
leaves its group, whatever the others do while it stops."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from load.installations.worker_process import WorkerProcess
from sluice.stream.engine.transaction import Batch, TransactionOverdue, TransactionSettings, Transactor
from sluice.stream.process import EXIT_FAULT, EXIT_STOPPED
from sluice_topics.catalog import SESSIONS_CHANGELOG, VERDICTS
from tests.kafka.installation import action, installation_on, publish, wait_until, write

if TYPE_CHECKING:
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from sluice.broker.handle import Broker

pytestmark = pytest.mark.kafka

CLOSE_S = 3.0
ENOUGH_S = 40.0
SESSION_S = 60.0
STABLE = "Stable"
TIMEOUT_MS, REQUEST_MS = 3000, 60_000


def test_a_worker_whose_broker_stays_away_waits_for_it_no_longer_than_it_was_told(
    own_broker: Broker, prefix: str, tmp_path: Path
) -> None:
    installation = installation_on(
        own_broker.bootstrap_servers,
        tmp_path,
        prefix.rstrip("."),
        SLUICE_WORKER__CLOSE_TIMEOUT_S=str(CLOSE_S),
    )
    worker = WorkerProcess(installation, "worker", 0.0)
    try:
        wait_until(lambda: bool(worker.partitions()), worker)
        publish(installation, [action("s", "a-1")])
        write(installation, VERDICTS, 1, worker)
        own_broker.stop()
        asked = time.monotonic()
        assert worker.end(ENOUGH_S) == EXIT_FAULT, worker.last_words()
        assert time.monotonic() - asked >= CLOSE_S
    finally:
        worker.end_now()


def test_a_worker_whose_group_rebalances_while_it_stops_leaves_the_group_in_good_order(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    """Faust closed its connections from another thread: it died of SIGSEGV, or stayed a member."""
    bounds = dict.fromkeys(
        ("SLUICE_WORKER__SESSION_TIMEOUT_S", "SLUICE_WORKER__REQUEST_TIMEOUT_S"), str(SESSION_S)
    )
    installation = installation_on(kafka, tmp_path, prefix.rstrip("."), **bounds)
    stops, leaves = (WorkerProcess(installation, name, 0.0) for name in ("stops", "leaves"))
    try:
        wait_until(lambda: bool(stops.partitions()), stops)
        wait_until(lambda: bool(leaves.partitions()), leaves)
        wait_until(lambda: len(stops.partitions() | leaves.partitions()) == installation.partitions, stops)
        stops.hold()
        stops.send(signal.SIGTERM)
        wait_until(lambda: not stops.partitions(), stops)
        assert leaves.end(ENOUGH_S) == EXIT_STOPPED, leaves.last_words()
        wait_until(lambda: _group(installation) == (STABLE, 1), stops)
        stops.release()
        assert stops.end(ENOUGH_S) == EXIT_STOPPED, stops.last_words()
        assert _group(installation)[1] == 0, stops.last_words()
    finally:
        stops.end_now()
        leaves.end_now()


def _group(installation: TestInstallation) -> tuple[str, int]:
    """What the broker says of the workers' group: its state and how many members it has."""

    async def describe() -> tuple[str, int]:
        admin = AIOKafkaAdminClient(bootstrap_servers=installation.bootstrap_servers)
        await admin.start()
        try:
            (answer,) = await admin.describe_consumer_groups([installation.app_id])
        finally:
            await admin.close()
        ((_, _, state, _, _, members, *_),) = answer.groups
        return state, len(members)

    return asyncio.run(describe())


def test_a_transaction_that_outlives_its_time_out_is_a_fault(
    own_broker: Broker, prefix: str, tmp_path: Path
) -> None:
    installation = installation_on(own_broker.bootstrap_servers, tmp_path, prefix.rstrip("."))
    asyncio.run(_outlive(own_broker, installation.real(SESSIONS_CHANGELOG)))


async def _outlive(broker: Broker, changelog: str) -> None:
    batch = Batch([(b"key", b"value")], [])
    transactor = Transactor(
        TransactionSettings(broker.bootstrap_servers, changelog, changelog, TIMEOUT_MS, REQUEST_MS), 0
    )
    await transactor.start()
    try:
        await transactor.write(batch)
        await asyncio.to_thread(broker.stop)
        with pytest.raises(TransactionOverdue):
            await transactor.write(batch)
    finally:
        with suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await transactor.stop()
