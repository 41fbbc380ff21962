"""A source's signed word on an item: when its content was so, at which reference, with which hash.

Signed is the RFC 8785 form of {"asserted_at", "provenance_hash", "provenance_uri"}, by Ed25519, in base64.
"""

from __future__ import annotations

import base64
import binascii
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from app.core.foundation.canonical import canonical
from app.core.metadata.moments import time_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_REMEMBERED = 1024
"""Verifications: each takes some 100 us, and the same item is read again and again."""
_SIGNATURE_CHARACTERS = 88
_FIELDS = {"asserted_at", "signature"}


def signed_assertion(asserted_at: str, provenance_uri: str, provenance_hash: str) -> bytes:
    """The bytes that a source signs."""
    fields = {
        "asserted_at": asserted_at,
        "provenance_hash": provenance_hash,
        "provenance_uri": provenance_uri,
    }
    return canonical(fields)


def form_problem(assertion: Mapping[str, Any]) -> str | None:
    """What is wrong with {asserted_at, signature} whoever signed it."""
    if assertion.keys() != _FIELDS:
        return "malformed: an assertion has asserted_at and signature"
    at, signature = assertion["asserted_at"], assertion["signature"]
    if not isinstance(at, str) or time_of(at) is None:
        return "malformed: asserted_at is no RFC 3339 date-time with an offset"
    if not isinstance(signature, str) or len(signature) != _SIGNATURE_CHARACTERS:
        return "malformed: the signature is not that of Ed25519 in base64"
    return None


def signed_by_source(key: Ed25519PublicKey, assertion: Mapping[str, Any], uri: str, digest: str) -> bool:
    """Whether a well-formed assertion over this reference and hash bears the key's signature."""
    message = signed_assertion(assertion["asserted_at"], uri, digest)
    return _verified(key.public_bytes_raw(), message, assertion["signature"])


@lru_cache(maxsize=_REMEMBERED)
def _verified(raw_key: bytes, message: bytes, signature: str) -> bool:
    try:
        raw = base64.b64decode(signature, validate=True)
        Ed25519PublicKey.from_public_bytes(raw_key).verify(raw, message)
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True
