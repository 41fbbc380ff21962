"""Decisions of a real worker, executed again from what lies on the broker."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from typer.testing import CliRunner, Result

from load.installations import neutral_policy
from load.recomputation.reruns import read_decision_settings
from load.tamper import seal
from sluice.adapters.kafka.kafka_evidence import KafkaEvidence
from sluice.adapters.ledger_reruns import rerun_all
from sluice.cli.main import cli
from sluice.core.policy.bundle_frame import ORDER_OF_OLD
from sluice_topics.catalog import ACTIONS, OUTCOMES, SESSION_EVENTS, VERDICTS
from sluice_topics.headers import make_output_headers
from tests.kafka.installation import (
    Sent,
    action,
    installation_on,
    make_small_installation,
    publish,
    publish_to,
    run_worker,
    wait_for,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess
    from sluice.adapters.kafka.kafka_evidence import InputFetcher
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.rerun.rerun_result import Rerun
    from sluice.core.rerun.walk import Place, WrittenRecord

pytestmark = pytest.mark.kafka


@pytest.fixture
def installation(kafka: str, prefix: str, tmp_path: Path) -> TestInstallation:
    return make_small_installation(kafka, tmp_path, prefix.rstrip("."), ORDER_OF_OLD)


@pytest.fixture(scope="module")
def shared_installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    """For tests that need a worker and sessions of their own alone; the last of them forges the ledger."""
    return installation_on(kafka, tmp_path_factory.mktemp("rerun"), module_prefix.rstrip("."), ORDER_OF_OLD)


@pytest.fixture(scope="module")
def worker(shared_installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(shared_installation)


@pytest.fixture
def installation_with_own_stages(kafka: str, prefix: str, tmp_path: Path) -> TestInstallation:
    return make_small_installation(kafka, tmp_path, prefix.rstrip("."))


def rerun(installation: TestInstallation, *words: str) -> Result:
    return CliRunner().invoke(cli, ["rerun", *words, "--json"], env=installation.settings)


def reruns_with_own_stages(installation: TestInstallation) -> list[Rerun]:
    async def run() -> list[Rerun]:
        source = KafkaEvidence(installation.bootstrap_servers, installation.prefix)
        return [one async for one in rerun_all(source, read_decision_settings(installation))]

    return asyncio.run(run())


def proposals() -> list[dict[str, Any]]:
    purge = {"toolName": neutral_policy.PURGE_TOOL, "rows_affected": neutral_policy.PURGE_LIMIT + 1}
    first = action("s", "a-1")
    return [
        first,
        first,
        action("s", "a-1", rows_affected=11),
        action("s", "a-2", **purge),
        action("s", "a-3", mode="standard", **purge),
        action("s", "a-4", agent_id="nobody"),
        action("t", "a-5", toolName="unheard_of"),
        action("t", "a-6", parameters={"c": "rm -rf /"}, mode=None),
    ]


def test_every_verdict_comes_out_identical(
    shared_installation: TestInstallation, worker: WorkerProcess
) -> None:
    installation = shared_installation
    publish(installation, proposals())
    write(installation, VERDICTS, 8, worker)
    publish(
        installation,
        [{"action_id": "a-1", "session_id": "s", "rows_affected": 70, "reported_by": neutral_policy.AGENT}],
        OUTCOMES,
    )
    write(installation, SESSION_EVENTS, 1, worker)
    publish(installation, [action("s", "a-7")])
    verdicts = write(installation, VERDICTS, 9, worker)
    found = rerun(installation, "--all")
    told = json.loads(found.stdout)
    assert (told["by_kind"]["verdict"]["identical"], told["identical"], told["reruns"]) == (9, 9, [])
    assert found.exit_code == 0
    ids = [verdicts[0]["verdict_id"], f"escalation:{verdicts[1]['verdict_id'].removeprefix('verdict:')}"]
    assert [one["status"] for one in json.loads(rerun(installation, *ids).stdout)["reruns"]] == [
        "identical"
    ] * 2
    sampled = [rerun(installation, "--sample", "3", "--seed", "7").stdout for _ in range(2)]
    assert json.loads(sampled[0])["identical"] == 3
    assert sampled[0] == sampled[1]


def test_decisions_are_found_by_the_id_that_the_caller_gave(
    shared_installation: TestInstallation, worker: WorkerProcess
) -> None:
    """Mend 13."""
    inputs = [action("u", "b-1"), action("u", "b-1"), action("v", "b-2", request_id="r-7")]
    publish(shared_installation, inputs)
    wait_for(shared_installation, VERDICTS, {"u", "v"}, 3, worker)
    told = json.loads(rerun(shared_installation, "b-1", "r-7").stdout)
    assert (told["identical"], told["unknown"]) == (3, {})


def test_an_action_whose_ids_lie_around_it_comes_out_identical(
    shared_installation: TestInstallation, worker: WorkerProcess
) -> None:
    """Mend 22.17: of seed 000's payload, from the key, the place and the header on the topic."""
    value = json.dumps({"proposed_action": {"action": neutral_policy.READ_TOOL, "value": {}}}).encode()
    publish(
        shared_installation, [(b"around", value)], headers=[("X-Mnemom-Agent", neutral_policy.AGENT.encode())]
    )
    (verdict,) = wait_for(shared_installation, VERDICTS, "around", 1, worker)
    told = json.loads(rerun(shared_installation, verdict["verdict_id"]).stdout)
    assert (verdict["verdict"], told["identical"], told["unknown"]) == ("allowed", 1, {})


def test_a_forged_second_verdict_is_found_by_rerun_and_by_verify(
    shared_installation: TestInstallation, worker: WorkerProcess
) -> None:
    """Mend 5: `rm -rf /srv` ALLOW, without stages, appended with a right chain hash."""
    installation = shared_installation
    publish(
        installation,
        [action("w", "c-1"), action("w", "c-2", toolName="run", parameters={"c": "rm -rf /srv"})],
    )
    one, two = wait_for(installation, VERDICTS, "w", 2, worker)
    assert rerun(installation, "--all").exit_code == 0
    last = max((one, two), key=lambda each: int(each["sequence"]))
    wiped = two if two["action_id"] == "c-2" else one
    forged = seal(
        {
            **wiped,
            "verdict": "allowed",
            "outcome": "ALLOW",
            "blockReason": None,
            "stages": [],
            "gateResults": [],
            "sequence": last["sequence"] + 1,
            "prev_hash": last["event_hash"],
        }
    )
    append(installation, VERDICTS, wiped["partition"], forged)
    named = json.loads(rerun(installation, wiped["verdict_id"]).stdout)["reruns"]
    assert [each["status"] for each in named] == ["identical", "different"]
    found = rerun(installation, "--all")
    assert found.exit_code == 1
    (told,) = json.loads(found.stdout)["reruns"]
    fields = {each["field"] for each in told["differences"]}
    assert {"verdict_id", "stages"} <= fields
    verified = CliRunner().invoke(cli, ["ledger", "verify", "--json"], env=installation.settings)
    assert verified.exit_code == 1
    assert "duplicate_id" in {each["code"] for each in json.loads(verified.stdout)["findings"]}


def test_what_was_never_seen_is_told_from_what_is_not_decided_and_from_gone_evidence(
    installation: TestInstallation,
) -> None:
    """Mend 13: `rerun ACTION_ID` ended with "not enough values to unpack"."""
    for worker in run_worker(installation):
        (sent,) = publish(installation, [action("s", "a-gone")])
        write(installation, VERDICTS, 1, worker)
    asyncio.run(delete_input(installation, sent))
    publish(installation, [action("s", "ä-waits")])
    never = ("nonsense", "a-99", "verdict:gate.actions.proposed:3:17", "verdict:gate.actions.proposed:99:0")
    found = rerun(installation, *never, "ä-waits")
    why = json.loads(found.stdout)["unknown"]
    assert found.exit_code == 2
    assert [name for name, told in why.items() if "never seen" in told] == list(never)
    assert "not decided" in why["ä-waits"]
    gone = rerun(installation, "a-gone")
    assert (gone.exit_code, json.loads(gone.stdout)["evidence_gone"]) == (3, 1)
    assert rerun(installation, "--all", "--sample", "1").exit_code == 2


async def delete_input(installation: TestInstallation, sent: Sent) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=installation.bootstrap_servers)
    await admin.start()
    try:
        part = TopicPartition(installation.real(ACTIONS), sent.partition)
        await admin.delete_records({part: RecordsToDelete(before_offset=sent.offset + 1)})
    finally:
        await admin.close()


def test_recorded_answers_and_refused_inputs_come_out_identical(
    installation_with_own_stages: TestInstallation,
) -> None:
    installation = installation_with_own_stages
    for worker in run_worker(installation, slow_s=0.1):
        publish(installation, [action("s", f"a-{n}", parameters={"slow": True}) for n in range(3)])
        publish_to(installation, 0, action("s", "elsewhere"))
        write(installation, VERDICTS, 3, worker)
    assert [one.status for one in reruns_with_own_stages(installation)] == ["identical"] * 3
    found = rerun(installation, "--all")
    assert found.exit_code == 3
    (first, *_) = json.loads(found.stdout)["reruns"]
    assert first["missing"] == ["stage poison", "stage slow_probe"]
    assert ACTIONS in first["id"]


def test_an_input_whose_verdict_is_gone_and_a_forged_key_are_told(installation: TestInstallation) -> None:
    """Mend 5: the group says that an input was decided, and the ledger has no record of it."""
    for worker in run_worker(installation):
        publish(installation, [action("s", "a-1"), action("s", "a-2")])
        verdicts = write(installation, VERDICTS, 2, worker)
    cut = min(verdicts, key=lambda each: each["sequence"])
    asyncio.run(_cut_before(installation, VERDICTS, cut["partition"], 1))
    told = json.loads(rerun(installation, "--all").stdout)["reruns"]
    assert {"input"} == {
        each["field"] for one in told if one["id"].endswith(":0") for each in one["differences"]
    }


def append(installation: TestInstallation, topic: str, partition: int, fields: dict[str, Any]) -> None:
    """Write a record as anybody with the right to write could."""

    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=installation.bootstrap_servers, acks="all") as producer:
            value = json.dumps(fields).encode()
            headers = make_output_headers(fields, "Verdict", "/sluice/forged", None)
            key = fields["session_id"].encode()
            await producer.send_and_wait(
                installation.real(topic), value, key=key, partition=partition, headers=headers
            )

    asyncio.run(send())


async def _cut_before(installation: TestInstallation, topic: str, partition: int, offset: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=installation.bootstrap_servers)
    await admin.start()
    try:
        part = TopicPartition(installation.real(topic), partition)
        await admin.delete_records({part: RecordsToDelete(before_offset=offset)})
    finally:
        await admin.close()


async def test_what_is_committed_beside_an_open_transaction_is_there(
    installation_with_own_stages: TestInstallation,
) -> None:
    """Another writer's transaction on both partitions is open when the fetch begins, and ends meanwhile."""
    installation = installation_with_own_stages
    verdict = json.dumps({"schema": "sluice/verdict/v1", "verdict_id": "v-1"}).encode()
    servers = {"bootstrap_servers": installation.bootstrap_servers}
    topics = [installation.real(ACTIONS), installation.real(VERDICTS)]
    evidence = KafkaEvidence(installation.bootstrap_servers, installation.prefix)
    async with (
        AIOKafkaProducer(**servers, transactional_id=f"{installation.prefix}other") as other,
        AIOKafkaProducer(**servers) as producer,
        evidence.open_fetcher() as fetcher,
    ):
        await other.begin_transaction()
        for topic in topics:
            await other.send_and_wait(topic, b"{}", b"s", partition=0)
        sent = [await producer.send_and_wait(topic, verdict, b"s", partition=0) for topic in topics]
        place = (ACTIONS, 0, sent[0].offset)
        fetching = asyncio.create_task(_fetch_both(fetcher, place))
        await asyncio.wait([fetching], timeout=2)
        await other.abort_transaction()
        inputs, decisions = await asyncio.wait_for(fetching, 30)
    assert [record.value for record in inputs.values()] == [verdict]
    assert [record.value for record in decisions] == [verdict]


async def _fetch_both(
    fetcher: InputFetcher, place: Place
) -> tuple[dict[Place, InputRecord], list[WrittenRecord]]:
    return await fetcher.fetch_inputs([place]), await fetcher.fetch_decisions(place, "v-1", 0)
