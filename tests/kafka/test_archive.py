"""The archive of a real worker's topics: what the broker holds is in it, once, and it can take the broker's
place."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from typer.testing import CliRunner, Result

from load.installations import neutral_policy
from load.installations.installation import INPUTS
from sluice.adapters.archive.archive_store import FolderStore, StoreError, open_store
from sluice.adapters.archive.archived_records import Archive
from sluice.adapters.archive.archiver import ArchiveLimits, Archiver
from sluice.adapters.archive.manifest import ArchiveRefused, read_manifest
from sluice.adapters.kafka.kafka_read import list_partitions, open_reader
from sluice.bootstrap.observing import observe_archiver
from sluice.cli.machine.archive import build_archiver
from sluice.cli.main import cli
from sluice.cli.policy.key_files import make_private_key
from sluice.core.policy.bundle_frame import ORDER_OF_OLD
from sluice.settings.reader import load_settings
from sluice_topics.catalog import ACTIONS, CATALOG, OUTCOMES, REGISTRY, VERDICTS
from tests.adapters.archives import add_entry, build_segment, make_records, open_bucket
from tests.kafka.installation import action, installation_on, publish, run_worker, wait_until_decided, write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess
    from sluice.adapters.kafka.kafka_read import StoredRecord

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    return installation_on(kafka, tmp_path_factory.mktemp("archive"), module_prefix.rstrip("."), ORDER_OF_OLD)


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


def run(installation: TestInstallation, *words: str, **more: str) -> Result:
    return CliRunner().invoke(cli, words, env=installation.settings | more)


def list_names(installation: TestInstallation) -> list[str]:
    return [topic.real_name(installation.prefix, installation.app_id) for topic in CATALOG]


def read_topics(servers: str, names: Sequence[str]) -> dict[tuple[str, int], list[StoredRecord]]:
    """Every committed record, by topic and partition."""

    async def read() -> dict[tuple[str, int], list[StoredRecord]]:
        found: dict[tuple[str, int], list[StoredRecord]] = {}
        async with open_reader(servers, names, "beginning") as reader:
            async for batch in reader.to_end():
                for one in batch:
                    found.setdefault((one.topic, one.partition), []).append(one)
        return found

    return asyncio.run(read())


def read_archive(folder: Path) -> dict[tuple[str, int], list[StoredRecord]]:
    archive = Archive(open_store(str(folder)))
    assert list(archive.check()) == []
    parts = archive.manifest.segments
    return {part: [one for batch in archive.read_part(part) for one in batch] for part in parts}


def decide_some(
    installation: TestInstallation, worker: WorkerProcess, session: str, count: int, before: int
) -> None:
    """Actions of one session, decided; `before`: verdicts that there are already."""
    publish(installation, [action(session, f"{session}-{number}") for number in range(count)])
    write(installation, VERDICTS, before + count, worker)
    outcome = {"action_id": f"{session}-0", "session_id": session, "rows_affected": 70}
    publish(installation, [outcome | {"reported_by": neutral_policy.AGENT}], OUTCOMES)
    wait_until_decided(installation, worker)


def test_the_archive_holds_what_the_topics_hold_and_goes_on_where_it_ended(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    place = tmp_path / "archive"
    decide_some(installation, worker, "s", 20, 0)
    assert run(installation, "archive", "run", "--once", "--to", str(place)).exit_code == 0
    decide_some(installation, worker, "t", 20, 20)
    for _ in range(2):  # the second finds nothing new
        again = run(installation, "archive", "run", "--once", "--to", str(place))
        assert again.exit_code == 0, again.output
    assert read_archive(place) == read_topics(installation.bootstrap_servers, list_names(installation))
    told = json.loads(run(installation, "archive", "check", "--from", str(place), "--json").stdout)
    assert told["whole"]
    noted = f"{told['end']['number']}:{told['end']['sha256']}"
    assert run(installation, "archive", "check", "--from", str(place), "--noted", noted).exit_code == 0
    manifest = Archive(open_store(str(place))).manifest
    assert any(manifest.decided.values())  # the workers commit twice a second, so not all of it
    heads = [
        one.head
        for part in manifest.segments.values()
        for one in part
        if one.topic == installation.real(VERDICTS)
    ]
    assert all(heads)


def test_a_bucket_takes_the_place_of_a_folder(installation: TestInstallation, worker: WorkerProcess) -> None:
    decide_some(installation, worker, "b", 4, count_records(installation, VERDICTS))
    with open_bucket("evidence") as url:
        more = {"SLUICE_ARCHIVE__ENDPOINT_URL": url, "SLUICE_ARCHIVE__LOCATION": "s3://evidence/sluice"}
        for _ in range(2):
            archived = run(installation, "archive", "run", "--once", **more)
            assert archived.exit_code == 0, archived.output
        assert run(installation, "archive", "check", **more).exit_code == 0
        verified = run(installation, "ledger", "verify", "--from", "s3://evidence/sluice", **more)
        assert verified.exit_code == 0, verified.output
        reruns = run(installation, "rerun", "b-2", "--from", "s3://evidence/sluice", "--json", **more)
        assert json.loads(reruns.stdout)["identical"] == 1


class AwayStore(FolderStore):
    """Does not answer the first calls."""

    def __init__(self, folder: Path, calls: int) -> None:
        super().__init__(folder)
        self.calls = calls

    def put(self, name: str, data: bytes) -> None:
        self._answer()
        super().put(name, data)

    def create(self, name: str, data: bytes) -> bool:
        """The write arrives, and its answer is lost."""
        made = super().create(name, data)
        self._answer()
        return made

    def _answer(self) -> None:
        self.calls -= 1
        if self.calls >= 0:
            raise StoreError("away")


def test_small_segments_little_memory_and_a_store_that_is_away_change_nothing(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    decide_some(installation, worker, "m", 30, count_records(installation, VERDICTS))
    built = build_archiver(load_settings(environment=installation.settings), FolderStore(tmp_path / "none"))
    verdicts = {name: one for name, one in built.of.topics.items() if one.name == VERDICTS}
    for number, limits in enumerate((ArchiveLimits(segment_bytes=1), ArchiveLimits(held_bytes=1))):
        store = AwayStore(tmp_path / f"archive{number}", 2 + number)
        of = replace(built.of, topics=verdicts)
        archiver = Archiver(installation.bootstrap_servers, of, store, limits)
        manifest = asyncio.run(archiver.run(once=True))
        there = read_topics(installation.bootstrap_servers, [installation.real(VERDICTS)])
        assert read_archive(tmp_path / f"archive{number}") == there
        assert manifest.number >= 1
        assert store.calls < 0


def test_what_is_decided_is_noted_however_often_memory_is_full(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    store = FolderStore(tmp_path / "archive")
    built = build_archiver(load_settings(environment=installation.settings), store)
    limits = ArchiveLimits(held_bytes=1, age_s=1.0)
    archiver = Archiver(installation.bootstrap_servers, built.of, store, limits)

    before = count_records(installation, VERDICTS)

    async def follow() -> None:
        following = asyncio.create_task(archiver.run())
        for number in range(2):
            await asyncio.to_thread(decide_some, installation, worker, f"f{number}", 5, before + 5 * number)
            seen = read_manifest(store).decided if number else {}
            async with asyncio.timeout(30):
                while not (found := read_manifest(store).decided) or found == seen:  # noqa: ASYNC110 - a store tells nobody
                    await asyncio.sleep(0.1)
        archiver.stop()
        await following

    asyncio.run(follow())
    assert any(topic == installation.real(ACTIONS) for topic, _ in read_manifest(store).decided)


async def delete_inputs(installation: TestInstallation) -> None:
    """As retention does: every input that lies on the broker now."""
    admin = AIOKafkaAdminClient(bootstrap_servers=installation.bootstrap_servers)
    await admin.start()
    try:
        parts = await list_partitions(
            installation.bootstrap_servers, [installation.real(base) for base in INPUTS]
        )
        await admin.delete_records({part: RecordsToDelete(before_offset=-1) for part in parts})
    finally:
        await admin.close()


def rerun(installation: TestInstallation, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(installation, "rerun", *words, "--json").stdout)
    return found


def test_reruns_and_verification_read_the_archive_also_where_the_broker_has_deleted_the_inputs(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    place = str(tmp_path / "archive")
    decide_some(installation, worker, "u", 10, count_records(installation, VERDICTS))
    assert run(installation, "archive", "run", "--once", "--to", place).exit_code == 0
    kept = rerun(installation, "--all")
    asyncio.run(delete_inputs(installation))
    assert rerun(installation, "u-3")["evidence_gone"] == 1
    assert rerun(installation, "--all", "--from", place) == kept
    assert kept["reruns"] == []
    assert kept["identical"] == count_records(installation, VERDICTS)
    by_name = rerun(installation, "u-3", "never", "--from", place)
    assert (by_name["identical"], list(by_name["unknown"])) == (1, ["never"])
    assert rerun(installation, "--sample", "5", "--from", place)["identical"] == 5
    verified = run(installation, "ledger", "verify", "--json", "--from", place)
    assert verified.exit_code == 0, verified.output
    assert json.loads(verified.stdout) == json.loads(run(installation, "ledger", "verify", "--json").stdout)


def test_the_verifier_alone_reads_the_unpacked_segments(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    """docs/archive.md says so: `zcat` and `python -m audit` are enough for an auditor."""
    place = tmp_path / "archive"
    decide_some(installation, worker, "x", 3, count_records(installation, VERDICTS))
    assert run(installation, "archive", "run", "--once", "--to", str(place)).exit_code == 0
    ledger = tmp_path / "ledger.jsonl"
    names = [topic.real_name(installation.prefix, installation.app_id) for topic in CATALOG if topic.ledger]
    segments = [path for name in names for path in sorted((place / "segments" / name).rglob("*.gz"))]
    ledger.write_bytes(b"".join(gzip.decompress(path.read_bytes()) for path in segments))
    found = run(installation, "ledger", "verify", "--json", "--from", str(ledger))
    assert json.loads(found.stdout)["intact"], found.output


def test_what_was_tampered_with_is_named_by_rerun_and_by_verify(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    place = tmp_path / "archive"
    decide_some(installation, worker, "v", 3, count_records(installation, VERDICTS))
    assert run(installation, "archive", "run", "--once", "--to", str(place)).exit_code == 0
    (path, *_) = sorted((place / "segments" / installation.real(VERDICTS)).rglob("*.gz"))
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    found = run(installation, "ledger", "verify", "--json", "--from", str(place))
    told = json.loads(found.stdout)["findings"]
    assert found.exit_code == 1
    assert (told[0]["code"], told[0]["topic"]) == ("archive_damaged", str(path.relative_to(place)))
    found = run(installation, "rerun", "--all", "--from", str(place))
    assert found.exit_code == 2
    assert path.name in found.output
    path.write_bytes(data)
    (place / "manifest" / "000000000001.json").write_bytes(b"{}")
    found = run(installation, "rerun", "--all", "--from", str(place))
    assert found.exit_code == 2
    assert "manifest/000000000001.json" in found.output
    refused = run(installation, "archive", "run", "--once", "--to", str(place))
    assert (refused.exit_code, "is damaged, so nothing is added to it" in refused.output) == (2, True)


def test_who_owns_the_store_and_not_the_key_is_found_by_every_command(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    """An entry that claims offsets is forged, and the manifest's end is cut off."""
    place, key = tmp_path / "archive", tmp_path / "archive.pem"
    public = make_private_key(key).public.text
    signing = {
        "SLUICE_ARCHIVE__SIGNING_KEY": str(key),
        "SLUICE_ARCHIVE__NOTED_FILE": str(tmp_path / "noted"),
    }
    trusting = ("--from", str(place), "--archive-key", public)
    for session in ("z", "za"):
        decide_some(installation, worker, session, 3, count_records(installation, VERDICTS))
        archived = run(installation, "archive", "run", "--once", "--to", str(place), **signing)
        assert archived.exit_code == 0, archived.output
    told = json.loads(run(installation, "archive", "check", *trusting, "--json").stdout)
    assert (told["whole"], told["signatures"]["checked"], told["signatures"]["unsigned"]) == (True, True, 0)
    assert f"{told['end']['number']}:{told['end']['sha256']}\n" == (tmp_path / "noted").read_text()
    assert rerun(installation, "z-1", *trusting)["identical"] == 1
    verified = run(installation, "ledger", "verify", *trusting)
    assert (verified.exit_code, "signed by a key that counts" in verified.output) == (0, True)
    unchecked = run(installation, "ledger", "verify", "--from", str(place))
    assert (unchecked.exit_code, "signatures were not checked" in unchecked.output) == (0, True)

    far = make_records(0, [10**6], topic=installation.real(ACTIONS))
    of = load_settings(environment=installation.settings).policy.installation
    named: dict[str, Any] = {"installation": of, "prefix": installation.prefix, "app_id": installation.app_id}
    add_entry(open_store(str(place)), build_segment(far, 10**6, 10**6 + 1), **named)
    claim = max((place / "manifest").iterdir())
    verified = run(installation, "ledger", "verify", *trusting, "--json")
    (finding,) = json.loads(verified.stdout)["findings"]
    assert (finding["topic"], finding["message"][:14]) == (f"manifest/{claim.name}", "entry_unsigned")
    for words in (("rerun", "z-1"), ("archive", "restore")):
        refused = run(installation, *words, *trusting)
        assert (refused.exit_code, claim.name in refused.output) == (2, True), refused.output
    refused = run(installation, "archive", "run", "--once", "--to", str(place), **signing)
    assert (refused.exit_code, claim.name in refused.output) == (2, True)

    claim.unlink()
    last = max((place / "manifest").iterdir())
    last.unlink()
    (place / "head.json").unlink()
    assert run(installation, "archive", "check", *trusting).exit_code == 0
    assert run(installation, "archive", "check", *trusting, **signing).exit_code == 1
    refused = run(installation, "archive", "run", "--once", "--to", str(place), **signing)
    assert (refused.exit_code, "what was noted names entry" in refused.output) == (2, True)


def test_policy_that_an_archive_lacks_is_named_as_on_a_broker(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    place = str(tmp_path / "archive")
    decide_some(installation, worker, "p", 2, count_records(installation, VERDICTS))
    built = build_archiver(load_settings(environment=installation.settings), open_store(place))
    lacking = {name: topic for name, topic in built.of.topics.items() if topic.name != REGISTRY}
    of = replace(built.of, topics=lacking)
    archiver = Archiver(installation.bootstrap_servers, of, open_store(place), built.limits)
    asyncio.run(archiver.run(once=True))
    found = run(installation, "ledger", "verify", "--json", "--from", place)
    told = json.loads(found.stdout)["findings"]
    assert (found.exit_code, {one["code"] for one in told}) == (1, {"policy_lost"}), found.output
    assert run(installation, "archive", "run", "--once", "--to", place).exit_code == 0
    assert run(installation, "ledger", "verify", "--from", place).exit_code == 0


def test_another_installation_neither_reads_nor_adds_to_an_archive(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    place = str(tmp_path / "archive")
    assert run(installation, "archive", "run", "--once", "--to", place).exit_code == 0
    for words in (("archive", "run", "--once", "--to", place), ("rerun", "--all", "--from", place)):
        found = run(installation, *words, SLUICE_POLICY__INSTALLATION="another")
        assert found.exit_code == 2
        assert "archive of" in found.output


def test_a_second_archiver_at_once_ends_without_harm(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    place = tmp_path / "archive"
    settings = load_settings(environment=installation.settings)
    decide_some(installation, worker, "w", 10, count_records(installation, VERDICTS))

    async def run_both() -> list[Any]:
        both = [build_archiver(settings, open_store(str(place))) for _ in range(2)]
        return await asyncio.gather(*(one.run(once=True) for one in both), return_exceptions=True)

    ended = asyncio.run(run_both())
    refused = [one for one in ended if isinstance(one, ArchiveRefused)]
    assert len(refused) == 1
    assert "another archiver wrote entry 1" in str(refused[0])
    verdicts = read_topics(installation.bootstrap_servers, [installation.real(VERDICTS)])
    archived = read_archive(place)
    assert {part: records for part, records in archived.items() if part in verdicts} == verdicts


def test_offsets_that_the_broker_deleted_before_they_were_archived_are_named(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    place = str(tmp_path / "archive")
    decide_some(installation, worker, "y", 2, count_records(installation, VERDICTS))
    assert run(installation, "archive", "run", "--once", "--to", place).exit_code == 0
    decide_some(installation, worker, "y", 2, count_records(installation, VERDICTS))
    asyncio.run(delete_inputs(installation))
    decide_some(installation, worker, "y", 2, count_records(installation, VERDICTS))
    assert run(installation, "archive", "run", "--once", "--to", place).exit_code == 0
    told = json.loads(run(installation, "archive", "check", "--from", place, "--json").stdout)
    assert {one["code"] for one in told["findings"]} == {"offsets_missing"}
    assert any(one["where"].startswith(installation.real(ACTIONS)) for one in told["findings"])


def count_records(installation: TestInstallation, base: str) -> int:
    return sum(map(len, read_topics(installation.bootstrap_servers, [installation.real(base)]).values()))


def test_an_archiver_shows_up_to_when_everything_is_archived(
    installation: TestInstallation, tmp_path: Path
) -> None:
    place = FolderStore(tmp_path / "archive")
    environ = {**installation.settings, "SLUICE_ARCHIVE__METRICS_ADDRESS": "127.0.0.1:0"}
    settings = load_settings(environment=environ)
    observed = observe_archiver(settings)
    assert observed is not None
    observed.listener.start()
    before = time.time()
    try:
        address = f"http://127.0.0.1:{observed.listener.port}"
        archiver = build_archiver(settings, place)
        archiver.observer = observed.metrics
        assert httpx2.get(f"{address}/readyz").status_code == 503
        asyncio.run(archiver.run(once=True))
        assert httpx2.get(f"{address}/readyz").status_code == 200
        shown = httpx2.get(f"{address}/metrics").text
    finally:
        observed.listener.stop()
    numbers = dict(line.split(" ") for line in shown.splitlines() if line.startswith("sluice_"))
    assert float(numbers["sluice_archived_records_total"]) == archiver.written
    assert before - 1 <= float(numbers["sluice_archive_timestamp_seconds"]) <= time.time()
