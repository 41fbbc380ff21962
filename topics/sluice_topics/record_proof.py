"""A worker's proof that it wrote a record: one signature for a transaction, a way to it for each record.

The records of a transaction are the leaves of a Merkle tree as in RFC 6962; the worker signs its root once.
A leaf covers installation, whole topic name, partition, message key and value. Headers are not covered: what
a reader takes from them it compares with the value.

The header `sluice-proof` holds six words with one space between them: `v1`, the first 16 hex digits of the
SHA-256 of the public key, the record's number among the leaves (from 0), the number of leaves, the Ed25519
signature in base64, and the hashes from the leaf's sibling up to the root, one after the other in base64 (`-`
for none). Signed is a message (audience.py) of the installation, the number of leaves and the root.
"""

from __future__ import annotations

import base64
import re
from binascii import a2b_base64
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from sluice_topics.audience import Audience, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

HEADER = "sluice-proof"
LEAF_DOMAIN = b"\0SluiceLeafV1"
NODE = b"\1"
ROOT_DOMAIN = b"SluiceRootV1"
HASH_BYTES = 32
LONGEST_HEADER = 2048
_FORM = re.compile(
    rb"v1 ([0-9a-f]{16}) (0|[1-9][0-9]{0,8}) ([1-9][0-9]{0,8}) ([A-Za-z0-9+/]{85}[AQgw]==)"
    rb" (-|(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)"
)


class RecordProof(NamedTuple):
    """What a header says. Nothing in it is trusted before the signature is verified."""

    key_id: str
    number: int
    leaves: int
    signature: bytes
    path: tuple[bytes, ...]

    def header(self) -> bytes:
        """The header's value."""
        return b"v1 %s %d %d %s %s" % (
            self.key_id.encode(),
            self.number,
            self.leaves,
            base64.b64encode(self.signature),
            base64.b64encode(b"".join(self.path)) or b"-",
        )

    def root(self, leaf: bytes) -> bytes | None:
        """The root to which the path leads from a leaf's hash; None for a path of another length."""
        number, width, node = self.number, self.leaves, leaf
        path = iter(self.path)
        if number >= width:
            return None
        while width > 1:
            if number ^ 1 < width:
                sibling = next(path, None)
                if sibling is None:
                    return None
                node = _hash_node(sibling, node) if number & 1 else _hash_node(node, sibling)
            number, width = number >> 1, (width + 1) >> 1
        return node if next(path, None) is None else None


def make_key_id(public: bytes) -> str:
    """The id by which a proof names the key with these 32 bytes."""
    return sha256(public).hexdigest()[:16]


def hash_leaf(audience: Audience, topic: str, partition: int, key: bytes, value: bytes) -> bytes:
    """The hash of a record. `topic`: the base name, without the installation's prefix."""
    name = (audience.topic_prefix + topic).encode()
    parts = (audience.installation.encode(), name, b"%d" % partition, key, value)
    return sha256(encode(LEAF_DOMAIN, *parts)).digest()


def make_root_message(audience: Audience, leaves: int, root: bytes) -> bytes:
    """The bytes that are signed of a transaction."""
    return encode(ROOT_DOMAIN, audience.installation.encode(), b"%d" % leaves, root)


class Tree:
    """Over the leaves' hashes, of which there is at least one."""

    def __init__(self, leaves: Sequence[bytes]) -> None:
        self._levels = list(_build_levels(leaves))

    @property
    def root(self) -> bytes:
        """The hash that is signed."""
        return self._levels[-1][0]

    def path(self, number: int) -> tuple[bytes, ...]:
        """From a leaf's sibling up to the root's child."""
        path = []
        for level in self._levels[:-1]:
            if number ^ 1 < len(level):
                path.append(level[number ^ 1])
            number >>= 1
        return tuple(path)


def _build_levels(level: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """From the leaves to the root. A last one without a sibling goes up as it is."""
    yield level
    while len(level) > 1:
        pairs = [_hash_node(level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)]
        level = [*pairs, level[-1]] if len(level) & 1 else pairs
        yield level


def _hash_node(left: bytes, right: bytes) -> bytes:
    return sha256(NODE + left + right).digest()


def read_proof(raw: bytes) -> RecordProof | None:
    """What a header's value says; None for one that is not written as above, character by character."""
    match = _FORM.fullmatch(raw) if len(raw) <= LONGEST_HEADER else None
    if match is None:
        return None
    key_id, number, leaves, signature, written = match.groups()
    joined = b"" if written == b"-" else a2b_base64(written)
    if len(joined) % HASH_BYTES:
        return None
    path = tuple(joined[at : at + HASH_BYTES] for at in range(0, len(joined), HASH_BYTES))
    return RecordProof(key_id.decode(), int(number), int(leaves), a2b_base64(signature), path)


def find_proof(headers: Iterable[tuple[str, bytes | None]]) -> bytes | None:
    """The proof's header among those of a message, the first if there are several; None for none."""
    return next((value for name, value in headers if name == HEADER and value is not None), None)
