"""Whether the ledger is what signed tree heads state. Written from the published description
(docs/tree-heads.md).

Heads are read first, then the ledger. Of each partition it keeps what heads state of it, 48 bytes for each
length, and at most 64 hashes of its tree. Signatures need the package `cryptography`, and a key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from array import array
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .export import Located, read_lines
from .ledger_findings import HeadsSeen, LedgerFinding
from .ledger_record import NotStrict, canonicalize, read_object
from .proof_check import UnusableKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from .ledger_findings import Code

TREE_HEADS = "gate.tree_heads"
PAYLOAD_TYPE = "application/vnd.sluice.tree-head+json"
GENESIS = "GENESIS"
HASH = re.compile(r"sha256:[0-9a-f]{64}")
_HASH_BYTES = 32
_LARGEST = 2**53 - 1


def is_head(located: Located) -> bool:
    """Whether it lies on the heads' topic."""
    return located.topic.endswith(TREE_HEADS)


@dataclass(frozen=True, slots=True)
class HeadSigners:
    """The keys whose heads count: base64 of 32 bytes, with `@` and a time for one that was replaced then.
    `installation`: for which they must have signed; None: any."""

    keys: Sequence[str]
    installation: str | None = None


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Witnesses' keys, written as those of HeadSigners, and how many of them must have co-signed a head."""

    keys: Sequence[str]
    enough: int


@dataclass(frozen=True, slots=True)
class StatedPartition:
    """What one head states of one partition."""

    partition: int
    size: int
    root: bytes
    leaf: bytes


@dataclass(frozen=True, slots=True)
class StatedHead:
    """A head; `digest` is the SHA-256 of its payload, `root` that over the partitions."""

    number: int
    previous: str
    digest: str
    signed_at: str
    installation: str
    prefix: str
    size: int
    root: str
    partitions: tuple[StatedPartition, ...]


@dataclass
class _Lengths:
    """What heads state of one partition, by rising length."""

    sizes: array[int] = field(default_factory=lambda: array("Q"))
    numbers: array[int] = field(default_factory=lambda: array("Q"))
    roots: bytearray = field(default_factory=bytearray)

    def add(self, size: int, root: bytes, number: int) -> None:
        if not self.sizes or self.sizes[-1] != size or self.roots[-_HASH_BYTES:] != root:
            self.sizes.append(size)
            self.numbers.append(number)
            self.roots += root

    def list_rising(self) -> Iterator[tuple[int, bytes, int]]:
        for at in sorted(range(len(self.sizes)), key=self.sizes.__getitem__):
            root = bytes(self.roots[at * _HASH_BYTES : (at + 1) * _HASH_BYTES])
            yield self.sizes[at], root, self.numbers[at]


class HeadsUnreadable(Exception):
    """A file of heads cannot be read."""


class HeadCheck:
    """Feed it with `add`, each source of heads in its order, the topic first. Then each chain takes its
    `StatedTree`."""

    def __init__(
        self,
        signers: HeadSigners | None = None,
        firm_until_ms: int | None = None,
        witnesses: Witnesses | None = None,
    ) -> None:
        """`signers` None: signatures are not checked. `firm_until_ms`: no chain need be as long as heads say
        that the broker took later; for an archive, whose topics end at different moments. `witnesses`: of
        which enough must have co-signed one head.

        Raises UnusableKey, and ImportError without the package `cryptography`.
        """
        self._witnesses = witnesses
        signing = set() if signers is None else {key.partition("@")[0] for key in signers.keys}
        for key in () if witnesses is None else witnesses.keys:
            if key.partition("@")[0] in signing:
                raise UnusableKey(f"{key!r} is a head signer's key: a witness has one of its own")
        self._rings = [] if witnesses is None else [KeyRing([key]) for key in dict.fromkeys(witnesses.keys)]
        self._cosigners: dict[int, set[int]] = {}
        self._keys = None if signers is None else KeyRing(signers.keys)
        self._installation = None if signers is None else signers.installation
        self._firm_until_ms = firm_until_ms
        self._firm: dict[int, tuple[int, int]] = {}
        self._lengths: dict[int, _Lengths] = {}
        self._digests: dict[int, str] = {}
        self._before: StatedHead | None = None
        self._topic_last: int | None = None
        self._largest: StatedHead | None = None
        self.newest_of_topic: StatedHead | None = None
        self.findings: list[LedgerFinding] = []

    def add(self, located: Located, *, is_copy: bool = False) -> None:
        """Take a head. Nothing is raised for what it holds: that becomes a finding. `is_copy`: from elsewhere
        than the topic."""
        head = self.read_alone(located)
        if head is None:
            return
        if not is_copy:
            self.newest_of_topic = head
        digest = self._digests.get(head.number)
        if digest is not None:
            if digest != head.digest:
                message = "it and another one with this number are signed: the signer signed two histories"
                self._report("head_forked", located, head.number, message)
            elif not is_copy:
                self._report("head_broken", located, head.number, "it is there twice")
            else:
                self._before = head
                return
        else:
            self._check_order(head, located, is_copy=is_copy)
        self._digests[head.number] = head.digest
        self._before = head
        is_firm = self._firm_until_ms is None or (located.timestamp_ms or 0) <= self._firm_until_ms
        self._state(head, is_firm=is_firm)

    def _state(self, head: StatedHead, *, is_firm: bool) -> None:
        if self._largest is None or head.number > self._largest.number:
            self._largest = head
        for part in head.partitions:
            self._lengths.setdefault(part.partition, _Lengths()).add(part.size, part.root, head.number)
            if is_firm and part.size > self._firm.get(part.partition, (0, 0))[0]:
                self._firm[part.partition] = part.size, head.number

    def read_alone(self, located: Located) -> StatedHead | None:
        """The head, if it can be read and its signature counts, whatever came before; else a finding."""
        try:
            payload, signatures = _open_envelope(located.value)
            head = _read_head(payload)
        except NotStrict as error:
            self._report("head_broken", located, 0, f"it is no tree head: {error}")
            return None
        objection = self._find_forgery(head, payload, signatures, located)
        if objection is not None:
            self._report("head_forged", located, head.number, objection)
        return head if objection is None else None

    def add_cosigned(self, located: Located) -> None:
        """Take a head that a witness co-signed, after all sources of heads."""
        head = self.read_alone(located)
        if head is None:
            return
        digest = self._digests.setdefault(head.number, head.digest)
        if digest != head.digest:
            message = "a witness co-signed another one with this number: the signer signed two histories"
            self._report("head_forked", located, head.number, message)
        if self._topic_last is not None and head.number > self._topic_last:
            message = f"the topic ends with head {self._topic_last}: later heads were cut off"
            self._report("head_missing", located, head.number, message)
        self._state(head, is_firm=True)
        if digest == head.digest:
            payload, signatures = _open_envelope(located.value)
            message_ = encode_for_signing(payload)
            signed = {
                at
                for at, ring in enumerate(self._rings)
                if ring.find_objection(message_, signatures, read_time(head.signed_at)) is None
            }
            self._cosigners.setdefault(head.number, set()).update(signed)

    def begin_copy(self) -> None:
        """The topic, or the copy before, was read to its end."""
        if self._topic_last is None:
            self._topic_last = 0 if self._before is None else self._before.number
        self._before = None

    def list_partitions(self) -> list[int]:
        """Of which heads state something."""
        return sorted(self._firm)

    def make_tree(self, partition: int) -> StatedTree:
        """What a partition's chain is held against."""
        stated = self._lengths.get(partition, _Lengths()).list_rising()
        return StatedTree(partition, stated, self._firm.get(partition, (0, 0)))

    def summarize(self, records: int) -> tuple[HeadsSeen | None, list[LedgerFinding]]:
        """What was there, None for no heads, and all findings about heads. `records`: of the ledger."""
        findings = list(self.findings)
        if self._keys is not None and not self._digests and records:
            message = "no head by a key that was given, though there are records"
            findings.append(LedgerFinding("head_missing", 0, None, TREE_HEADS, None, message))
        witnessed = self._find_witnessed()
        if self._witnesses is not None and witnessed is None and records:
            most = max(map(len, self._cosigners.values()), default=0)
            message = (
                f"no head is co-signed by {self._witnesses.enough} of the witnesses, but by {most} at most"
            )
            findings.append(LedgerFinding("unwitnessed", 0, None, TREE_HEADS, None, message))
        if self._largest is None:
            return None, findings
        last, count = self._largest, len(self._digests)
        return HeadsSeen(count, last.number, last.size, self._keys is not None, witnessed), findings

    def _find_witnessed(self) -> int | None:
        """The last head that enough witnesses co-signed."""
        if self._witnesses is None:
            return None
        enough = self._witnesses.enough
        return max((number for number, by in self._cosigners.items() if len(by) >= enough), default=None)

    def _find_forgery(
        self, head: StatedHead, payload: bytes, signatures: list[bytes], located: Located
    ) -> str | None:
        if self._installation is not None and head.installation != self._installation:
            return f"it is of another installation: {head.installation[:80]!r}"
        if self._keys is None:
            return None
        at_ms = max(read_time(head.signed_at), located.timestamp_ms or 0)
        return self._keys.find_objection(encode_for_signing(payload), signatures, at_ms)

    def _check_order(self, head: StatedHead, located: Located, *, is_copy: bool) -> None:
        if is_copy and self._topic_last is not None and head.number > self._topic_last:
            message = f"the topic ends with head {self._topic_last}: later heads were cut off"
            self._report("head_missing", located, head.number, message)
        before = self._before
        last, digest = (0, GENESIS) if before is None else (before.number, before.digest)
        if is_copy and before is None:
            last, digest = head.number - 1, head.previous
        if head.number != last + 1:
            self._report("head_broken", located, head.number, f"it follows on head {last}")
        elif head.previous != digest:
            self._report("head_broken", located, head.number, f"it names another head before it than {last}")
        if before is not None and head.signed_at < before.signed_at:
            self._report("head_broken", located, head.number, f"it was signed before head {last}")
        if self._find_shrunk(head):
            self._report("head_broken", located, head.number, f"it states less than head {last}")

    def _find_shrunk(self, head: StatedHead) -> bool:
        before = () if self._before is None else self._before.partitions
        return len(head.partitions) < len(before) or any(
            now.size < then.size for now, then in zip(head.partitions, before, strict=False)
        )

    def _report(self, code: Code, located: Located, number: int, message: str) -> None:
        coordinates = (located.partition, number, located.topic, located.offset)
        self.findings.append(LedgerFinding(code, *coordinates, f"head {number}: {message}"))


@dataclass(frozen=True, slots=True)
class HeadSources:
    """What a ledger is held against besides the heads that lie with it. `signers`: None: signatures are not
    checked; `copies`: files of heads that were kept elsewhere; `cosigned`: files of `witnesses`; `second`:
    the heads of a second cluster."""

    signers: HeadSigners | None = None
    copies: Sequence[Path] = ()
    witnesses: Witnesses | None = None
    cosigned: Sequence[Path] = ()
    second: Sequence[Located] = ()

    def read(self, stored: Iterable[Located], firm_until_ms: int | None = None) -> HeadCheck:
        """All heads, `stored` those of the topic. Raises HeadsUnreadable, and as HeadCheck."""
        heads = HeadCheck(self.signers, firm_until_ms, self.witnesses)
        for located in stored:
            heads.add(located)
        for copy in (self.second, *map(_read_file, self.copies)):
            heads.begin_copy()
            for located in copy:
                heads.add(located, is_copy=True)
        heads.begin_copy()
        for path in self.cosigned:
            for located in _read_file(path):
                heads.add_cosigned(located)
        return heads


NO_HEADS = HeadSources()


def find_witnesses(keys: Sequence[str], enough: int | None) -> Witnesses | None:
    """Of so many keys so many; None: all. None without a key. Raises UnusableKey where there are fewer keys
    than must have co-signed."""
    if not keys:
        if enough is not None:
            raise UnusableKey("witnesses must co-sign, and no key of a witness is given")
        return None
    if enough is not None and enough > len(set(keys)):
        raise UnusableKey(f"{enough} witnesses must co-sign; the keys that are given: {len(set(keys))}")
    return Witnesses(keys, enough or len(set(keys)))


def read_heads(export: Path, sources: HeadSources) -> HeadCheck:
    """All heads of an export's file and of other sources. Raises OSError, NotAnExport, and as HeadSources."""
    with export.open("rb") as lines:
        located = read_lines(line for line in lines if TREE_HEADS.encode() in line)
        return sources.read(each for each in located if is_head(each))


def read_cosigned(path: Path, signers: HeadSigners) -> Iterator[StatedHead]:
    """The heads of a witness's file. Raises HeadsUnreadable, for a line that is no head too."""
    heads = HeadCheck(signers)
    for located in _read_file(path):
        head = heads.read_alone(located)
        if head is None:
            raise HeadsUnreadable(f"{path}: line {located.offset + 1}: {heads.findings[-1].message}")
        yield head


def _read_file(path: Path) -> Iterator[Located]:
    """The envelopes of a file, one a line; a last line that a kill cut off is left out."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise HeadsUnreadable(f"{path}: {error.strerror}") from None
    for number, line in enumerate(lines):
        if line.endswith(b"\n"):
            yield Located(f"{path.name}/{TREE_HEADS}", 0, number, None, line.rstrip(b"\n"))


class StatedTree:
    """The Merkle tree of one partition's chain, compared at each length of which a head states the root."""

    def __init__(
        self, partition: int, stated: Iterable[tuple[int, bytes, int]], firm: tuple[int, int]
    ) -> None:
        """`stated`: size, root and head's number, by rising size; `firm`: how long the chain must be, and by
        which head."""
        self._firm = firm
        self._partition = partition
        self._stated = iter(stated)
        self._size = 0
        self._is_lost = False
        self._full: list[bytes] = []
        self._agreed = 0
        self._agreed_head = 0
        self._differs: LedgerFinding | None = None
        self._next = next(self._stated, None)
        self._compare()

    def append(self, sequence: int, event_hash: str, topic: str, offset: int) -> None:
        """Take the next record of the chain. Behind a gap, or a hash that is none, nothing is compared."""
        if self._next is None or self._differs is not None or self._is_lost:
            return
        if sequence != self._size + 1 or not HASH.fullmatch(event_hash):
            self._is_lost = True
            return
        _add_leaf(self._full, self._size, hash_bytes(b"\0" + bytes.fromhex(event_hash[7:])))
        self._size += 1
        self._compare(topic, offset)

    def close(self, last: int) -> LedgerFinding | None:
        """What is wrong; the chain ends with record `last` (0: it has none)."""
        size, number = self._firm
        if self._differs is not None or last >= size:
            return self._differs
        if not last:
            message = f"no record of the partition is there: head {number} signs {size}"
            return LedgerFinding("dropped", self._partition, None, "", None, message)
        message = f"the chain ends at record {last}: head {number} signs {size}, so the end was cut off"
        return LedgerFinding("truncated", self._partition, last, "", None, message)

    def _compare(self, topic: str = "", offset: int | None = None) -> None:
        while self._next is not None and self._next[0] == self._size:
            size, root, number = self._next
            if size and _join(self._full) != root:
                since = self._agreed + 1
                agreed = f"; head {self._agreed_head} agrees" if self._agreed_head else ""
                message = f"records {since} to {size} are not those that head {number} signs{agreed}"
                self._differs = LedgerFinding("rewritten", self._partition, size, topic, offset, message)
                return
            self._agreed, self._agreed_head = size, number
            self._next = next(self._stated, None)


class KeyRing:
    """Keys whose signatures count: base64 of 32 bytes, with `@` and a time for one that was replaced then."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Raises UnusableKey, and ImportError without the package `cryptography`."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

        self._keys: list[tuple[Any, int | None]] = []
        for text in texts:
            key, _, until = text.partition("@")
            try:
                public = Ed25519PublicKey.from_public_bytes(_decode_key(key))
                self._keys.append((public, read_time(until) if until else None))
            except ValueError:
                raise UnusableKey(
                    f"{text!r} is no public key: 44 characters of base64, and @TIME where it was replaced"
                ) from None

    def find_objection(self, message: bytes, signatures: list[bytes], at_ms: int) -> str | None:
        """Why none of the signatures counts that were made at a time; None: one does."""
        late = False
        for key, until_ms in self._keys:
            if any(is_valid_signature(key, signature, message) for signature in signatures):
                if until_ms is None or at_ms <= until_ms:
                    return None
                late = True
        return "the key that signed it was replaced before" if late else "no key that was given signed it"


def _decode_key(text: str) -> bytes:
    """A key's bytes. Raises ValueError, also for another spelling of them: one key would count as two."""
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw).decode() != text:
        raise ValueError("not the one way to write these bytes")
    return raw


def is_valid_signature(key: Any, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - as above

    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True


def encode_for_signing(payload: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """What DSSE 1.0 signs of a payload."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _open_envelope(value: bytes | None) -> tuple[bytes, list[bytes]]:
    """Payload and signatures. Raises NotStrict."""
    fields, _ = read_object(value or b"")
    if fields.get("payloadType") != PAYLOAD_TYPE:
        raise NotStrict(f"payloadType is {str(fields.get('payloadType'))[:80]!r}")
    listed = fields.get("signatures")
    signatures = (
        [each.get("sig") for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    )
    return decode_base64(fields.get("payload")), [decode_base64(signature) for signature in signatures]


def decode_base64(text: Any) -> bytes:
    """The bytes of a payload or a signature. Raises NotStrict."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise NotStrict("payload or signature is not base64") from None


def _read_head(payload: bytes) -> StatedHead:
    """The head in a payload, if its parts fit together. Raises NotStrict."""
    fields, plain = read_object(payload)
    if canonicalize(fields, plain=plain) != payload:
        raise NotStrict("the payload is not in its canonical form")
    listed = fields.get("partitions")
    if fields.get("schema") != "sluice/tree_head/v1" or not isinstance(listed, list) or not listed:
        raise NotStrict("its schema is not sluice/tree_head/v1, or it has no partitions")
    partitions = tuple(_read_partition(number, part, plain=plain) for number, part in enumerate(listed))
    frontier: list[bytes] = []
    for count, part in enumerate(partitions):
        _add_leaf(frontier, count, part.leaf)
    root = f"sha256:{_join(frontier).hex()}"
    size = sum(part.size for part in partitions)
    if fields.get("root") != root or fields.get("size") != size:
        raise NotStrict("its root or size is not that of its partitions")
    texts = {
        name: _read_text(fields.get(name))
        for name in ("previous", "signed_at", "installation", "topic_prefix")
    }
    read_time(texts["signed_at"])
    return StatedHead(
        number=_read_count(fields.get("number")),
        previous=texts["previous"],
        digest=f"sha256:{hashlib.sha256(payload).hexdigest()}",
        signed_at=texts["signed_at"],
        installation=texts["installation"],
        prefix=texts["topic_prefix"],
        size=size,
        root=root,
        partitions=partitions,
    )


def _read_partition(number: int, part: Any, *, plain: bool) -> StatedPartition:
    if not isinstance(part, dict) or part.get("partition") != number:
        raise NotStrict(f"partition {number} is not where it belongs")
    root = _read_text(part.get("root"))
    if not HASH.fullmatch(root):
        raise NotStrict(f"partition {number}: its root is no SHA-256")
    leaf = hash_bytes(b"\0" + canonicalize(part, plain=plain))
    return StatedPartition(number, _read_count(part.get("size")), bytes.fromhex(root[7:]), leaf)


def _read_count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise NotStrict("a number or a size is no whole number")
    return value


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise NotStrict("a field is no text")
    return value


def read_time(text: str) -> int:
    """Milliseconds since 1970. Raises NotStrict."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise NotStrict(f"{text[:40]!r} is no time") from None
    aware = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def _add_leaf(full: list[bytes], size: int, leaf: bytes) -> None:
    """Add a leaf's hash to the full subtrees, largest first, of a tree of `size` leaves."""
    node = leaf
    while size & 1:
        node, size = hash_bytes(b"\1" + full.pop() + node), size >> 1
    full.append(node)


def _join(full: list[bytes]) -> bytes:
    """The root over full subtrees, largest first."""
    if not full:
        return hashlib.sha256(b"").digest()
    root = full[-1]
    for node in full[-2::-1]:
        root = hash_bytes(b"\1" + node + root)
    return root


def hash_bytes(content: bytes) -> bytes:
    """SHA-256, raw."""
    return hashlib.sha256(content).digest()
