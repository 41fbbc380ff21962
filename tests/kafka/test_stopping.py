"""A worker that is asked to stop ends within its bounds, whatever has become of the broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from app.stream.failstop import EXIT_FAULT
from load.process import WorkerProcess
from tests.kafka.installation import action, publish, site_on, until, written
from topics.catalog import VERDICTS

if TYPE_CHECKING:
    from pathlib import Path

    from app.broker.handle import Broker

pytestmark = pytest.mark.kafka

CLOSE_S = 3.0
ENOUGH_S = 15.0


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
