"""The manifest of an archive: numbered entries that only grow, each bound to the one before by its SHA-256.

An entry is a JSON object at `manifest/NUMBER.json` (from 1, twelve digits). `previous` is the SHA-256 of the
file before, as it lies; `GENESIS` in the first. An entry names the segments that were added together, and is
written after them, as a new object: what an archiver put before it was killed is named by no entry and counts
for nothing, and of two archivers that write the same number one is refused. `head.json` names the last entry;
it is written after it, and may be one behind.

Entries are all that a reader believes: where the archive goes on is what the last segment of each partition
says. They are read with bounds, since another may have written them.

An archiver with a key signs its entries. Who has the public key believes a signed entry, and all before it,
which it names by their SHA-256; an unsigned one behind it is a stranger's.
"""

from __future__ import annotations

import base64
import binascii
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sluice.adapters.archive.archive_store import ObjectMissing, ObjectTooLarge
from sluice.adapters.archive.segment import Offset, Segment  # noqa: TC001 - pydantic reads the annotations
from sluice.core.trust.dsse import pae

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sluice.adapters.archive.archive_store import ArchiveStore
    from sluice.core.registry.keys import PublicKey, SigningKey

GENESIS = "GENESIS"
PAYLOAD_TYPE = "application/vnd.sluice.archive-entry+json"
"""Part of what is signed, as of a DSSE envelope."""
MOST_ENTRY_BYTES = 8 * 1024 * 1024
MOST_SEGMENTS_OF_ENTRY = 8192
_MOST_HEAD_BYTES = 4096
_HEAD = "head.json"
_FOLDER = "manifest"
_NAME = re.compile(r"(\d{12})\.json")
_SHORT = 300
_READ_AT_ONCE = 16
_Number = Annotated[str, Field(pattern=r"^[0-9]{1,7}$")]

Part = tuple[str, int]
"""Real topic and partition."""
FindingCode = Literal[
    "entry_missing",
    "entry_altered",
    "entry_unreadable",
    "entry_unsigned",
    "entry_forged",
    "manifest_unsigned",
    "manifest_truncated",
    "offsets_missing",
    "offsets_twice",
    "segment_missing",
    "segment_altered",
]


@dataclass(frozen=True, slots=True)
class ArchiveFinding:
    """Something that is wrong with an archive. `where`: the object's name, or a topic and partition."""

    code: FindingCode
    where: str
    message: str


class ArchiveRefused(Exception):
    """The archive cannot be used for what was asked; the message says why."""


class ManifestEntry(BaseModel):
    """An entry. `installation`, `prefix` and `app_id` are the settings of the archived installation. `at_ms`:
    the archiver's clock. `decided`: by real input topic and partition the offset below which the workers'
    group had decided everything, and all those decisions are in the archive up to this entry; null in an
    entry that does not say it. `signature`: base64, of the entry's bytes as they are without this field; an
    unsigned entry does not have the field."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    format: Literal["sluice/archive/v1"] = "sluice/archive/v1"
    number: Annotated[int, Field(ge=1, le=999_999_999_999)]
    previous: Annotated[str, Field(pattern=r"^(GENESIS|[0-9a-f]{64})$")]
    installation: Annotated[str, Field(max_length=256)]
    prefix: Annotated[str, Field(max_length=100)]
    app_id: Annotated[str, Field(max_length=100)]
    at_ms: Offset
    segments: Annotated[tuple[Segment, ...], Field(max_length=MOST_SEGMENTS_OF_ENTRY)]
    decided: dict[str, dict[_Number, Offset]] | None = None
    signature: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{86}==$")] | None = None

    @property
    def installation_of(self) -> tuple[str, str, str]:
        """What all entries of an archive have the same."""
        return self.installation, self.prefix, self.app_id

    def encode(self) -> bytes:
        """The object's bytes."""
        return orjson.dumps(
            self.model_dump(mode="json", exclude={"signature"} if self.signature is None else None)
        )

    def sign(self, key: SigningKey) -> ManifestEntry:
        """The entry with a signature of this key."""
        signature = base64.b64encode(key.sign(self._encode_signed())).decode()
        return self.model_copy(update={"signature": signature})

    def is_signed_by(self, key: PublicKey, raw: bytes) -> bool:
        """Whether the key signed it. `raw`: the object's bytes, which must be as an archiver writes them."""
        try:
            signature = base64.b64decode(self.signature or "", validate=True)
        except binascii.Error:
            return False
        is_canonical = raw == self.encode() and base64.b64encode(signature).decode() == self.signature
        return is_canonical and key.verifies(signature, self._encode_signed())

    def _encode_signed(self) -> bytes:
        return pae(PAYLOAD_TYPE, orjson.dumps(self.model_dump(mode="json", exclude={"signature"})))


@dataclass
class Manifest:
    """What the entries say together. `number` and `digest`: of the last entry, 0 and GENESIS where there is
    none; `segments`: by part in the order of their offsets, of which it keeps the last alone if `ends_only`;
    `findings`: what is wrong with the manifest itself; `keys`: who may have signed, none: signatures are not
    checked; `signed`, `unsigned`: how many entries are and are not. It takes about 1.5 KB for a segment that
    it keeps."""

    number: int = 0
    digest: str = GENESIS
    installation_of: tuple[str, str, str] | None = None
    segments: dict[Part, list[Segment]] = field(default_factory=dict)
    decided: dict[Part, int] = field(default_factory=dict)
    at_ms: int = 0
    findings: list[ArchiveFinding] = field(default_factory=list)
    ends_only: bool = False
    keys: tuple[PublicKey, ...] = ()
    signed: int = 0
    unsigned: int = 0

    def find_end(self, part: Part) -> int | None:
        """The offset at which the archive of a partition goes on; None where it has none of it."""
        segments = self.segments.get(part)
        return segments[-1].end if segments else None

    def take(self, entry: ManifestEntry, raw: bytes) -> None:
        """Add the next entry."""
        self.number, self.digest = entry.number, sha256(raw).hexdigest()
        self.installation_of = entry.installation_of
        self.at_ms = entry.at_ms
        if entry.signature is None:
            self.unsigned += 1
        else:
            self.signed += 1
        for segment in entry.segments:
            self._take_segment(segment)
        for topic, offsets in (entry.decided or {}).items():
            self.decided |= {(topic, int(number)): offset for number, offset in offsets.items()}

    def report(self, code: FindingCode, where: str, message: str) -> None:
        """Add a finding."""
        self.findings.append(ArchiveFinding(code, where, message[:_SHORT]))

    def _take_segment(self, segment: Segment) -> None:
        part = segment.topic, segment.partition
        end = self.find_end(part)
        where = f"{segment.topic}:{segment.partition}"
        if end is not None and segment.begin < end:
            message = (
                f"offsets {segment.begin} to {end - 1} are archived twice; the later file is passed over"
            )
            self.report("offsets_twice", where, message)
            return
        if end is not None and segment.begin > end:
            message = f"offsets {end} to {segment.begin - 1} are in no segment"
            self.report("offsets_missing", where, message)
        if self.ends_only:
            self.segments[part] = [segment]
        else:
            self.segments.setdefault(part, []).append(segment)


@dataclass(frozen=True, slots=True)
class ArchiveTrust:
    """What is known of an archive from elsewhere than its store. `keys`: who may have signed its entries;
    none: signatures are not checked. `noted`: number and SHA-256 of an entry, through which the chain must
    pass."""

    keys: tuple[PublicKey, ...] = ()
    noted: tuple[int, str] | None = None


NO_TRUST = ArchiveTrust()


def read_manifest(
    store: ArchiveStore, trust: ArchiveTrust = NO_TRUST, *, ends_only: bool = False
) -> Manifest:
    """Everything that the entries say, and what is wrong with them. `ends_only`: keep the last segment of
    each partition alone, for who adds to the archive. Raises StoreError."""
    expected = trust.noted
    manifest = Manifest(ends_only=ends_only, keys=trust.keys)
    named = [*_read_head(store, manifest), *_list_expected(expected)]
    numbers = sorted(int(match[1]) for name in store.list_names(_FOLDER) if (match := _NAME.fullmatch(name)))
    sought = {number for number, _, _ in named}
    digests: dict[int, str] = {}
    before = 0, GENESIS
    for number, raw in _read_entries(store, numbers):
        digest = sha256(raw).hexdigest()
        _take_next(manifest, number, raw, before)
        if expected is not None and number == expected[0] and digest != expected[1]:
            manifest.report(
                "entry_altered", name_entry(number), f"its SHA-256 is not {expected[1]}, as noted"
            )
        if number in sought:
            digests[number] = digest
        before = number, digest
    last = before[0]
    for number, digest, description in named:
        if number > last:
            message = f"{description} names entry {number}, the manifest ends at {last}"
            manifest.report("manifest_truncated", _HEAD, message)
        elif digests.get(number, digest) != digest and description == _HEAD:
            manifest.report("entry_altered", name_entry(number), f"its SHA-256 is not that in {_HEAD}")
    if trust.keys and manifest.number and not manifest.signed:
        manifest.report("manifest_unsigned", _FOLDER, "none of its entries is signed by a key that counts")
    return manifest


def write_entry(store: ArchiveStore, manifest: Manifest, entry: ManifestEntry) -> None:
    """Add an entry to the store and to the manifest. Its segments lie in the store already. Raises
    StoreError, and ArchiveRefused where another archiver wrote one of that number."""
    raw, name = entry.encode(), name_entry(entry.number)
    if not store.create(name, raw) and _read_whole(store, name) != raw:
        raise ArchiveRefused(
            f"{store.url}: another archiver wrote entry {entry.number}; one at a time follows an installation"
        )
    manifest.take(entry, raw)
    store.put(_HEAD, orjson.dumps({"number": entry.number, "sha256": manifest.digest}))


def name_entry(number: int) -> str:
    """Where an entry lies in the archive."""
    return f"{_FOLDER}/{number:012d}.json"


def _read_whole(store: ArchiveStore, name: str) -> bytes | None:
    try:
        return store.read(name, MOST_ENTRY_BYTES)
    except (ObjectMissing, ObjectTooLarge):
        return None


def _read_entries(store: ArchiveStore, numbers: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """The bytes of each entry, empty for one that cannot be an entry; some are read at once."""
    with ThreadPoolExecutor(_READ_AT_ONCE) as readers:
        for at in range(0, len(numbers), _READ_AT_ONCE):
            some = numbers[at : at + _READ_AT_ONCE]
            names = [name_entry(number) for number in some]
            read = readers.map(lambda name: _read_whole(store, name) or b"", names)
            yield from zip(some, read, strict=True)


def _take_next(manifest: Manifest, number: int, raw: bytes, last: tuple[int, str]) -> None:
    """Take the entry of a number, if it can be read; what is wrong with it or before it becomes a finding.
    `last`: number and SHA-256 of the entry that was read before."""
    name = name_entry(number)
    before, digest = last
    if number != before + 1:
        absent = name_entry(before + 1)
        manifest.report("entry_missing", absent, f"the manifest goes from entry {before} to {number}")
    try:
        entry = ManifestEntry.model_validate_json(raw)
    except ValidationError as error:
        manifest.report("entry_unreadable", name, " ".join(str(error).split()))
        return
    if entry.number != number:
        manifest.report("entry_altered", name, f"it says that it is entry {entry.number}")
        return
    if number == before + 1 and entry.previous != digest:
        message = f"it does not follow from entry {before} as that lies here: one of the two was replaced"
        manifest.report("entry_altered", name, message)
    if manifest.installation_of not in (None, entry.installation_of):
        manifest.report("entry_altered", name, f"it is of another installation: {entry.installation_of}")
        return
    if manifest.keys and not _is_trusted(manifest, entry, raw):
        return
    manifest.take(entry, raw)


def _is_trusted(manifest: Manifest, entry: ManifestEntry, raw: bytes) -> bool:
    """Whether an entry is signed as it must be; what is wrong becomes a finding. Unsigned ones before the
    first signed entry are named by that one."""
    name = name_entry(entry.number)
    if entry.signature is None:
        if manifest.signed:
            manifest.report("entry_unsigned", name, "it is not signed, and an entry before it is")
        return not manifest.signed
    if any(entry.is_signed_by(key, raw) for key in manifest.keys):
        return True
    manifest.report("entry_forged", name, "its signature is of no key that counts, or of another content")
    return False


def _read_head(store: ArchiveStore, manifest: Manifest) -> list[tuple[int, str, str]]:
    try:
        fields = orjson.loads(store.read(_HEAD, _MOST_HEAD_BYTES))
        number, digest = int(fields["number"]), str(fields["sha256"])
    except ObjectMissing:
        return []
    except (ObjectTooLarge, ValueError, TypeError, KeyError) as error:
        manifest.report("entry_unreadable", _HEAD, repr(error))
        return []
    return [(number, digest, _HEAD)]


def _list_expected(expected: tuple[int, str] | None) -> list[tuple[int, str, str]]:
    return [] if expected is None else [(*expected, "what was noted")]
