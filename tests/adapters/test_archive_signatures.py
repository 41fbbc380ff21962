"""Who owns an archive's store and not the key of its archiver changes nothing unseen. An end that is cut off
is found where something outside the store remembers it."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sluice.adapters.archive.archive_store import FolderStore
from sluice.adapters.archive.archived_records import Archive
from sluice.adapters.archive.archiver import ArchivedInstallation, ArchiveLimits, Archiver, ArchiverProofs
from sluice.adapters.archive.manifest import (
    ArchiveRefused,
    ArchiveTrust,
    ManifestEntry,
    name_entry,
    read_manifest,
)
from sluice.adapters.archive.segment import ArchiveDamaged
from sluice.adapters.kafka.kafka_read import KafkaUnreachable
from sluice.core.registry.keys import SigningKey
from tests.adapters.archives import TOPIC, add_entry, build_segment, make_records, write_archive

if TYPE_CHECKING:
    from collections.abc import Callable

KEY, STRANGERS = (SigningKey(Ed25519PrivateKey.generate()) for _ in range(2))
TRUST = ArchiveTrust(keys=(KEY.public,))


@pytest.fixture
def signed(tmp_path: Path) -> FolderStore:
    """An archive whose three entries are signed."""
    store = FolderStore(tmp_path / "archive")
    write_archive(store, KEY)
    return store


def path_of(store: FolderStore, number: int) -> Path:
    return Path(store.url) / name_entry(number)


def read_entry(store: FolderStore, number: int) -> ManifestEntry:
    return ManifestEntry.model_validate_json(path_of(store, number).read_bytes())


def rewrite_from(store: FolderStore, entries: list[ManifestEntry], key: SigningKey | None) -> None:
    """Put entries in the place of the last ones, chained and with a head as an archiver writes them."""
    first = entries[0].number
    before = path_of(store, first - 1).read_bytes() if first > 1 else None
    for entry in entries:
        previous = "GENESIS" if before is None else sha256(before).hexdigest()
        chained = entry.model_copy(update={"previous": previous})
        before = (chained if key is None else chained.sign(key)).encode()
        path_of(store, entry.number).write_bytes(before)
    head = {"number": entries[-1].number, "sha256": sha256(before or b"").hexdigest()}
    store.put("head.json", orjson.dumps(head))


def find_codes(store: FolderStore, trust: ArchiveTrust = TRUST) -> set[str]:
    return {one.code for one in Archive(store, trust).check()}


def test_a_signed_archive_is_whole_for_who_has_the_key_and_for_who_has_none(signed: FolderStore) -> None:
    assert find_codes(signed) == find_codes(signed, ArchiveTrust()) == set()
    manifest = read_manifest(signed, TRUST)
    assert (manifest.signed, manifest.unsigned) == (3, 0)
    both = ArchiveTrust(keys=(STRANGERS.public, KEY.public))
    assert find_codes(signed, both) == set()
    assert find_codes(signed, ArchiveTrust(keys=(STRANGERS.public,))) == {"entry_forged"}


def test_an_unsigned_archive_is_as_it_was_and_counts_for_nothing_where_a_key_is_named(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "archive")
    write_archive(store)
    assert b"signature" not in path_of(store, 1).read_bytes()
    assert find_codes(store, ArchiveTrust()) == set()
    assert find_codes(store) == {"manifest_unsigned"}


def add_claim(store: FolderStore, key: SigningKey | None) -> None:
    """Offsets are claimed that are archived nowhere yet."""
    segment, data = build_segment(make_records(0, [10]), 10, 1000)
    store.put(segment.name, data)
    last = read_entry(store, 3)
    rewrite_from(store, [last.model_copy(update={"number": 4, "segments": (segment,)})], key)


def change_segment(store: FolderStore, key: SigningKey | None) -> None:
    """A segment is replaced, and its digest in the entry; what follows is chained anew."""
    segment, data = build_segment(make_records(0, [6]), 5, 9)
    store.put(segment.name, data)
    second = read_entry(store, 2).model_copy(update={"segments": (segment,)})
    rewrite_from(store, [second, read_entry(store, 3)], key)


def swap_entries(store: FolderStore, key: SigningKey | None) -> None:
    second, third = read_entry(store, 2), read_entry(store, 3)
    swapped = [third.model_copy(update={"number": 2}), second.model_copy(update={"number": 3})]
    rewrite_from(store, swapped, key)


def drop_entry(store: FolderStore, key: SigningKey | None) -> None:
    """The second entry is gone, and the third takes its place."""
    third = read_entry(store, 3).model_copy(update={"number": 2})
    path_of(store, 3).unlink()
    rewrite_from(store, [third], key)


def write_anew(store: FolderStore, key: SigningKey | None) -> None:
    entries = [read_entry(store, number) for number in (1, 2, 3)]
    rewrite_from(store, [one.model_copy(update={"at_ms": 7}) for one in entries], key)


def strip_signatures(store: FolderStore, key: SigningKey | None) -> None:
    """The last two entries as an archiver without a key writes them."""
    entries = [read_entry(store, number).model_copy(update={"signature": None}) for number in (2, 3)]
    rewrite_from(store, entries, key)


def respell_last(store: FolderStore, key: SigningKey | None) -> None:
    """Other bytes that say the same; no key is needed."""
    del key
    spelled = path_of(store, 3).read_bytes().replace(b'"at_ms":1', b'"at_ms": 1')
    path_of(store, 3).write_bytes(spelled)
    store.put("head.json", orjson.dumps({"number": 3, "sha256": sha256(spelled).hexdigest()}))


ATTACKS = [
    add_claim,
    change_segment,
    swap_entries,
    drop_entry,
    write_anew,
    strip_signatures,
    respell_last,
]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("key", [None, STRANGERS], ids=["unsigned", "other_key"])
def test_who_owns_the_store_and_not_the_key_is_found_by_reader_and_archiver(
    signed: FolderStore, attack: Callable[[FolderStore, SigningKey | None], None], key: SigningKey | None
) -> None:
    attack(signed, key)
    assert find_codes(signed, ArchiveTrust()) <= {"entry_unsigned", "offsets_missing", "offsets_twice"}
    assert find_codes(signed) & {"entry_forged", "entry_unsigned", "manifest_unsigned"}
    with pytest.raises(ArchiveDamaged):
        Archive(signed, TRUST).require_whole_manifest()
    with pytest.raises(ArchiveRefused):
        start(signed)


def test_what_a_stranger_claims_is_not_believed(signed: FolderStore) -> None:
    add_claim(signed, STRANGERS)
    assert read_manifest(signed).find_end((TOPIC, 0)) == 1000
    assert read_manifest(signed, TRUST).find_end((TOPIC, 0)) == 10


def test_a_cut_end_is_found_where_it_was_noted_and_nowhere_else(signed: FolderStore) -> None:
    end = read_manifest(signed)
    path_of(signed, 3).unlink()
    second = path_of(signed, 2).read_bytes()
    signed.put("head.json", orjson.dumps({"number": 2, "sha256": sha256(second).hexdigest()}))
    assert find_codes(signed) == set()
    noted = ArchiveTrust(TRUST.keys, (end.number, end.digest))
    assert find_codes(signed, noted) == {"manifest_truncated"}
    with pytest.raises(ArchiveRefused, match="what was noted names entry 3"):
        start(signed, trust=noted)


def test_the_first_signed_entry_vouches_for_the_unsigned_ones_that_it_names(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "archive")
    write_archive(store)
    add_entry(store, build_segment(make_records(0, [10]), 10, 11), key=KEY)
    assert find_codes(store) == set()
    manifest = read_manifest(store, TRUST)
    assert (manifest.signed, manifest.unsigned) == (1, 3)
    entries = [read_entry(store, number).model_copy(update={"at_ms": 7}) for number in (2, 3)]
    rewrite_from(store, entries, None)
    assert "entry_altered" in find_codes(store)
    add_entry(store, build_segment(make_records(0, [11]), 11, 12))
    assert "entry_unsigned" in find_codes(store)


def start(store: FolderStore, *, trust: ArchiveTrust = TRUST, key: SigningKey | None = KEY) -> None:
    """Start an archiver that can reach no broker: it asks the store first."""
    of = ArchivedInstallation("i", "t.", "app", {})
    limits, proofs = ArchiveLimits(store_wait_s=0), ArchiverProofs(trust, key)
    asyncio.run(Archiver("127.0.0.1:1", of, store, limits, proofs=proofs).run())


def test_an_archiver_with_a_key_goes_on_behind_an_unsigned_end_only_where_it_is_noted(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "archive")
    write_archive(store)
    end = read_manifest(store)
    with pytest.raises(ArchiveRefused, match=f"pass --noted 3:{end.digest} once"):
        start(store)
    with pytest.raises(KafkaUnreachable):
        start(store, trust=ArchiveTrust(TRUST.keys, (3, end.digest)))


def test_an_archiver_without_a_key_adds_nothing_to_a_signed_archive(signed: FolderStore) -> None:
    with pytest.raises(ArchiveRefused, match=r"set archive\.signing_key"):
        start(signed, trust=ArchiveTrust(), key=None)
