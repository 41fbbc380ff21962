"""Tree heads: what the head signer signs of the ledger, and when it must refuse. Pure.

It follows every partition's chain, keeps the frontier of each one's Merkle tree, and makes a head of them
all: O(log n) hashes a head, however long the chains are. It makes none over a chain that is broken, nor where
the last head that was published is not the beginning of what it reads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from pydantic import ValidationError

from sluice.core.foundation.canonical import canonical
from sluice.core.foundation.chain import GENESIS, hash_holds
from sluice.core.foundation.clock import read_milliseconds, rfc3339
from sluice.core.foundation.errors import CoreError
from sluice.core.foundation.merkle import Frontier, hash_leaf
from sluice.core.trust.dsse import Envelope, find_valid_keys, read_envelope, sign
from sluice_topics.json_text import Unreadable
from sluice_topics.records.tree_heads import PAYLOAD_TYPE, PartitionHead, TreeHead

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sluice.core.registry.keys import PublicKey, SigningKey
    from sluice_topics.audience import Audience

_EVENT_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_POLICY_IN_FORCE = "sluice/policy_in_force/v1"
_POLICY_MARK = b"policy_in_force"
_APPENDED, _HASH_BYTES = b',"event_hash":"', len("sha256:") + 64 + len('"}')
_APPENDED_BYTES = len(_APPENDED) + _HASH_BYTES
_SEQUENCE = b'"sequence":', re.compile(rb"([1-9][0-9]{0,15})[,}]")
_PREVIOUS = b'"prev_hash":', re.compile(rb'"(sha256:[0-9a-f]{64})"')


class LedgerBroken(CoreError):
    """The ledger is not what a head may be signed over; the message names partition and record."""


class HeadRefused(CoreError):
    """A published head does not count, or does not follow from the one before; the message names it."""


class ChainLink(NamedTuple):
    """What the trees need of a ledger record. `policy`: the digest, if it is a PolicyInForce record."""

    sequence: int
    previous: str
    event_hash: str
    policy: str | None


def read_link(value: bytes | None) -> ChainLink:
    """Read a ledger record. Raises LedgerBroken for one that cannot be read, or whose hash is not its own.

    Of a record whose hash is appended as workers append it, no more is read than this takes. A head states
    the bytes that lie there: whether they are a record in canonical form, `sluice ledger verify` says, and no
    proof from a head counts for one that is not.
    """
    return _find_link(value or b"") or _parse_link(value)


def _find_link(value: bytes) -> ChainLink | None:
    """The link of a record that ends with its hash and has each field's name once, and so not in an object
    within it; a text cannot have one, because its quotes are escaped. None of any other record."""
    if value[-_APPENDED_BYTES:-_HASH_BYTES] != _APPENDED or _POLICY_MARK in value:
        return None
    hashed = sha256(memoryview(value)[:-_APPENDED_BYTES])
    hashed.update(b"}")
    event_hash = "sha256:" + hashed.hexdigest()
    if not value.endswith(b'%b"}' % event_hash.encode()):
        return None
    sequence, previous = _match_once(value, _SEQUENCE), _match_once(value, _PREVIOUS)
    if sequence is None or previous is None:
        return None
    return ChainLink(int(sequence), previous.decode(), event_hash, None)


def _match_once(value: bytes, field: tuple[bytes, re.Pattern[bytes]]) -> bytes | None:
    """The value of the only field of this name; None where there is none, another form, or several."""
    name, form = field
    at = value.find(name) + len(name)
    if at < len(name) or value.find(name, at) >= 0:
        return None
    match = form.match(value, at)
    return None if match is None else match[1]


def _parse_link(value: bytes | None) -> ChainLink:
    try:
        fields = orjson.loads(value or b"")
        sequence, event_hash = fields["sequence"], fields["event_hash"]
        previous, schema = fields["prev_hash"], fields["schema"]
    except (ValueError, TypeError, KeyError) as error:
        raise LedgerBroken(f"it cannot be read: {error!r}") from None
    if type(sequence) is not int or sequence < 1 or not isinstance(previous, str):
        raise LedgerBroken("its sequence or prev_hash is of another type")
    if not isinstance(event_hash, str) or not _EVENT_HASH.fullmatch(event_hash):
        raise LedgerBroken("its event_hash is no SHA-256")
    if not _is_hash_of(event_hash, value or b"", fields):
        raise LedgerBroken(f"record {sequence} was altered: its event_hash is not its own")
    policy = fields.get("digest") if schema == _POLICY_IN_FORCE else None
    return ChainLink(sequence, previous, event_hash, policy if isinstance(policy, str) else None)


def _is_hash_of(event_hash: str, value: bytes, fields: dict[str, Any]) -> bool:
    """Whether the hash is the record's own. A worker appends it to the bytes that it hashed (chain.py)."""
    body = value.removesuffix(b',"event_hash":"%b"}' % event_hash.encode())
    return "sha256:" + sha256(body + b"}").hexdigest() == event_hash or hash_holds(fields)


@dataclass
class PartitionTree:
    """One partition's chain as far as it was read without a gap. `policy`: see PartitionHead; `published`:
    size, root and number of the last head, until the chain is as long; `waiting`: records that came before
    one of their predecessors, from another topic."""

    partition: int
    frontier: Frontier = field(default_factory=Frontier)
    last: str = GENESIS
    policy: str | None = None
    published: tuple[int, str, int] = (0, "", 0)
    waiting: dict[int, ChainLink] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Records that are in the tree."""
        return self.frontier.size

    def take(self, link: ChainLink) -> None:
        """Take the next record of any topic. Raises LedgerBroken."""
        if link.sequence <= self.size or link.sequence in self.waiting:
            raise LedgerBroken(f"partition {self.partition}: a second record {link.sequence}")
        self.waiting[link.sequence] = link
        while (following := self.waiting.pop(self.size + 1, None)) is not None:
            self._append(following)

    def describe_gap(self) -> str | None:
        """Which records are missing before those that wait; None: none wait."""
        if not self.waiting:
            return None
        first, last = self.size + 1, min(self.waiting) - 1
        records = f"record {first} is" if first == last else f"records {first} to {last} are"
        return f"partition {self.partition}: {records} missing, though record {last + 1} is there"

    def make_head(self) -> PartitionHead:
        """The chain as a head states it."""
        return PartitionHead(
            partition=self.partition,
            size=self.size,
            root=_write_hash(self.frontier.compute_root()),
            last=self.last,
            policy=self.policy,
        )

    def _append(self, link: ChainLink) -> None:
        if link.previous != self.last:
            raise LedgerBroken(
                f"partition {self.partition}: record {link.sequence} does not link to the record before it"
            )
        self.frontier.append(hash_leaf(bytes.fromhex(link.event_hash[7:])))
        self.last, self.policy = link.event_hash, link.policy or self.policy
        size, root, number = self.published
        if self.size == size and _write_hash(self.frontier.compute_root()) != root:
            raise LedgerBroken(
                f"partition {self.partition} was written again: its first {size} records are not those that "
                f"head {number} signs"
            )


class LedgerTree:
    """All partitions' trees."""

    def __init__(self, partitions: int, published: TreeHead | None = None) -> None:
        """`published`: the last head, which must be the beginning of what is read. Raises LedgerBroken where
        it has more partitions than the ledger."""
        self.trees = [PartitionTree(number) for number in range(partitions)]
        self._published = 0
        if published is None:
            return
        for part in published.partitions:
            if part.partition >= partitions:
                what = f"head {published.number} signs {part.size} records"
                raise LedgerBroken(f"partition {part.partition} is gone: {what}")
        self.note_published(published)

    @property
    def size(self) -> int:
        """Records of all partitions that are in the trees."""
        return sum(tree.size for tree in self.trees)

    @property
    def unsigned(self) -> int:
        """How many of them no head states yet."""
        return self.size - self._published

    def require_published(self) -> None:
        """Everything that was there was read: raises LedgerBroken where it ends before the last head."""
        for tree in self.trees:
            size, _, number = tree.published
            if tree.size < size:
                what = tree.describe_gap() or f"partition {tree.partition} ends at record {tree.size}"
                raise LedgerBroken(f"{what}: head {number} signs {size} records of it")

    def find_gap(self) -> str | None:
        """The first partition with records whose predecessors are missing; None: there is none."""
        return next((gap for tree in self.trees if (gap := tree.describe_gap()) is not None), None)

    def make_head(self, before: HeadSeries, now_ms: int) -> TreeHead:
        """The next head, not signed. There is at least one record."""
        partitions = [tree.make_head() for tree in self.trees]
        return TreeHead(
            schema_name="sluice/tree_head/v1",
            installation=before.audience.installation,
            topic_prefix=before.audience.topic_prefix,
            number=before.number + 1,
            previous=before.digest,
            signed_at=rfc3339(max(now_ms, before.signed_at_ms)),
            size=self.size,
            root=compute_root_over(partitions),
            partitions=partitions,
        )

    def note_published(self, head: TreeHead) -> None:
        """A head was published: what comes after it is not signed yet."""
        self._published = head.size
        for part in head.partitions:
            self.trees[part.partition].published = part.size, part.root, head.number


def compute_root_over(partitions: Sequence[PartitionHead]) -> str:
    """The root of the tree over the partitions' heads."""
    return _write_hash(Frontier(map(hash_partition, partitions)).compute_root())


def hash_partition(part: PartitionHead) -> bytes:
    """The leaf of a partition in the tree over all."""
    return hash_leaf(canonical(part.model_dump(by_alias=True)))


def sign_head(head: TreeHead, keys: Iterable[SigningKey]) -> Envelope:
    """The envelope with a signature of each key."""
    return sign(PAYLOAD_TYPE, canonical(head.model_dump(by_alias=True)), keys)


class HeadKeys:
    """Whose heads count. A retired key's do if they were signed until its time (ms since 1970)."""

    def __init__(self, keys: Iterable[PublicKey], retired: Mapping[PublicKey, int] | None = None) -> None:
        self._until: dict[str, int] = {key.keyid: at_ms for key, at_ms in (retired or {}).items()}
        in_use = tuple(keys)
        self._until = {name: at for name, at in self._until.items() if name not in {k.keyid for k in in_use}}
        self._keys = (*in_use, *(retired or ()))

    def __bool__(self) -> bool:
        return bool(self._keys)

    def find_objection(self, envelope: Envelope, at_ms: int) -> str | None:
        """Why no key's signature counts; None: one does. `at_ms`: when it was signed, or written."""
        valid = find_valid_keys(envelope, self._keys)
        if not valid:
            return "no key that counts signed it"
        if all(at_ms > self._until.get(name, at_ms) for name in valid):
            return "the key that signed it was retired before"
        return None


@dataclass
class HeadSeries:
    """The heads that were published so far, each checked against the one before. `number`, `digest` and
    `signed_at_ms` are of the last one, 0 and GENESIS of none; `last` is its content."""

    keys: HeadKeys
    audience: Audience
    number: int = 0
    digest: str = GENESIS
    signed_at_ms: int = 0
    last: TreeHead | None = None
    _linked: bytes | None = None

    def link(self, value: bytes | None) -> None:
        """Take the next head by its link to the one before alone, in a seventh of the time of `take`. A
        later head that `take` takes vouches for it: what is signed there names it by its digest, and so each
        before. Raises HeadRefused."""
        envelope = read_envelope(value or b"")
        try:
            fields = {} if isinstance(envelope, Unreadable) else orjson.loads(envelope.payload)
            link = fields["number"], fields["previous"]
        except (ValueError, TypeError, KeyError):
            link = None, None
        if isinstance(envelope, Unreadable) or link != (self.number + 1, self.digest):
            raise HeadRefused(f"head {self.number + 1} does not follow from head {self.number}")
        self.number, self.digest, self._linked = self.number + 1, digest_head(envelope), value

    def take(self, value: bytes | None, stored_at_ms: int = 0) -> TreeHead:
        """Take the next head as it lies on the topic. Raises HeadRefused, and then leaves all as it was.
        `stored_at_ms`: the broker's time."""
        if self._linked is not None:
            _, self.last = open_head(self._linked, self.number)
            self.signed_at_ms, self._linked = read_milliseconds(self.last.signed_at), None
        envelope, head = open_head(value, self.number + 1)
        name = f"head {head.number}"
        signed_at_ms = read_milliseconds(head.signed_at)
        if self.keys:
            objection = self.keys.find_objection(envelope, max(signed_at_ms, stored_at_ms))
            if objection is not None:
                raise HeadRefused(f"{name}: {objection}")
        if (head.installation, head.topic_prefix) != self.audience:
            raise HeadRefused(f"{name} is of another installation: {head.installation} {head.topic_prefix}")
        if head.number != self.number + 1 or head.previous != self.digest:
            raise HeadRefused(f"{name} does not follow from head {self.number}")
        if signed_at_ms < self.signed_at_ms:
            raise HeadRefused(f"{name} is older than head {self.number}")
        self._require_growth(head)
        self.number, self.digest, self.signed_at_ms = head.number, digest_head(envelope), signed_at_ms
        self.last = head
        return head

    def _require_growth(self, head: TreeHead) -> None:
        if head.root != compute_root_over(head.partitions) or head.size != sum(
            part.size for part in head.partitions
        ):
            raise HeadRefused(f"head {head.number}: root or size is not that of its partitions")
        if [part.partition for part in head.partitions] != list(range(len(head.partitions))):
            raise HeadRefused(f"head {head.number}: partitions are missing, or out of order")
        before = self.last.partitions if self.last is not None else []
        if len(head.partitions) < len(before) or any(
            now.size < then.size or (now.size == then.size and now.root != then.root)
            for now, then in zip(head.partitions, before, strict=False)
        ):
            raise HeadRefused(f"head {head.number} has less of a partition than head {self.number}")


def open_head(value: bytes | None, expected: int) -> tuple[Envelope, TreeHead]:
    """An envelope and the head in it, of which nothing is checked. `expected`: its number, for messages.
    Raises HeadRefused."""
    envelope = read_envelope(value or b"")
    if isinstance(envelope, Unreadable):
        raise HeadRefused(f"head {expected} is no DSSE envelope: {envelope.path}: {envelope.message}")
    if envelope.payload_type != PAYLOAD_TYPE:
        raise HeadRefused(f"head {expected} is no tree head but {envelope.payload_type[:80]}")
    try:
        return envelope, TreeHead.model_validate_json(envelope.payload, by_alias=True, by_name=False)
    except ValidationError as error:
        raise HeadRefused(f"head {expected} cannot be read: {' '.join(str(error).split())[:300]}") from None


def digest_head(envelope: Envelope) -> str:
    """What the next head names it by: SHA-256 of the payload."""
    return _write_hash(sha256(envelope.payload).digest())


def _write_hash(raw: bytes) -> str:
    return f"sha256:{raw.hex()}"
