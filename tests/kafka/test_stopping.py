"""A worker waits for a broker no longer than it was told, neither to stop nor for a transaction."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from aiokafka.errors import KafkaError

from app.stream.failstop import EXIT_FAULT
from app.stream.transaction import Batch, TransactionOverdue, TransactionSettings, Transactor
from load.process import WorkerProcess
from tests.kafka.installation import action, publish, site_on, until, written
from topics.catalog import SESSIONS_CHANGELOG, VERDICTS

if TYPE_CHECKING:
    from pathlib import Path

    from app.broker.handle import Broker

pytestmark = pytest.mark.kafka

CLOSE_S = 3.0
ENOUGH_S = 15.0
TIMEOUT_MS, REQUEST_MS = 3000, 60_000


def test_a_worker_whose_broker_stays_away_waits_for_it_no_longer_than_it_was_told(
    own_broker: Broker, tmp_path: Path
) -> None:
    site = site_on(
        own_broker.bootstrap_servers, tmp_path, "stopping", SLUICE_WORKER__CLOSE_TIMEOUT_S=str(CLOSE_S)
    )
    worker = WorkerProcess(site, "worker", 0.0)
    try:
        until(lambda: bool(worker.partitions()), worker)
        publish(site, [action("s", "a-1")])
        written(site, VERDICTS, 1, worker)
        own_broker.stop()
        asked = time.monotonic()
        assert worker.end(ENOUGH_S) == EXIT_FAULT, worker.last_words()
        assert time.monotonic() - asked >= CLOSE_S
    finally:
        worker.end_now()


def test_a_transaction_that_outlives_its_time_out_is_a_fault(own_broker: Broker, tmp_path: Path) -> None:
    site = site_on(own_broker.bootstrap_servers, tmp_path, "overdue")
    asyncio.run(_outlive(own_broker, site.real(SESSIONS_CHANGELOG)))


async def _outlive(broker: Broker, changelog: str) -> None:
    batch = Batch([(b"key", b"value")], [])
    transactor = Transactor(
        TransactionSettings(broker.bootstrap_servers, "group", changelog, TIMEOUT_MS, REQUEST_MS), 0
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
