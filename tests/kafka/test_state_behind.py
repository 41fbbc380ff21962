"""A worker does not decide on state that is older than what was committed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from sluice.adapters.kafka.kafka_topics import create
from sluice.stream.process import EXIT_FAULT
from sluice_topics.catalog import VERDICTS
from sluice_topics.layout import TopicLayout
from tests.kafka.installation import action, ended_by_itself, publish, running, site_on, stored, written

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
    status, said = ended_by_itself(site, "after")
    assert status == EXIT_FAULT, said
    assert "restore the changelog topic" in said
    assert len(stored(site, VERDICTS)) == 1
