"""Small archives for tests: records of two partitions, written as an archiver writes them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from moto.server import ThreadedMotoServer
from s3fs import S3FileSystem

from sluice.adapters.archive.manifest import ManifestEntry, read_manifest, write_entry
from sluice.adapters.archive.segment import SegmentBuilder
from sluice.adapters.kafka.kafka_read import StoredRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluice.adapters.archive.archive_store import ArchiveStore
    from sluice.adapters.archive.segment import Segment
    from sluice.core.registry.keys import SigningKey

TOPIC = "t.gate.verdicts"


@contextmanager
def open_bucket(name: str) -> Iterator[str]:
    """A bucket of a real S3-compatible server on loopback; the server's address. Within the block the
    environment has keys for it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    try:
        with pytest.MonkeyPatch.context() as patch:
            for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                patch.setenv(variable, "of-a-test")
            patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
            S3FileSystem(endpoint_url=url).mkdir(name)
            yield url
    finally:
        server.stop()


def make_records(partition: int, offsets: Iterable[int], topic: str = TOPIC) -> list[StoredRecord]:
    """Records with text, bytes, nothing and every kind of header among them."""
    values = [b'{"a": "\xc3\xa9\\u0000"}', b"\xff\x00", None, b""]
    headers: tuple[tuple[str, bytes], ...] = (("h", b"text"), ("h", b"\xfe"), ("n", None))  # type: ignore[assignment]
    return [
        StoredRecord(
            topic,
            partition,
            offset,
            1000 + offset,
            b"k\xff" if offset % 2 else None,
            values[offset % 4],
            headers,
        )
        for offset in offsets
    ]


def build_segment(records: list[StoredRecord], begin: int, end: int) -> tuple[Segment, bytes]:
    """A segment of these records."""
    builder = SegmentBuilder(records[0].topic, records[0].partition, begin, has_head=False)
    for record in records:
        builder.add(record)
    return builder.close(end)


def add_entry(
    store: ArchiveStore, *segments: tuple[Segment, bytes], key: SigningKey | None = None, **more: object
) -> ManifestEntry:
    """Write segments, and the entry that follows in the store, signed where there is a key."""
    manifest = read_manifest(store)
    for segment, data in segments:
        store.put(segment.name, data)
    fields = {
        "number": manifest.number + 1,
        "previous": manifest.digest,
        "installation": "i",
        "prefix": "t.",
        "app_id": "app",
        "at_ms": 1,
        "segments": tuple(segment for segment, _ in segments),
    }
    entry = ManifestEntry.model_validate(fields | more)
    if key is not None:
        entry = entry.sign(key)
    write_entry(store, manifest, entry)
    return entry


def write_archive(store: ArchiveStore, key: SigningKey | None = None) -> list[StoredRecord]:
    """Three entries over two partitions, with gaps between offsets, signed where there is a key; all its
    records."""
    first, second = make_records(0, [0, 1, 2, 4]), make_records(0, [6, 7])
    third, fourth = make_records(1, [3, 5]), make_records(0, [9])
    add_entry(store, build_segment(first, 0, 5), build_segment(third, 0, 7), key=key)
    add_entry(store, build_segment(second, 5, 9), key=key)
    add_entry(store, build_segment(fourth, 9, 10), key=key)
    return [*first, *second, *fourth, *third]
