"""A worker does not decide on state that is older than what was committed, nor past a missing input."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from sluice.adapters.kafka.kafka_topics import create
from sluice.stream.process import EXIT_FAULT
from sluice_topics.catalog import ACTIONS, VERDICTS
from sluice_topics.layout import TopicLayout
from tests.kafka.installation import (
    action,
    publish,
    read_stored,
    run_worker,
    site_on,
    wait_for_own_end,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from load.installations.site import Site

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
    for process in run_worker(site):
        publish(site, [action("s", "a-1")])
        write(site, VERDICTS, 1, process)
    asyncio.run(_lose_the_changelog(site))
    publish(site, [action("s", "a-2")])
    status, said = wait_for_own_end(site, "after")
    assert status == EXIT_FAULT, said
    assert "restore the changelog topic" in said
    assert len(read_stored(site, VERDICTS)) == 1


async def _publish_with_markers_between(site: Site, count: int) -> None:
    """Each record in a transaction of its own: the marker after it takes an offset and never arrives."""
    async with AIOKafkaProducer(
        bootstrap_servers=site.bootstrap_servers, transactional_id=f"{site.prefix}gaps"
    ) as producer:
        for number in range(count):
            value = json.dumps(action("s", f"a-{number}")).encode()
            async with producer.transaction():
                await producer.send_and_wait(site.real(ACTIONS), value, key=b"s")


def test_an_offset_that_is_missing_stops_the_worker_at_once_and_it_says_which(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    """The agent's fault ends the process: Faust neither swallows it nor starts the agent again after it."""
    site = site_on(kafka, tmp_path, prefix.rstrip("."), SLUICE_WORKER__HALT_ON_OFFSET_GAP="true")
    asyncio.run(_publish_with_markers_between(site, 2))
    status, said = wait_for_own_end(site, "gap")
    assert status == EXIT_FAULT, said
    assert "OffsetGap: gate.actions.proposed: expected offset 1, got 2" in said
    assert "service of Faust's crashed" not in said
    assert read_stored(site, VERDICTS) == []
