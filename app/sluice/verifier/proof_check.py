"""Whether one of the known keys signed a record. Written from the published description (docs/ledger.md).

It alone needs more than Python: the package `cryptography`, and only where a key is given.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .export import Located

_HASH = 32
_WORDS = re.compile(
    rb"v1 (?P<key>[0-9a-f]{16}) (?P<number>[0-9]{1,9}) (?P<leaves>[0-9]{1,9})"
    rb" (?P<signature>\S{88}) (?P<path>\S+)"
)


class UnusableKey(ValueError):
    """A text that is no public key."""


@dataclass(frozen=True, slots=True)
class SignedBy:
    """The keys that may have signed (base64 of 32 bytes each), and the id of the installation for which they
    did."""

    keys: Sequence[str]
    installation: str


class ProofCheck:
    """Checks records one after the other; a signature that was found valid is not verified again."""

    def __init__(self, signed_by: SignedBy) -> None:
        """Raises UnusableKey, and ImportError without the package `cryptography`."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

        self._installation = signed_by.installation.encode()
        self._keys: dict[bytes, Any] = {}
        for text in signed_by.keys:
            try:
                raw = base64.b64decode(text, validate=True)
                self._keys[sha256(raw).hexdigest()[:16].encode()] = Ed25519PublicKey.from_public_bytes(raw)
            except ValueError:
                raise UnusableKey(f"{text!r} is no public key: 44 characters of base64") from None
        self._valid: set[bytes] = set()

    def find_objection(self, located: Located) -> str | None:
        """Find what is wrong with the record's proof; None: a known key signed it."""
        if located.proof is None:
            return "no proof: whoever wrote it did not have the key"
        words = _WORDS.fullmatch(located.proof)
        key = None if words is None else self._keys.get(words["key"])
        if words is None or key is None:
            return "the proof is not readable" if words is None else "the proof is by another key"
        signature = _decode(words["signature"])
        path = b"" if words["path"] == b"-" else _decode(words["path"])
        if signature is None or path is None:
            return "the proof is not readable"
        leaves = int(words["leaves"])
        root = _compute_root(self._hash_leaf(located), int(words["number"]), leaves, path)
        if root is None:
            return "the proof leads to no root"
        message = _join_parts(b"SluiceRootV1", self._installation, b"%d" % leaves, root)
        if not self._is_valid(key, words["key"] + signature + message, signature, message):
            return "the proof is of another record"
        return None

    def _hash_leaf(self, located: Located) -> bytes:
        name, number = located.topic.encode(), b"%d" % located.partition
        key, value = located.key or b"", located.value or b""
        return sha256(_join_parts(b"\0SluiceLeafV1", self._installation, name, number, key, value)).digest()

    def _is_valid(self, key: Any, checked: bytes, signature: bytes, message: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - as above

        token = sha256(checked).digest()
        if token in self._valid:
            return True
        try:
            key.verify(signature, message)
        except InvalidSignature:
            return False
        self._valid.add(token)
        return True


def _compute_root(leaf: bytes, number: int, leaves: int, path: bytes) -> bytes | None:
    """RFC 6962, 2.1.1, from the leaf up; None for a path that does not fit the tree."""
    if not 0 <= number < leaves or len(path) % _HASH:
        return None
    node, last = leaf, leaves - 1
    while last:
        if number & 1 or number < last:
            sibling, path = path[:_HASH], path[_HASH:]
            if not sibling:
                return None
            node = sha256(b"\1" + (sibling + node if number & 1 else node + sibling)).digest()
        number, last = number >> 1, last >> 1
    return None if path else node


def _decode(text: bytes) -> bytes | None:
    """Decode base64; None for a text that is not the one way to write its bytes."""
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
    return raw if base64.b64encode(raw) == text else None


def _join_parts(domain: bytes, *parts: bytes) -> bytes:
    return domain + b"".join([b" %d %b" % (len(part), part) for part in parts])
