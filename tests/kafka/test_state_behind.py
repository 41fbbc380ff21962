"""A worker does not decide on state that is older than what was committed, nor past a missing input."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from sluice.adapters.kafka.kafka_topics import create
from sluice.stream.engine.crash_guard import RESERVED_KEY, STATE_VERSION
from sluice.stream.process import EXIT_FAULT
from sluice_topics.catalog import ACTIONS, SESSIONS_CHANGELOG, VERDICTS
from sluice_topics.layout import TopicLayout
from tests.kafka.installation import (
    action,
    make_small_installation,
    publish,
    read_stored,
    run_worker,
    wait_for_own_end,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from load.installations.installation import TestInstallation

pytestmark = pytest.mark.kafka


async def _lose_the_changelog(installation: TestInstallation) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=installation.bootstrap_servers)
    await admin.start()
    try:
        await admin.delete_topics([installation.changelog])
        while installation.changelog in await admin.list_topics():  # noqa: ASYNC110 - the broker tells nobody
            await asyncio.sleep(0.05)
    finally:
        await admin.close()
    await create(
        installation.bootstrap_servers,
        TopicLayout(installation.prefix, installation.app_id, installation.partitions),
        1,
    )


def test_a_lost_changelog_stops_the_worker_before_it_decides_anything(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    installation = make_small_installation(kafka, tmp_path, prefix.rstrip("."))
    for process in run_worker(installation):
        publish(installation, [action("s", "a-1")])
        write(installation, VERDICTS, 1, process)
    asyncio.run(_lose_the_changelog(installation))
    publish(installation, [action("s", "a-2")])
    status, said = wait_for_own_end(installation, "after")
    assert status == EXIT_FAULT, said
    assert "restore the changelog topic" in said
    assert len(read_stored(installation, VERDICTS)) == 1


def test_state_of_a_later_release_stops_the_worker_before_it_decides_anything(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    installation = make_small_installation(kafka, tmp_path, prefix.rstrip("."))
    for process in run_worker(installation):
        publish(installation, [action("s", "a-1")])
        write(installation, VERDICTS, 1, process)
    stored = [one for one in read_stored(installation, SESSIONS_CHANGELOG) if one.key == RESERVED_KEY][-1]
    state = json.loads(stored.value or b"null")
    assert state["state"] == STATE_VERSION
    asyncio.run(_store(installation, stored.partition, {**state, "state": STATE_VERSION + 1}))
    publish(installation, [action("s", "a-2")])
    status, said = wait_for_own_end(installation, "after")
    assert status == EXIT_FAULT, said
    assert f"partition {stored.partition}: a later release has decided here" in said
    assert len(read_stored(installation, VERDICTS)) == 1


async def _store(installation: TestInstallation, partition: int, state: dict[str, Any]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=installation.bootstrap_servers) as producer:
        value = json.dumps(state).encode()
        await producer.send_and_wait(installation.changelog, value, RESERVED_KEY, partition)


async def _publish_with_markers_between(installation: TestInstallation, count: int) -> None:
    """Each record in a transaction of its own: the marker after it takes an offset and never arrives."""
    async with AIOKafkaProducer(
        bootstrap_servers=installation.bootstrap_servers, transactional_id=f"{installation.prefix}gaps"
    ) as producer:
        for number in range(count):
            value = json.dumps(action("s", f"a-{number}")).encode()
            async with producer.transaction():
                await producer.send_and_wait(installation.real(ACTIONS), value, key=b"s")


def test_an_offset_that_is_missing_stops_the_worker_at_once_and_it_says_which(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    """The agent's fault ends the process: Faust neither swallows it nor starts the agent again after it."""
    installation = make_small_installation(
        kafka, tmp_path, prefix.rstrip("."), SLUICE_WORKER__HALT_ON_OFFSET_GAP="true"
    )
    asyncio.run(_publish_with_markers_between(installation, 2))
    status, said = wait_for_own_end(installation, "gap")
    assert status == EXIT_FAULT, said
    assert "OffsetGap: gate.actions.proposed: expected offset 1, got 2" in said
    assert "service of Faust's crashed" not in said
    assert read_stored(installation, VERDICTS) == []
