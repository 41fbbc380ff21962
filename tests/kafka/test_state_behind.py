"""A worker does not decide on state that is older than what was committed."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from load.sites.worker_process import WorkerProcess
from sluice.adapters.kafka.kafka_topics import create
from sluice.stream.process import EXIT_FAULT
from sluice_topics.catalog import VERDICTS
from sluice_topics.layout import TopicLayout
from tests.kafka.installation import DEADLINE_S, action, publish, running, site_on, stored, written

if TYPE_CHECKING:
    from pathlib import Path

    from load.sites.site import Site

pytestmark = pytest.mark.kafka


async def _lose_the_changelog(site: Site) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=site.bootstrap_servers)
    await admin.start()
    try:
        await admin.delete_topics([site.changelog])
        while site.changelog in await admin.list_topics():  # noqa: ASYNC110 - the broker tells nobody
            await asyncio.sleep(0.05)
    finally:
        await admin.close()
    await create(site.bootstrap_servers, TopicLayout(site.prefix, site.app_id, site.partitions), 1)


def test_a_lost_changelog_stops_the_worker_before_it_decides_anything(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    site = site_on(kafka, tmp_path, prefix.rstrip("."))
    for process in running(site):
        publish(site, [action("s", "a-1")])
        written(site, VERDICTS, 1, process)
    asyncio.run(_lose_the_changelog(site))
    publish(site, [action("s", "a-2")])
    worker = WorkerProcess(site, "after", 0.0)
    deadline = time.monotonic() + DEADLINE_S
    try:
        while worker.exit_code is None and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        status = worker.end_now() if worker.exit_code is None else worker.exit_code
    assert status == EXIT_FAULT, worker.last_words()
    assert "restore the changelog topic" in worker.last_words()
    assert len(stored(site, VERDICTS)) == 1
