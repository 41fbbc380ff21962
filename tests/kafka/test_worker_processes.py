"""`sluice worker --processes 2`: two static members share the partitions. One that is killed comes back to
its own, and the other notices nothing."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.structs import OffsetAndMetadata

from load.installations.worker_process import WorkerProcess
from sluice.broker.handle import find_free_ports
from sluice.stream.consumer import NameTaken, end_where_name_is_taken
from sluice.stream.process import EXIT_FENCED
from sluice_topics.catalog import VERDICTS
from tests.kafka.installation import DEADLINE_S, END_S, action, installation_on, publish, read_stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from load.installations.installation import TestInstallation

pytestmark = pytest.mark.kafka

STAGES = ("controls", "fast_reject", "tier_auth")
SESSIONS = [f"s-{number}" for number in range(40)]
READY = re.compile(r"ready: deciding for partitions \[([0-9, ]+)\]")


def test_a_killed_worker_comes_back_to_its_partitions_and_the_other_keeps_its_own(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    ready, address = tmp_path / "ready", f"127.0.0.1:{find_free_ports(1)[0]}"
    installation = installation_on(
        kafka,
        tmp_path,
        prefix.rstrip("."),
        STAGES,
        SLUICE_WORKER__READY_FILE=str(ready),
        SLUICE_WORKER__SESSION_TIMEOUT_S="30",
        SLUICE_WORKER__METRICS_ADDRESS=address,
    )
    log = tmp_path / "workers.log"
    own = {key: value for key, value in os.environ.items() if not key.startswith(("SLUICE_", "KAFKA_"))}
    own["TMPDIR"] = str(tmp_path)
    words = [sys.executable, "-m", "sluice", "worker", "--processes", "2"]
    with log.open("wb") as written:
        supervisor = subprocess.Popen(words, env={**own, **installation.settings}, stderr=written)
    try:
        _wait(ready.exists, log)
        _decide(installation, "a", 1, log)
        first, second = _list_children(supervisor.pid)
        begun = len(READY.findall(log.read_text()))
        os.kill(first, signal.SIGKILL)
        _wait(lambda: not ready.exists(), log)
        _wait(ready.exists, log)
        _decide(installation, "b", 2, log)
        samples = _read(f"http://{address}/metrics")
        assert {f'worker="{number}"' for number in (0, 1)} <= set(re.findall(r'worker="[01]"', samples))
        assert samples.count("# TYPE sluice_verdicts_total counter") == 1
        assert '"ready": true' in _read(f"http://{address}/readyz")
        beats = {file: file.stat().st_mtime_ns for file in tmp_path.glob("sluice-workers-*/*.beat")}
        assert len(beats) == 2
        _wait(lambda: all(file.stat().st_mtime_ns > beat for file, beat in beats.items()), log)
        assert second in _list_children(supervisor.pid)
        last = READY.findall(log.read_text())
        assert len(last) == begun + 1, log.read_text()
        assert last[-1] in last[:begun], log.read_text()
    finally:
        supervisor.send_signal(signal.SIGTERM)
        status = supervisor.wait(END_S)
    assert status == 0, log.read_text()


def test_a_worker_that_starts_under_the_name_of_another_takes_over_from_it_at_once(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    installation = installation_on(
        kafka, tmp_path, prefix.rstrip("."), STAGES, SLUICE_WORKER__GROUP_INSTANCE_ID="worker-0"
    )
    before = WorkerProcess(installation, "before", 0.0)
    try:
        _wait(lambda: bool(before.partitions()), before.log)
        _decide(installation, "a", 1, before.log)
        after = WorkerProcess(installation, "after", 0.0)
        try:
            _wait(lambda: before.exit_code is not None, before.log)
            assert before.exit_code == EXIT_FENCED, before.last_words()
            _decide(installation, "b", 2, after.log)
            assert len(after.partitions()) == installation.partitions
        finally:
            assert after.end(END_S) == 0, after.last_words()
    finally:
        before.end_now()


async def test_a_member_whose_name_another_takes_ends_and_takes_nothing_back(kafka: str, prefix: str) -> None:
    """By the group alone: where a worker has nothing to commit, no producer of it is fenced."""
    topic = f"{prefix}named"
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 1, 1)])
    await admin.close()
    members = [
        AIOKafkaConsumer(
            topic,
            bootstrap_servers=kafka,
            group_id=f"{prefix}group",
            group_instance_id="worker-0",
            enable_auto_commit=False,
            session_timeout_ms=30_000,
            heartbeat_interval_ms=300,
        )
        for _ in range(2)
    ]
    first, second = members
    try:
        await first.start()
        end_where_name_is_taken(first._coordinator, 30.0)
        await first.getmany(timeout_ms=100)
        await second.start()
        end_where_name_is_taken(second._coordinator, 30.0)
        async with asyncio.timeout(DEADLINE_S):
            while first._coordinator._pending_exception is None:
                await asyncio.sleep(0.05)
        assert isinstance(first._coordinator._pending_exception, NameTaken)
        with pytest.raises(NameTaken):
            await first._coordinator._do_commit_offsets(
                None, {TopicPartition(topic, 0): OffsetAndMetadata(0, "")}
            )
        await second.commit({TopicPartition(topic, 0): 0})
        assert not second._coordinator._coordination_task.done()
    finally:
        await asyncio.gather(*(one.stop() for one in members), return_exceptions=True)


def _decide(installation: TestInstallation, action_id: str, each: int, log: Path) -> None:
    """An action in every session, decided by whichever worker has it: `each` verdicts of a session then."""
    publish(installation, [action(session, f"{session}-{action_id}") for session in SESSIONS])
    _wait(lambda: len(read_stored(installation, VERDICTS)) >= each * len(SESSIONS), log)
    assert len(read_stored(installation, VERDICTS)) == each * len(SESSIONS)


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - the supervisor's own
        return str(answer.read().decode())


def _list_children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _wait(holds: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
