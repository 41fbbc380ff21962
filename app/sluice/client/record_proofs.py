"""Which committed records count: what a reader asks that was told the workers' public keys.

Whoever may write to a topic can write anything there. It is passed over, and ends no reader.
"""

from __future__ import annotations

import base64
import json
import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from sluice.client.answers import ClientError
from sluice_topics.audience import Audience
from sluice_topics.record_proof import find_proof, hash_leaf, make_key_id, make_root_message, read_proof

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

log = logging.getLogger(__name__)
ROOTS_KEPT = 1024
"""Roots of transactions whose signature was found valid: their other records cost hashes alone."""


class CommittedRecord(Protocol):
    """A record as Kafka's client gives it."""

    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Iterable[tuple[str, bytes | None]]: ...


class RecordProofs:
    """Checks the records of one installation. Without a key every record passes."""

    def __init__(self, keys: Iterable[str], audience: Audience) -> None:
        """`keys`: public keys, base64, each of which may sign: two while a worker's key is replaced.

        Raises ClientError for a text that is no key, and for keys without the id of the installation.
        """
        self._audience = audience
        self._keys = {make_key_id(raw): raw for raw in map(_decode_base64, keys)}
        if self._keys and not audience.installation:
            raise ClientError(
                "a verdict key is for one installation, and none is named",
                "Give its setting policy.installation: ClientOptions(installation=...)",
            )

    def read_fields(self, topic: str, record: CommittedRecord) -> dict[str, Any] | None:
        """Read the fields of a record of a topic (base name); None, and a line in the log, for a record that
        does not count: no registered key signed it, or it is no JSON object."""
        objection, fields = self.find_objection(topic, record), None
        if objection is None and (fields := _parse_object(record.value)) is None:
            objection = "it is no JSON object"
        if objection is not None:
            log.warning("%s:%d:%d is passed over: %s", topic, record.partition, record.offset, objection)
        return fields

    def read_record(self, topic: str, record: CommittedRecord) -> dict[str, Any] | None:
        """Read the fields of a record of the ledger; None too for one without what a worker writes: where no
        key is known, whoever may write to a topic could end the reader with one."""
        from sluice_topics.record_reading import read_ledger_record  # noqa: PLC0415 - most clients load no records

        fields = self.read_fields(topic, record)
        if fields is None or read_ledger_record(topic, fields) is not None:
            return fields
        log.warning("%s:%d:%d is no record of a worker", topic, record.partition, record.offset)
        return None

    def find_objection(self, topic: str, record: CommittedRecord) -> str | None:
        """Why no known key signed a record of a topic (base name); None: one did, or no key is known."""
        if not self._keys:
            return None
        written = find_proof(record.headers)
        proof = None if written is None else read_proof(written)
        if proof is None:
            return "it is not signed" if written is None else "its proof is not written as proofs are"
        raw = self._keys.get(proof.key_id)
        if raw is None:
            return f"the key {proof.key_id} signed it, which is none of those that count"
        where = topic, record.partition
        root = proof.root(hash_leaf(self._audience, *where, record.key or b"", record.value or b""))
        if root is None or not _is_signed(
            raw, proof.signature, make_root_message(self._audience, proof.leaves, root)
        ):
            return "its proof is of another record"
        return None


def _parse_object(value: bytes | None) -> dict[str, Any] | None:
    try:
        document = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _decode_base64(text: str) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415 - as below

    try:
        raw = base64.b64decode(text, validate=True)
        Ed25519PublicKey.from_public_bytes(raw)
    except ValueError:
        to_do = "Give the 44 characters that `sluice keys public PEM` prints"
        raise ClientError(f"{text!r} is no public key", to_do) from None
    return raw


@lru_cache(maxsize=ROOTS_KEPT)
def _is_signed(raw: bytes, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - most clients are told no key

    try:
        _load_key(raw).verify(signature, message)
    except InvalidSignature:
        return False
    return True


@lru_cache(maxsize=8)
def _load_key(raw: bytes) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415 - as above

    return Ed25519PublicKey.from_public_bytes(raw)


NO_PROOFS = RecordProofs((), Audience())
"""For a reader that was told no key."""
