"""The drill: an installation is archived, its cluster is gone, and it goes on on a new one where it was."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition

from sluice.adapters.archive import restore
from sluice.adapters.archive.archive_store import open_store
from sluice.adapters.archive.archiver import Archiver
from sluice.cli.machine.archive import build_archiver
from sluice.client.kafka_reading import open_consumer
from sluice.core.policy.bundle_frame import ORDER_OF_OLD
from sluice.settings.reader import load_settings
from sluice_topics.catalog import (
    ACTIONS,
    CATALOG,
    MEMORY_WRITES,
    QUARANTINE,
    REVIEWS,
    SESSIONS_CHANGELOG,
    SOURCE_FEEDBACK,
    SOURCE_HISTORIES,
    VERDICTS,
)
from tests.adapters.archives import add_entry, build_segment, make_records
from tests.kafka.installation import (
    action,
    delete_topics,
    make_small_installation,
    publish,
    read_stored,
    run_worker,
    wait_for,
    wait_until,
)
from tests.kafka.memories import make_held_write, memory_installation, review, session_in
from tests.kafka.test_archive import (
    count_records,
    decide_some,
    delete_inputs,
    read_topics,
    rerun,
    run,
)

if TYPE_CHECKING:
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from sluice.broker.handle import Broker
    from sluice_topics.catalog import Topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]
LOGS = [topic for topic in CATALOG if topic.cleanup == "delete"]


def name_topics(installation: TestInstallation, *, logs: bool) -> list[str]:
    return [
        topic.real_name(installation.prefix, installation.app_id)
        for topic in CATALOG
        if (topic in LOGS) is logs
    ]


def read_newest(installation: TestInstallation) -> dict[tuple[str, int, bytes | None], bytes]:
    """What compacted topics say of each key."""
    found = {}
    for (name, number), records in read_topics(
        installation.bootstrap_servers, name_topics(installation, logs=False)
    ).items():
        for one in records:
            found[name, number, one.key] = one.value
    return {key: value for key, value in found.items() if value is not None}


def move_to(installation: TestInstallation, servers: str) -> TestInstallation:
    settings = installation.settings | {"SLUICE_KAFKA__BOOTSTRAP_SERVERS": servers}
    return replace(installation, bootstrap_servers=servers, settings=settings)


async def publish_in_transactions(installation: TestInstallation, session: str, count: int) -> None:
    """As a producer with transactions does: markers behind the records, and one that is rolled back."""
    async with AIOKafkaProducer(
        bootstrap_servers=installation.bootstrap_servers, transactional_id=f"{installation.prefix}own"
    ) as producer:
        for number in range(count):
            value = json.dumps(action(session, f"{session}-{number}")).encode()
            await producer.begin_transaction()
            await producer.send_and_wait(installation.real(ACTIONS), value, key=session.encode())
            await (producer.abort_transaction() if number % 3 == 1 else producer.commit_transaction())


@pytest.mark.parametrize("longest", [3, restore.MOST_RUN_RECORDS])
def test_an_installation_goes_on_on_a_new_cluster_with_every_record_at_its_offset(
    kafka: str, prefix: str, tmp_path: Path, own_broker: Broker, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`longest`: the records that go in one transaction; a longer run goes without. The new cluster has no
    topic of the installation, nor has it had one."""
    monkeypatch.setattr(restore, "MOST_RUN_RECORDS", longest)
    old = make_small_installation(kafka, tmp_path, prefix.rstrip("."), ORDER_OF_OLD)
    old.settings["SLUICE_WORKER__HALT_ON_OFFSET_GAP"] = "false"
    place = str(tmp_path / "archive")
    for worker in run_worker(old):
        decide_some(old, worker, "s", 5, 0)
        asyncio.run(delete_inputs(old))  # so that partitions begin behind offset 0
        asyncio.run(publish_in_transactions(old, "t", 9))
        wait_for(old, VERDICTS, "t", 6, worker)
        decide_some(old, worker, "s", 5, 11)
    archived = run(old, "archive", "run", "--once", "--to", place)
    assert archived.exit_code == 0, archived.output
    logs, newest = read_topics(kafka, name_topics(old, logs=True)), read_newest(old)
    asyncio.run(delete_topics(kafka, prefix))

    new = move_to(old, own_broker.bootstrap_servers)
    restored = run(new, "archive", "restore", "--from", place)
    assert restored.exit_code == 0, restored.output
    assert "left out" not in restored.output
    assert read_topics(new.bootstrap_servers, name_topics(new, logs=True)) == logs
    assert read_newest(new) == newest
    checked = run(new, "topics", "check")
    assert checked.exit_code == 0, checked.output
    again = run(new, "archive", "restore", "--from", place)
    assert (again.exit_code, "are there already" in again.output) == (2, True)

    for worker in run_worker(new, "after"):
        decide_some(new, worker, "s", 3, count_records(new, VERDICTS))
    assert count_records(new, VERDICTS) == 19
    verified = run(new, "ledger", "verify", "--json")
    assert json.loads(verified.stdout)["intact"], verified.output
    assert count_reruns(rerun(new, "--all", "--from", place)) == (11, 0, 5)  # five inputs were gone before
    assert count_reruns(rerun(new, "--all")) == (14, 0, 5)
    goes_on = run(new, "archive", "run", "--once", "--to", place)
    assert goes_on.exit_code == 0, goes_on.output
    assert json.loads(run(new, "archive", "check", "--from", place, "--json").stdout)["whole"]
    assert count_reruns(rerun(new, "--all", "--from", place)) == (14, 0, 5)


def test_a_long_run_goes_without_a_transaction_and_so_does_the_last(
    kafka: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the runs only the first has room for a marker and is short; the marker at 9 is filled in."""
    monkeypatch.setattr(restore, "MOST_RUN_RECORDS", 3)
    part = TopicPartition(
        make_small_installation(kafka, tmp_path, prefix.rstrip("."), ORDER_OF_OLD).real(ACTIONS), 0
    )
    records = make_records(0, [0, 1, *range(3, 9), 10, 11], topic=part.topic)
    in_transactions: list[int] = []
    send = restore._OffsetWriter._send_run_in_transaction  # noqa: SLF001 - what it decides is not seen on a broker

    async def send_counted(writer: restore._OffsetWriter) -> None:
        in_transactions.extend(one.offset for one in writer._run)  # noqa: SLF001 - as above
        await send(writer)

    monkeypatch.setattr(restore._OffsetWriter, "_send_run_in_transaction", send_counted)  # noqa: SLF001 - as above

    async def write() -> int:
        async with open_consumer(kafka, "read_uncommitted") as asking:
            writer = restore._OffsetWriter(kafka, part, asking)  # noqa: SLF001 - as above
            await writer.start()
            for one in records:
                await writer.write(one)
            await writer.finish(12)
            await writer.stop()
            assert (writer.records, writer.filled) == (10, 1)
            return int((await asking.end_offsets([part]))[part])

    assert asyncio.run(write()) == 12
    assert in_transactions == [0, 1]
    written = read_topics(kafka, [part.topic])[part.topic, 0]
    assert [(one.offset, one.value) for one in written] == [(one.offset, one.value) for one in records]


def count_reruns(reruns: dict[str, Any]) -> tuple[int, int, int]:
    return reruns["identical"], reruns["different"], reruns["evidence_gone"]


@pytest.mark.parametrize("lacks", ["state", "ledger", "inputs"])
def test_what_an_archive_holds_of_one_transaction_alone_is_cut_off_and_decided_again(
    kafka: str, prefix: str, tmp_path: Path, lacks: str
) -> None:
    """The archiver was killed when it had archived some topics further than others."""
    installation = make_small_installation(kafka, tmp_path, prefix.rstrip("."), ORDER_OF_OLD)
    installation.settings["SLUICE_WORKER__HALT_ON_OFFSET_GAP"] = "false"
    place = str(tmp_path / "archive")
    for worker in run_worker(installation):
        decide_some(installation, worker, "s", 5, 0)
        assert run(installation, "archive", "run", "--once", "--to", place).exit_code == 0
        decide_some(installation, worker, "s", 5, 5)
    archive_torn(installation, place, lacks)
    asyncio.run(leave_restoration(installation))
    asyncio.run(delete_topics(kafka, prefix))

    restored = run(installation, "archive", "restore", "--from", place)
    assert restored.exit_code == 0, restored.output
    assert ("left out" in restored.output) is (lacks != "ledger")
    assert count_records(installation, VERDICTS) == 5
    for worker in run_worker(installation, "after"):
        again = 5 if lacks == "inputs" else 10  # what was never archived is gone
        verdicts = wait_for(installation, VERDICTS, "s", again, worker)
        publish(installation, [action("s", "last")])
        verdicts = wait_for(installation, VERDICTS, "s", again + 1, worker)
    assert len({one["verdict_id"] for one in verdicts}) == again + 1
    assert json.loads(run(installation, "ledger", "verify", "--json").stdout)["intact"]
    reruns = rerun(installation, "--all")
    assert (reruns["identical"], reruns["reruns"]) == (again + 1, [])


def archive_torn(installation: TestInstallation, place: str, lacks: str) -> None:
    """Archive all that there is now, but for what lies behind."""
    settings = load_settings(environment=installation.settings)
    whole = build_archiver(settings, open_store(place))
    torn = {name: topic for name, topic in whole.of.topics.items() if not lies_behind(topic, lacks)}
    torn_archiver = Archiver(
        settings.kafka.connection, replace(whole.of, topics=torn), open_store(place), whole.limits
    )
    asyncio.run(torn_archiver.run(once=True))


@pytest.mark.parametrize("lacks", ["state", "ledger"])
def test_what_was_learnt_of_a_source_behind_a_cut_is_counted_once(
    kafka: str, prefix: str, tmp_path: Path, lacks: str
) -> None:
    """What the reviews of one partition say of a source is counted in another."""
    made = memory_installation(kafka, tmp_path, prefix.rstrip("."))
    installation, session, place = made.installation, session_in(made.installation, 4), str(tmp_path / "a")
    installation.settings["SLUICE_WORKER__HALT_ON_OFFSET_GAP"] = "false"
    feed = {"id": "feed", "type": "external"}

    def approve(entered: list[dict[str, Any]], before: int) -> None:
        """The answers, until they are counted. `before`: approvals that there are already."""
        publish(installation, [review(made, one, "approve") for one in entered], REVIEWS)
        wait_until(lambda: read_approvals(installation) >= before + len(entered), worker)

    for worker in run_worker(installation):
        held = [make_held_write(session, f"w{n}", source=feed) for n in range(4)]
        publish(installation, held, MEMORY_WRITES)
        entered = wait_for(installation, QUARANTINE, session, 4, worker)
        approve(entered[:1], 0)
        assert run(installation, "archive", "run", "--once", "--to", place).exit_code == 0
        approve(entered[1:3], 1)
    archive_torn(installation, place, lacks)
    asyncio.run(delete_topics(kafka, prefix))

    restored = run(installation, "archive", "restore", "--from", place)
    assert restored.exit_code == 0, restored.output
    for worker in run_worker(installation, "after"):
        wait_for(installation, QUARANTINE, session, 7, worker)
        approve(entered[3:], 3)
    assert read_approvals(installation) == 4
    feedback = Counter(
        (one["memory_id"], one["verdict"])
        for one in (json.loads(record.value or b"") for record in read_stored(installation, SOURCE_FEEDBACK))
    )
    assert set(feedback.values()) == {1}
    assert {memory for memory, verdict in feedback if verdict == "positive"} == {
        one["memory_id"] for one in entered
    }


def read_approvals(installation: TestInstallation) -> int:
    """How many memories of its source were approved, as the newest history says."""
    histories = [json.loads(one.value or b"") for one in read_stored(installation, SOURCE_HISTORIES)]
    return max((one["positive"] for one in histories), default=0)


async def leave_restoration(installation: TestInstallation) -> None:
    """As a restoration does that is killed: its transaction stays open."""
    topic = installation.real(ACTIONS)
    producer = AIOKafkaProducer(
        bootstrap_servers=installation.bootstrap_servers,
        transactional_id=f"restore-{topic}-0",
        transaction_timeout_ms=600_000,
    )
    await producer.start()
    await producer.begin_transaction()
    await producer.send_and_wait(topic, b"{}", partition=0)
    await producer.stop()


def test_an_archive_that_claims_far_offsets_is_refused_before_anything_is_written(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    installation = make_small_installation(kafka, tmp_path, prefix.rstrip("."), ORDER_OF_OLD)
    place = str(tmp_path / "archive")
    done = run(installation, "archive", "run", "--once", "--to", place)
    assert done.exit_code == 0, done.output
    topic = installation.real(ACTIONS)
    state = make_records(0, [0], topic=installation.changelog)
    far = make_records(0, [10**14], topic=topic)
    add_entry(
        open_store(place),
        build_segment(state, 0, 1),
        build_segment(far, 10**14, 10**14 + 1),
        installation=read_installation_id(installation),
        prefix=installation.prefix,
        app_id=installation.app_id,
    )
    asyncio.run(delete_topics(kafka, prefix))
    refused = run(installation, "archive", "restore", "--from", place)
    assert refused.exit_code == 2, refused.output
    assert f"--most-filled {10**14 + 2}" in refused.output
    assert run(installation, "topics", "check").exit_code == 1, "no topic is there"
    allowed = run(installation, "archive", "restore", "--from", place, "--noted", f"1:{'0' * 64}")
    assert (allowed.exit_code, "as noted" in allowed.output) == (2, True)


def read_installation_id(installation: TestInstallation) -> str:
    return load_settings(environment=installation.settings).policy.installation


def lies_behind(topic: Topic, lacks: str) -> bool:
    if lacks == "inputs":
        return topic.direction == "in"
    return topic.name == SESSIONS_CHANGELOG if lacks == "state" else topic.ledger


def test_an_archive_without_the_workers_state_or_of_other_partitions_is_refused(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    installation = make_small_installation(kafka, tmp_path, prefix.rstrip("."), ORDER_OF_OLD)
    stateless = str(tmp_path / "stateless")
    done = run(installation, "archive", "run", "--once", "--to", stateless, SLUICE_ARCHIVE__STATE="false")
    assert done.exit_code == 0, done.output
    refused = run(installation, "archive", "restore", "--from", stateless)
    assert (refused.exit_code, "no state of workers" in refused.output) == (2, True)
