"""Whether a worker's key signed a record: what a reader asks that was told the public keys."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import TYPE_CHECKING

from sluice.client.answers import ClientError
from sluice_topics.audience import Audience
from sluice_topics.record_proof import key_id_of, leaf_of, proof_in, read_proof, root_message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

ROOTS_KEPT = 1024
"""Roots of transactions whose signature was found valid: their other records cost hashes alone."""


class RecordProofs:
    """Checks the records of one installation. Without a key every record passes."""

    def __init__(self, keys: Iterable[str], audience: Audience) -> None:
        """`keys`: public keys, base64, each of which may sign: two while a worker's key is replaced.

        Raises ClientError for a text that is no key, and for keys without the id of the installation.
        """
        self._audience = audience
        self._keys = {key_id_of(raw): raw for raw in map(_raw, keys)}
        if self._keys and not audience.installation:
            raise ClientError(
                "a verdict key is for one installation, and none is named",
                "Give its setting policy.installation: ClientOptions(installation=...)",
            )

    def objection(
        self,
        where: tuple[str, int],
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[tuple[str, bytes | None]],
    ) -> str | None:
        """Why no known key signed a record of a topic (base name) and partition; None: one did, or no key is
        known."""
        if not self._keys:
            return None
        written = proof_in(headers)
        proof = None if written is None else read_proof(written)
        if proof is None:
            return "it is not signed" if written is None else "its proof is not written as proofs are"
        raw = self._keys.get(proof.key_id)
        if raw is None:
            return f"the key {proof.key_id} signed it, which is none of those that count"
        root = proof.root(leaf_of(self._audience, *where, key or b"", value or b""))
        if root is None or not _is_signed(
            raw, proof.signature, root_message(self._audience, proof.leaves, root)
        ):
            return "its proof is of another record"
        return None


def _raw(text: str) -> bytes:
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
        _key(raw).verify(signature, message)
    except InvalidSignature:
        return False
    return True


@lru_cache(maxsize=8)
def _key(raw: bytes) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415 - as above

    return Ed25519PublicKey.from_public_bytes(raw)


NO_PROOFS = RecordProofs((), Audience())
"""For a reader that was told no key."""
