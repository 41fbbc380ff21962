"""The archive's stores, its segments and its manifest: what is written comes back, and what was changed is
named."""

from __future__ import annotations

import gzip
import os
import threading
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest
from aiokafka import TopicPartition

from sluice.adapters.archive.archive_store import (
    FolderStore,
    ObjectMissing,
    ObjectTooLarge,
    StoreError,
    open_store,
    require_exclusive_writes,
)
from sluice.adapters.archive.archived_records import Archive
from sluice.adapters.archive.archiver import ArchivedInstallation, ArchiveLimits, Archiver
from sluice.adapters.archive.manifest import (
    ArchiveRefused,
    ArchiveTrust,
    ManifestEntry,
    read_manifest,
    write_entry,
)
from sluice.adapters.archive.segment import COMPRESSOR_BYTES, ArchiveDamaged, Segment, read_segment
from sluice.adapters.kafka.kafka_read import StoredRecord
from sluice_topics.catalog import ACTIONS, BUNDLES, BY_NAME, ESCALATIONS, VERDICTS
from tests.adapters.archives import TOPIC, add_entry, build_segment, make_records, open_bucket, write_archive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.adapters.archive.archive_store import ArchiveStore


@pytest.fixture(scope="module")
def bucket_url() -> Iterator[str]:
    """The address of a real S3-compatible server on loopback, with a bucket."""
    with open_bucket("archives") as url:
        yield url


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArchiveStore:
    if request.param == "folder":
        return open_store(str(tmp_path / "archive"))
    return open_store(f"s3://archives/{tmp_path.name}", request.getfixturevalue("bucket_url"))


@pytest.fixture
def folder(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "archive")


def find_findings(store: ArchiveStore) -> list[tuple[str, str]]:
    return [(one.code, one.where) for one in Archive(store).check()]


def list_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("segments/**/*") if path.is_file())


def test_every_record_comes_back_byte_for_byte_from_a_folder_and_from_a_bucket(store: ArchiveStore) -> None:
    written = write_archive(store)
    archive = Archive(store)
    parts = archive.list_parts({TOPIC})
    read = [record for part in parts for batch in archive.read_part(part) for record in batch]
    assert read == written
    assert list(archive.check()) == []
    assert archive.manifest.find_end((TOPIC, 0)) == 10
    wanted = {0: written[0], 7: written[5]}
    assert archive.fetch((TOPIC, 0), [0, 3, 7, 99]) == wanted


def test_what_must_be_new_is_written_once_and_stays(store: ArchiveStore) -> None:
    assert store.create("manifest/a", b"1")
    assert not store.create("manifest/a", b"2")
    assert store.read("manifest/a", 1) == b"1"
    assert list(store.list_names("manifest")) == ["a"]
    assert list(store.list_names("none")) == []
    require_exclusive_writes(store)
    require_exclusive_writes(store)
    with pytest.raises(ObjectMissing):
        store.read("manifest/b", 1)
    store.put("manifest/empty", b"")
    assert store.read("manifest/empty", 5) == b""
    store.put("manifest/a", b"123")
    with pytest.raises(ObjectTooLarge):
        store.read("manifest/a", 2)


def test_of_many_who_write_the_same_number_one_wins(store: ArchiveStore) -> None:
    won: list[int] = []

    def write(number: int) -> None:
        if store.create("manifest/one", b"%d" % number):
            won.append(number)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for one in writers:
        one.start()
    for one in writers:
        one.join()
    assert [store.read("manifest/one", 9)] == [b"%d" % number for number in won]


def test_a_manifest_of_many_entries_is_read_in_its_order(store: ArchiveStore) -> None:
    for number in range(20):
        add_entry(store, build_segment(make_records(0, [number]), number, number + 1))
    archive = Archive(store)
    assert list(archive.check()) == []
    assert (archive.manifest.number, archive.manifest.find_end((TOPIC, 0))) == (20, 20)


def test_who_adds_to_an_archive_keeps_the_last_segment_of_each_partition_alone(folder: FolderStore) -> None:
    write_archive(folder)
    whole, ends = read_manifest(folder), read_manifest(folder, ends_only=True)
    assert [len(whole.segments[TOPIC, number]) for number in (0, 1)] == [3, 1]
    assert (ends.number, ends.digest, ends.decided) == (whole.number, whole.digest, whole.decided)
    for number in range(10, 14):
        segment, _ = build_segment(make_records(0, [number]), number, number + 1)
        fields = {"number": ends.number + 1, "previous": ends.digest, "segments": (segment,)}
        entry = ManifestEntry.model_validate(
            fields | {"installation": "i", "prefix": "t.", "app_id": "app", "at_ms": 1}
        )
        write_entry(folder, ends, entry)
    assert [len(ends.segments[TOPIC, number]) for number in (0, 1)] == [1, 1]
    assert ends.find_end((TOPIC, 0)) == 14
    (Path(folder.url) / "manifest/000000000002.json").unlink()
    (Path(folder.url) / "manifest/000000000005.json").write_bytes(b"{}")
    assert read_manifest(folder, ends_only=True).findings == read_manifest(folder).findings != []


def test_where_memory_is_full_the_largest_segments_are_written_and_the_others_grow_on(
    folder: FolderStore,
) -> None:
    limits = ArchiveLimits(held_bytes=4 * COMPRESSOR_BYTES + 1000)
    of = ArchivedInstallation("i", "t.", "app", {TOPIC: BY_NAME[VERDICTS]})
    archiver = Archiver("nowhere:9", of, folder, limits)
    parts = [TopicPartition(TOPIC, number) for number in range(5)]
    archiver._ends = dict.fromkeys(parts, 0)  # noqa: SLF001 - without a broker
    noise = os.urandom(2 * COMPRESSOR_BYTES)
    for part in parts:
        value = noise if part.partition == 3 else b"small"
        archiver._take(part, [StoredRecord(TOPIC, part.partition, 0, 0, None, value, ())])  # noqa: SLF001 - without a broker
    assert archiver._choose_largest() == [parts[3], parts[0], parts[1]]  # noqa: SLF001 - without a broker


def test_what_workers_wrote_is_written_with_the_inputs_and_the_policy_that_they_read(
    folder: FolderStore,
) -> None:
    topics = {name: BY_NAME[name] for name in (ACTIONS, BUNDLES, VERDICTS, ESCALATIONS)}
    archiver = Archiver(
        "nowhere:9", ArchivedInstallation("i", "", "app", topics), folder, ArchiveLimits(segment_bytes=1000)
    )
    parts = {(name, number): TopicPartition(name, number) for name in topics for number in (0, 1)}
    archiver._ends = dict.fromkeys(parts.values(), 0)  # noqa: SLF001 - without a broker

    def take(part: TopicPartition, offset: int, size: int) -> None:
        record = StoredRecord(part.topic, part.partition, offset, 0, None, b"x" * size, ())
        archiver._take(part, [record])  # noqa: SLF001 - without a broker

    for part in parts.values():
        take(part, 0, 1)
    assert archiver._choose_parts() == []  # noqa: SLF001 - without a broker
    take(parts[VERDICTS, 1], 1, 1000)
    chosen = archiver._choose_parts()  # noqa: SLF001 - without a broker
    assert chosen == [parts[one] for one in ((VERDICTS, 1), (ACTIONS, 1), (BUNDLES, 0), (BUNDLES, 1))]


def test_an_entry_that_is_written_while_the_manifest_is_read_is_not_taken_for_a_cut(
    folder: FolderStore,
) -> None:
    write_archive(folder)

    class Growing(FolderStore):
        def list_names(self, folder: str) -> Iterator[str]:
            names = list(super().list_names(folder))
            add_entry(FolderStore(Path(self.url)), build_segment(make_records(0, [10]), 10, 11))
            return iter(names)

    assert read_manifest(Growing(Path(folder.url))).findings == []


def test_a_store_that_replaces_what_must_be_new_is_refused(folder: FolderStore) -> None:
    class Careless(FolderStore):
        def create(self, name: str, data: bytes) -> bool:
            self.put(name, data)
            return True

    with pytest.raises(StoreError, match="ignores `If-None-Match"):
        require_exclusive_writes(Careless(Path(folder.url)))


def test_a_second_archiver_of_one_number_is_refused_and_the_same_entry_again_is_not(
    store: ArchiveStore,
) -> None:
    write_archive(store)
    manifest, other = read_manifest(store), read_manifest(store)
    fields = {
        "number": 4,
        "previous": manifest.digest,
        "installation": "i",
        "prefix": "t.",
        "app_id": "app",
        "segments": (),
    }
    mine, theirs = (ManifestEntry.model_validate({**fields, "at_ms": at}) for at in (5, 6))
    write_entry(store, manifest, mine)
    with pytest.raises(ArchiveRefused, match="another archiver wrote entry 4"):
        write_entry(store, other, theirs)
    write_entry(store, other, mine)  # as an archiver does whose answer was lost
    assert read_manifest(store).findings == []


@pytest.mark.parametrize("at", [0, 100, -1])
def test_a_flipped_byte_is_named(folder: FolderStore, at: int) -> None:
    write_archive(folder)
    path = list_files(Path(folder.url))[0]
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert find_findings(folder) == [("segment_altered", str(path.relative_to(folder.url)))]


def test_a_removed_segment_is_named(folder: FolderStore) -> None:
    write_archive(folder)
    path = list_files(Path(folder.url))[1]
    path.unlink()
    assert find_findings(folder) == [("segment_missing", str(path.relative_to(folder.url)))]


def test_two_swapped_segments_are_both_named(folder: FolderStore) -> None:
    write_archive(folder)
    one, two = list_files(Path(folder.url))[:2]
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    names = [str(path.relative_to(folder.url)) for path in (one, two)]
    assert find_findings(folder) == [("segment_altered", name) for name in names]


def test_a_dropped_entry_is_named_with_the_offsets_that_it_held(folder: FolderStore) -> None:
    write_archive(folder)
    (Path(folder.url) / "manifest/000000000002.json").unlink()
    assert find_findings(folder) == [
        ("entry_missing", "manifest/000000000002.json"),
        ("offsets_missing", f"{TOPIC}:0"),
    ]


def test_a_manifest_that_was_cut_off_is_named_by_its_head_and_by_what_was_noted(folder: FolderStore) -> None:
    write_archive(folder)
    end = read_manifest(folder)
    root = Path(folder.url)
    (root / "manifest/000000000003.json").unlink()
    assert find_findings(folder) == [("manifest_truncated", "head.json")]
    shorter = (root / "manifest/000000000002.json").read_bytes()
    folder.put("head.json", orjson.dumps({"number": 2, "sha256": sha256(shorter).hexdigest()}))
    assert find_findings(folder) == []
    (noted,) = Archive(folder, ArchiveTrust(noted=(end.number, end.digest))).check()
    assert (noted.code, noted.message) == (
        "manifest_truncated",
        "what was noted names entry 3, the manifest ends at 2",
    )


def test_a_rewritten_entry_is_named(folder: FolderStore) -> None:
    write_archive(folder)
    path = Path(folder.url) / "manifest/000000000002.json"
    path.write_bytes(path.read_bytes().replace(b'"at_ms":1', b'"at_ms":2'))
    assert find_findings(folder) == [("entry_altered", "manifest/000000000003.json")]


def test_swapped_entries_are_named(folder: FolderStore) -> None:
    write_archive(folder)
    one, two = (Path(folder.url) / f"manifest/{number:012d}.json" for number in (1, 2))
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    codes = [code for code, _ in find_findings(folder)]
    assert codes.count("entry_altered") >= 2


def test_a_whole_manifest_that_was_written_anew_is_found_with_a_noted_entry(
    folder: FolderStore, tmp_path: Path
) -> None:
    write_archive(folder)
    other = FolderStore(tmp_path / "other")
    add_entry(other, build_segment(make_records(0, [0]), 0, 1))
    noted = ArchiveTrust(noted=(1, Archive(folder).manifest.digest))
    codes = [one.code for one in Archive(other, noted).check()]
    assert codes == ["entry_altered"]


def test_what_an_archiver_left_before_it_was_killed_counts_for_nothing(folder: FolderStore) -> None:
    written = write_archive(folder)
    segment, data = build_segment(make_records(0, [10, 11]), 10, 12)
    folder.put(segment.name, data)
    (Path(folder.url) / "manifest/.partial-x").write_bytes(b"{")
    archive = Archive(folder)
    assert list(archive.check()) == []
    assert sum(segment.count for part in archive.manifest.segments.values() for segment in part) == len(
        written
    )


def test_a_place_without_an_archive_is_refused(folder: FolderStore) -> None:
    with pytest.raises(ArchiveRefused, match="no archive lies there"):
        Archive(folder)
    with pytest.raises(StoreError, match="a folder or in s3://"):
        open_store("ftp://somewhere")


# What another may have put there.


def forge(folder: FolderStore, data: bytes, **more: object) -> None:
    """An entry that names these bytes as a segment, with the right hash."""
    segment, _ = build_segment(make_records(0, [0, 1]), 0, 2)
    fields = {"stored_bytes": len(data), "sha256": sha256(data).hexdigest()}
    forged = Segment.model_validate(segment.model_dump() | fields | more)
    add_entry(folder, (forged, data))


def read_all(folder: FolderStore) -> str:
    (found,) = Archive(folder).check()
    return f"{found.code}: {found.message}"


def test_a_decompression_bomb_ends_at_the_size_that_the_manifest_says(folder: FolderStore) -> None:
    forge(folder, gzip.compress(b"0" * 200_000_000), raw_bytes=1000)
    assert read_all(folder) == "segment_altered: it unpacks to more than the manifest says"


def test_one_endless_line_ends_at_the_longest_record(folder: FolderStore) -> None:
    forge(folder, gzip.compress(b"0" * 70_000_000), raw_bytes=2**32 - 1)
    assert read_all(folder) == "segment_altered: a line is longer than any record"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"[]", "not an object"),
        (b"{}", "KeyError"),
        (b'{"topic":1,"partition":0,"offset":0,"timestamp":0}', "wrong type"),
        (b'{"topic":"t","partition":true,"offset":0,"timestamp":0}', "wrong type"),
        (b"[" * 5000, "not a record"),
        (b'{"topic":"t","partition":0,"offset":0,"timestamp":0,"key":1,"value":null,"headers":[]}', "base64"),
        (
            b'{"topic":"t","partition":0,"offset":0,"timestamp":0,"key":null,"value":{},"headers":[]}',
            "no text",
        ),
        (
            b'{"topic":"t","partition":0,"offset":0,"timestamp":0,"key":null,"value":null,"headers":7}',
            "not a",
        ),
        (
            b'{"topic":"t","partition":0,"offset":0,"timestamp":0,"key":null,"value":null,"headers":[]}',
            "another",
        ),
        (b"\xff\xfe", "not a record"),
        (
            b'{"topic":"t","partition":0,"offset":0,"timestamp":0,"key":null,"value":"a","value":"b","headers":[]}',
            "not as an archiver writes it",
        ),
        (
            b'{"topic": "t","partition":0,"offset":0,"timestamp":0,"key":null,"value":null,"headers":[]}',
            "not as an archiver writes it",
        ),
    ],
)
def test_a_line_that_is_no_record_is_named(folder: FolderStore, line: bytes, told: str) -> None:
    raw = line + b"\n"
    forge(folder, gzip.compress(raw), raw_bytes=len(raw))
    assert told in read_all(folder)


def test_other_counts_orders_and_ends_than_the_manifest_says_are_named(folder: FolderStore) -> None:
    segment, data = build_segment(make_records(0, [0, 1, 3]), 0, 4)
    for more, told in (
        ({"count": 2}, "3 records up to offset 3"),
        ({"last": 9, "end": 10}, "3 records up to offset 3"),
        ({"last": 1, "count": 2}, "offset 3 is out of order"),
        ({"first": 1, "count": 3}, "offset 0 is out of order"),
        ({"raw_bytes": segment.raw_bytes + 1}, "does not end as the manifest says"),
        ({"topic": "other"}, "of another topic"),
        ({"partition": 7}, "of another topic or partition"),
    ):
        with pytest.raises(ArchiveDamaged, match=told):
            list(read_segment(Segment.model_validate(segment.model_dump() | more), data))


def test_a_file_that_is_cut_or_goes_on_is_named() -> None:
    segment, data = build_segment(make_records(0, range(50)), 0, 50)
    for changed in (data[:-9], data + b"more", data + data):
        again = {"stored_bytes": len(changed), "sha256": sha256(changed).hexdigest()}
        with pytest.raises(ArchiveDamaged):
            list(read_segment(Segment.model_validate(segment.model_dump() | again), changed))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("topic", ".."),
        ("topic", "../../etc"),
        ("topic", "a/b"),
        ("topic", "a\n"),
        ("topic", ""),
        ("sha256", "../../../../etc/passwd"),
        ("partition", -1),
        ("partition", "0/../.."),
        ("count", 2**62),
        ("count", 1.5),
        ("last", 10**30),
        ("raw_bytes", 2**60),
        ("stored_bytes", 2**60),
        ("stored_bytes", True),
        ("end", 0),
        ("head", {"sequence": 1, "event_hash": "x" * 1000}),
        ("more", 1),
    ],
)
def test_an_entry_with_tricks_in_it_is_unreadable_and_reads_nothing(
    folder: FolderStore, field: str, value: object
) -> None:
    write_archive(folder)
    path = Path(folder.url) / "manifest/000000000003.json"
    entry = orjson.loads(path.read_bytes())
    entry["segments"][0][field] = value if value != 10**30 else 2**63
    path.write_bytes(orjson.dumps(entry))
    (Path(folder.url) / "head.json").unlink()
    assert find_findings(folder) == [("entry_unreadable", "manifest/000000000003.json")]


@pytest.mark.parametrize("raw", [b"", b"null", b"[]", b"{" * 9_000, b"\xff", b"[" * 9_000_000])
def test_an_entry_that_is_no_entry_is_unreadable(folder: FolderStore, raw: bytes) -> None:
    write_archive(folder)
    (Path(folder.url) / "manifest/000000000003.json").write_bytes(raw)
    (Path(folder.url) / "head.json").write_bytes(raw)
    found = find_findings(folder)
    assert ("entry_unreadable", "manifest/000000000003.json") in found
    assert ("entry_unreadable", "head.json") in found


def test_links_and_pipes_in_the_place_of_a_segment_are_not_read(folder: FolderStore, tmp_path: Path) -> None:
    write_archive(folder)
    path = list_files(Path(folder.url))[0]
    secret = tmp_path / "secret"
    secret.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(StoreError):
        list(Archive(folder).check())
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(StoreError, match="not a regular file"):
        list(Archive(folder).check())


def test_a_folder_that_is_a_link_is_neither_read_nor_written(folder: FolderStore, tmp_path: Path) -> None:
    write_archive(folder)
    inside, outside = list_files(Path(folder.url))[0].parent, tmp_path / "outside"
    inside.rename(outside)
    inside.symlink_to(outside)
    before = sorted(outside.iterdir())
    with pytest.raises(StoreError):
        list(Archive(folder).check())
    name = f"{inside.relative_to(folder.url)}/new"
    for write in (folder.put, folder.create):
        with pytest.raises(StoreError):
            write(name, b"x")
    assert sorted(outside.iterdir()) == before


def test_an_archive_of_two_installations_is_named(folder: FolderStore) -> None:
    write_archive(folder)
    add_entry(folder, build_segment(make_records(2, [0]), 0, 1), installation="another")
    assert find_findings(folder) == [("entry_altered", "manifest/000000000004.json")]
