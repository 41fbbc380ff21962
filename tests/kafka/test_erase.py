"""`sluice erase`: a signed entry orders it; "erased" is said when no wrapped key is left on the broker."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from typer.testing import CliRunner

from load.erasures import shorten_compaction
from load.installations.command_process import END_S, start_command
from load.installations.installation import prepare
from sluice.adapters.kafka.kafka_key_erasure import KeyTopic
from sluice.adapters.kafka.kafka_read import open_admin
from sluice.cli.main import cli
from sluice.client.kafka_connection import build_client_arguments
from sluice.client.subject_keys import SubjectKeys
from sluice.secrets.key_wrapping import FileKeyWrapper
from sluice.secrets.redis_seal import SealKeys, make_seal_key, read_seal_keys, write_seal_keys
from sluice_demo.throwaway_trust import OWNER, REVIEWER, publish_policy
from sluice_topics.catalog import BY_NAME, REGISTRY, SUBJECT_KEYS
from sluice_topics.sealing import Subject
from tests.kafka import killed_erasure
from tests.kafka.installation import read_stored
from tests.kafka.killed_erasure import KILLED_AT, MEETS_IN, STEPS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from load.installations.forked_process import ForkedProcess
    from load.installations.installation import TestInstallation

pytestmark = pytest.mark.kafka
ALICE, BOB = Subject("subject", "alice"), Subject("subject", "bob")
DESTROYED_WITHIN_S = 120


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    folder = tmp_path_factory.mktemp("erasures")
    write_seal_keys(folder / "master.keys", (make_seal_key(),))

    async def make() -> TestInstallation:
        made = await prepare(kafka, folder, module_prefix.rstrip("."))
        await shorten_compaction(made)
        return made

    made = asyncio.run(make())
    made.settings["SLUICE_SEALING__MASTER_KEY_FILE"] = str(folder / "master.keys")
    made.trust.write(made.folder)
    return made


def lengthen_compaction(installation: TestInstallation) -> None:
    """As the catalog has it: the broker compacts nothing that is written from now on within a minute."""
    config = BY_NAME[SUBJECT_KEYS].config()

    async def alter() -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, installation.real(SUBJECT_KEYS), config)
        async with open_admin(installation.cluster) as admin:
            await admin.alter_configs([resource])

    asyncio.run(alter())


def make_keys(installation: TestInstallation, *subjects: Subject, tenant: str = "acme") -> list[str]:
    """The ids of their keys, by a process that seals."""

    async def choose() -> list[str]:
        wrapper = FileKeyWrapper(SealKeys(installation.folder / "master.keys"))
        keys = SubjectKeys(installation.cluster, installation.real(SUBJECT_KEYS), wrapper)
        await keys.start()
        try:
            return [(await keys.choose(tenant, subject)).id for subject in subjects]
        finally:
            await keys.close()

    return asyncio.run(choose())


def list_stored(installation: TestInstallation, *key_ids: str) -> frozenset[str]:
    topic = KeyTopic(installation.cluster, installation.real(SUBJECT_KEYS))
    return asyncio.run(topic.list_stored(key_ids))


def erase(installation: TestInstallation, *words: str, by: str = OWNER) -> tuple[int, dict[str, Any]]:
    key = str(installation.folder / f"{by}.pem")
    ran = CliRunner().invoke(cli, ["erase", *words, "--key", key, "--json"], env=installation.settings)
    return ran.exit_code, json.loads(ran.stdout) if ran.exit_code < 2 else {"said": ran.output}


def test_a_person_is_erased_by_a_signed_entry_and_a_read_back_and_another_one_stays(
    installation: TestInstallation,
) -> None:
    alice, bob, elsewhere = (
        *make_keys(installation, ALICE, BOB),
        *make_keys(installation, ALICE, tenant="other"),
    )
    code, said = erase(installation, "alice", "--tenant", "acme", "--wait", str(DESTROYED_WITHIN_S))
    assert (code, said["erased"], said["key_ids"]) == (0, True, [alice])
    assert said["written"] == [f"erasure/acme/{alice}@1", f"erasure/acme/{alice}@2"]
    assert list_stored(installation, alice, bob, elsewhere) == {bob, elsewhere}
    shown = CliRunner().invoke(cli, ["registry", "show", f"erasure/acme/{alice}"], env=installation.settings)
    assert (shown.exit_code, "destroyed" in shown.output) == (0, True), shown.output

    code, said = erase(installation, "alice", "--tenant", "acme")
    assert (code, said["erased"], said["without_key"]) == (0, True, ["alice"]), "the same again does nothing"
    assert make_keys(installation, ALICE) != [alice], "what comes later is sealed with another key"


def test_several_persons_are_erased_at_once_and_one_without_a_key_is_named(
    installation: TestInstallation,
) -> None:
    dora, emil = (Subject("subject", name) for name in ("dora", "emil"))
    key_ids = make_keys(installation, dora, emil)
    wait = ("--tenant", "acme", "--wait", str(DESTROYED_WITHIN_S))
    code, said = erase(installation, "dora", "nobody", "emil", *wait)
    assert (code, said["erased"], said["without_key"]) == (0, True, ["nobody"])
    assert sorted(said["key_ids"]) == sorted(key_ids)
    assert [entry.rpartition("@")[2] for entry in said["written"]] == ["1", "2"], "one entry for both"
    assert list_stored(installation, *key_ids) == frozenset()


def test_before_the_broker_has_compacted_nobody_says_erased_and_a_later_run_goes_on(
    installation: TestInstallation,
) -> None:
    carol = Subject("session", "s-carol")
    lengthen_compaction(installation)
    (key_id,) = make_keys(installation, carol)
    code, said = erase(installation, "s-carol", "--session", "--tenant", "acme", "--wait", "0")
    asyncio.run(shorten_compaction(installation))
    assert (code, said["erased"], said["still_stored"]) == (1, False, [key_id])
    assert said["written"] == [f"erasure/acme/{key_id}@1"]
    code, said = erase(installation, "--wait", str(DESTROYED_WITHIN_S))
    assert (code, said["erased"], said["written"]) == (0, True, [f"erasure/acme/{key_id}@2"])
    assert list_stored(installation, key_id) == frozenset()


def start_erasing(
    installation: TestInstallation, log: Path, *words: str, killed_at: str = "", meets_in: str = ""
) -> ForkedProcess:
    """The command in a process of its own."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SLUICE_", "KAFKA_"))}
    key = str(installation.folder / f"{OWNER}.pem")
    said = ["erase", *words, "--key", key, "--json", "--wait", str(DESTROYED_WITHIN_S)]
    return start_command(
        said,
        {**own, **installation.settings, KILLED_AT: killed_at, MEETS_IN: meets_in},
        log,
        killed_erasure.__name__,
    )


def list_entries(installation: TestInstallation, key_ids: Collection[str]) -> list[str]:
    """The erasures on the registry's topic that name one of these keys, in their order."""
    entries = []
    for record in read_stored(installation, REGISTRY):
        name = (record.key or b"").decode()
        payload = base64.b64decode(json.loads(record.value or b"{}").get("payload", ""))
        if name.startswith("erasure/") and any(key_id.encode() in payload for key_id in key_ids):
            entries.append(name)
    return entries


def test_an_erasure_that_is_killed_at_any_step_is_ended_by_the_next_run(
    installation: TestInstallation, tmp_path: Path
) -> None:
    persons = {step: (f"first-{step}", f"second-{step}") for step in STEPS}
    key_ids = {
        step: make_keys(installation, *(Subject("subject", name) for name in persons[step])) for step in STEPS
    }
    for step in STEPS:
        log = tmp_path / f"{step}.log"
        killed = start_erasing(installation, log, *persons[step], "--tenant", "acme", killed_at=step)
        assert killed.wait(END_S) == -signal.SIGKILL, log.read_text()
        assert "erased" not in log.read_text()
        ends = [entry.rpartition("@")[2] for entry in list_entries(installation, key_ids[step])]
        assert ends == ([] if step == "found" else ["1"]), (step, "nobody says that they are destroyed")
        if step in {"found", "ordered"}:
            assert list_stored(installation, *key_ids[step]) == set(key_ids[step]), step

    code, said = erase(installation, *persons["found"], "--tenant", "acme", "--wait", str(DESTROYED_WITHIN_S))
    assert (code, said["erased"], said["still_stored"]) == (0, True, [])
    for step in STEPS:
        assert list_stored(installation, *key_ids[step]) == frozenset()
        entries = list_entries(installation, key_ids[step])
        assert [entry.rpartition("@")[2] for entry in entries] == ["1", "2"], (step, entries)
        again = make_keys(installation, *(Subject("subject", name) for name in persons[step]))
        assert not set(again) & set(key_ids[step]), "no key comes back"


def test_two_erasures_of_one_person_at_once_end_as_one(
    installation: TestInstallation, tmp_path: Path
) -> None:
    ivy = Subject("subject", "ivy")
    (key_id,) = make_keys(installation, ivy)
    logs = [tmp_path / f"{number}.log" for number in range(2)]
    folder = tmp_path / "meeting"
    folder.mkdir()
    both = [start_erasing(installation, log, "ivy", "--tenant", "acme", meets_in=str(folder)) for log in logs]
    statuses = [process.wait(END_S + DESTROYED_WITHIN_S) for process in both]
    assert len(list(folder.iterdir())) == 2, "each has found the key before one has ordered anything"
    assert 0 in statuses, [log.read_text() for log in logs]
    for status, log in zip(statuses, logs, strict=True):
        assert (status == 0) == ('"erased": true' in log.read_text()), log.read_text()
    code, said = erase(installation, "ivy", "--tenant", "acme", "--wait", str(DESTROYED_WITHIN_S))
    assert (code, said["erased"]) == (0, True)
    assert list_stored(installation, key_id) == frozenset()
    assert list_entries(installation, [key_id]) == [f"erasure/acme/{key_id}@{stage}" for stage in (1, 2)]
    assert make_keys(installation, ivy) != [key_id]


def test_who_may_not_sign_an_erasure_destroys_nothing(installation: TestInstallation) -> None:
    (key_id,) = make_keys(installation, BOB)
    code, said = erase(installation, "bob", "--tenant", "acme", by=REVIEWER)
    assert (code, said["erased"]) == (1, False)
    assert "key_not_allowed" in said["refused"][0]
    assert list_stored(installation, key_id) == {key_id}


def test_a_continued_erasure_leaves_another_tenants_key_that_it_names(installation: TestInstallation) -> None:
    (key_id,) = make_keys(installation, Subject("subject", "frank"), tenant="globex")
    spec = {"tenant_id": "acme", "key_ids": [key_id], "reason": "not acme's"}
    named = {"kind": "erasure", "id": f"acme/{key_id}", "revision": 1, "spec": spec}
    records = installation.trust.sign_entries([named])
    asyncio.run(publish_policy(installation.cluster, installation.prefix, records))
    code, said = erase(installation)
    assert (code, said["erased"], said["of_other_tenants"]) == (0, True, [key_id])
    assert (said["key_ids"], said["written"]) == ([], [])
    assert list_stored(installation, key_id) == {key_id}


def test_a_record_that_gives_anothers_key_to_a_person_has_it_not_erased(
    installation: TestInstallation,
) -> None:
    gina, henry = (Subject("subject", name) for name in ("gina", "henry"))
    of_gina, of_henry = make_keys(installation, gina, henry)
    topic = installation.real(SUBJECT_KEYS)

    async def plant() -> None:
        lying = await KeyTopic(installation.cluster, topic).read_keys()
        false = lying[of_henry].model_copy(update={"subject": lying[of_gina].subject})
        async with AIOKafkaProducer(**build_client_arguments(installation.cluster)) as producer:
            value = false.model_dump_json(by_alias=True).encode()
            await producer.send_and_wait(topic, value, of_henry.encode(), partition=0)

    asyncio.run(plant())
    _, said = erase(installation, "gina", "--tenant", "acme", "--wait", "0")
    assert said["key_ids"] == [of_gina]


def test_without_master_key_or_tenant_the_command_says_what_is_missing(
    installation: TestInstallation, tmp_path: Path
) -> None:
    assert erase(installation, "bob")[1]["said"].startswith("sluice: --tenant is missing")
    key = str(installation.folder / f"{OWNER}.pem")
    settings = installation.settings | {"SLUICE_SEALING__MASTER_KEY_FILE": str(tmp_path / "none")}
    ran = CliRunner().invoke(cli, ["erase", "bob", "--tenant", "acme", "--key", key], env=settings)
    assert (ran.exit_code, "sealing.master_key_file" in ran.output) == (2, True)


def rewrap(installation: TestInstallation, *words: str) -> tuple[int, dict[str, Any]]:
    ran = CliRunner().invoke(cli, ["rewrap", *words, "--json"], env=installation.settings)
    return ran.exit_code, json.loads(ran.stdout) if ran.exit_code < 2 else {"said": ran.output}


def test_a_new_master_key_takes_the_old_ones_place_and_no_key_is_lost_or_comes_back(
    installation: TestInstallation,
) -> None:
    file = installation.folder / "master.keys"
    (old,) = read_seal_keys(file)
    jack, kate, leo = (Subject("subject", name) for name in ("jack", "kate", "leo"))
    before = make_keys(installation, jack, kate, leo)
    topic = KeyTopic(installation.cluster, installation.real(SUBJECT_KEYS))
    asyncio.run(topic.erase([before[2]]))
    write_seal_keys(file, (make_seal_key(), old))
    assert make_keys(installation, jack, kate) == before[:2], "the old key opens while both are in force"

    lengthen_compaction(installation)
    code, said = rewrap(installation, "--wait", "0")
    asyncio.run(shorten_compaction(installation))
    assert (code, said["rewrapped"]) == (1, False), "the old records still lie on the broker's disk"
    assert said["written"] >= 2
    assert len(read_seal_keys(file)) == 2
    code, said = rewrap(installation, "--retire", "--wait", str(DESTROYED_WITHIN_S))
    assert (code, said["rewrapped"], said["written"], said["still_stored"]) == (0, True, 0, [])

    (new,) = read_seal_keys(file)
    assert new != old
    assert make_keys(installation, jack, kate) == before[:2], "the same keys, by the new master key alone"
    assert make_keys(installation, leo) != before[2:]
    (master,) = asyncio.run(FileKeyWrapper(lambda: (old,)).list_masters())
    assert asyncio.run(topic.list_wrapped([master])) == frozenset()
    code, said = erase(installation, "jack", "--tenant", "acme", "--wait", str(DESTROYED_WITHIN_S))
    assert (code, said["erased"], before[0] in said["key_ids"]) == (0, True, True)


def read_value(installation: TestInstallation, key_id: str) -> bytes:
    """The record of a key."""
    topic = KeyTopic(installation.cluster, installation.real(SUBJECT_KEYS))

    async def read() -> bytes:
        return [value async for name, value in topic.read() if name == key_id and value is not None][-1]

    return asyncio.run(read())


@pytest.mark.parametrize("command", ["rewrap", "erase"])
def test_a_key_that_lies_there_again_after_its_destruction_is_destroyed_again(
    installation: TestInstallation, command: str
) -> None:
    """As a rewrapping leaves it that is killed when it has written a key which was erased meanwhile."""
    name = f"mona-{command}"
    (key_id,) = make_keys(installation, Subject("subject", name))
    value = read_value(installation, key_id)
    wait = ("--wait", str(DESTROYED_WITHIN_S))
    assert erase(installation, name, "--tenant", "acme", *wait)[0] == 0
    topic = KeyTopic(installation.cluster, installation.real(SUBJECT_KEYS))
    asyncio.run(topic.replace({key_id: value}))
    assert list_stored(installation, key_id) == {key_id}
    code, said = rewrap(installation, *wait) if command == "rewrap" else erase(installation, *wait)
    assert (code, said["still_stored"]) == (0, []), said
    assert list_stored(installation, key_id) == frozenset()
    assert len(list_entries(installation, [key_id])) == 2, "it was said already that it is destroyed"


class ErasedMeanwhile(KeyTopic):
    """The topic of keys as a rewrapping sees it that an erasure overtakes, at its last moment."""

    overtake: ClassVar[Callable[[], object]]

    async def replace(self, records: Mapping[str, bytes]) -> float:
        """When the whole erasure is over."""
        await asyncio.to_thread(type(self).overtake)
        return await super().replace(records)


def test_a_person_who_is_erased_while_keys_are_rewrapped_is_erased_when_that_ends(
    installation: TestInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    nora, olaf = (Subject("subject", name) for name in ("nora", "olaf"))
    of_nora, of_olaf = make_keys(installation, nora, olaf)
    file = installation.folder / "master.keys"
    write_seal_keys(file, (make_seal_key(), *read_seal_keys(file)))
    wait = ("--wait", str(DESTROYED_WITHIN_S))
    outcomes = list[tuple[int, dict[str, Any]]]()

    def overtake() -> None:
        if not outcomes:
            outcomes.append(erase(installation, "nora", "--tenant", "acme", *wait))

    monkeypatch.setattr(ErasedMeanwhile, "overtake", staticmethod(overtake), raising=False)
    monkeypatch.setattr("sluice.cli.policy.rewrap.KeyTopic", ErasedMeanwhile)
    code, said = rewrap(installation, *wait)
    assert [(code, done["erased"]) for code, done in outcomes] == [(0, True)]
    assert (code, said["rewrapped"], said["still_stored"]) == (0, True, [])
    assert list_stored(installation, of_nora, of_olaf) == {of_olaf}
