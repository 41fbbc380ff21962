"""DSSE 1.0 (secure-systems-lab/dsse, protocol.md, envelope.md): a payload, its type, signatures of both.

The reader is strict about JSON and base64, and lenient only where the specification says so: it ignores an
unknown field, takes an absent `keyid` as empty, and accepts either alphabet of base64. Only payload and type
are signed, so only they may have a meaning.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sluice.core.foundation.canonical import canonical
from sluice_topics.json_text import Unreadable, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_SIGNATURES = 16
"""Signatures of one envelope; each may cost one check per known key."""


class SignatureVerifier(Protocol):
    """A public key of any kind."""

    @property
    def keyid(self) -> str:
        """Its id."""

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether the signature is this key's over exactly these bytes."""


class Signer(Protocol):
    """A private key of any kind."""

    @property
    def keyid(self) -> str:
        """The public half's id."""

    def sign(self, message: bytes) -> bytes:
        """The signature of these bytes."""


@dataclass(frozen=True, slots=True)
class EnvelopeSignature:
    """A signature. `keyid` is the signer's hint, empty if there is none."""

    keyid: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    """An envelope as read; nothing in it is trusted until `find_valid_keys` names a key."""

    payload_type: str
    payload: bytes
    signatures: tuple[EnvelopeSignature, ...]

    def encode(self) -> bytes:
        """The envelope as JSON on one line."""
        signatures = [
            {"keyid": signature.keyid, "sig": _encode(signature.value)} for signature in self.signatures
        ]
        body = {"payload": _encode(self.payload), "payloadType": self.payload_type, "signatures": signatures}
        return canonical(body)


def pae(payload_type: str, payload: bytes) -> bytes:
    """The pre-authentication encoding: what is signed. Lengths in bytes, so no two pairs share one."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def sign(payload_type: str, payload: bytes, signers: Iterable[Signer]) -> Envelope:
    """The envelope with a signature of each signer."""
    message = pae(payload_type, payload)
    return Envelope(
        payload_type,
        payload,
        tuple(EnvelopeSignature(signer.keyid, signer.sign(message)) for signer in signers),
    )


def find_valid_keys(envelope: Envelope, keys: Iterable[SignatureVerifier]) -> frozenset[str]:
    """The ids of the keys that made at least one valid signature.

    A hint saves the checks of other keys; a wrong hint makes a signature invalid, never valid.
    """
    message = pae(envelope.payload_type, envelope.payload)
    return frozenset(
        key.keyid
        for key in keys
        if any(
            signature.keyid in ("", key.keyid) and key.verifies(signature.value, message)
            for signature in envelope.signatures
        )
    )


def read_envelope(raw: bytes) -> Envelope | Unreadable:
    """The envelope in some bytes, or what is wrong with them. An envelope without signatures is read too."""
    document = parse(raw)
    if isinstance(document, Unreadable):
        return document
    if not isinstance(document, dict):
        return Unreadable("wrong_type", "$", "Input should be an object")
    try:
        kind = _read_text(document, "payloadType", "$")
        payload = _decode(_read_text(document, "payload", "$"), "$.payload")
        return Envelope(kind, payload, _read_signatures(document))
    except _EnvelopeFlaw as wrong:
        return wrong.why


class _EnvelopeFlaw(Exception):
    """Carries the reason out of the depth of the envelope."""

    def __init__(self, why: Unreadable) -> None:
        super().__init__(why.message)
        self.why = why


def _read_signatures(document: dict[str, Any]) -> tuple[EnvelopeSignature, ...]:
    if "signatures" not in document:
        raise _EnvelopeFlaw(Unreadable("missing_field", "$.signatures", "the field is required"))
    listed = document["signatures"]
    if not isinstance(listed, list):
        raise _EnvelopeFlaw(Unreadable("wrong_type", "$.signatures", "Input should be a list"))
    if len(listed) > MAX_SIGNATURES:
        raise _EnvelopeFlaw(Unreadable("invalid_value", "$.signatures", f"over {MAX_SIGNATURES} signatures"))
    return tuple(
        _read_signature(signature, f"$.signatures[{index}]") for index, signature in enumerate(listed)
    )


def _read_signature(value: Any, path: str) -> EnvelopeSignature:
    if not isinstance(value, dict):
        raise _EnvelopeFlaw(Unreadable("wrong_type", path, "Input should be an object"))
    keyid = "" if value.get("keyid") is None else _read_text(value, "keyid", path)
    return EnvelopeSignature(keyid, _decode(_read_text(value, "sig", path), f"{path}.sig"))


def _read_text(fields: dict[str, Any], name: str, above: str) -> str:
    if name not in fields:
        raise _EnvelopeFlaw(Unreadable("missing_field", f"{above}.{name}", "the field is required"))
    if not isinstance(fields[name], str):
        raise _EnvelopeFlaw(Unreadable("wrong_type", f"{above}.{name}", "Input should be a string"))
    return str(fields[name])


def _decode(text: str, path: str) -> bytes:
    altchars = b"-_" if "-" in text or "_" in text else None
    try:
        value = base64.b64decode(text, altchars=altchars, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _EnvelopeFlaw(Unreadable("invalid_value", path, f"not base64: {error}")) from None
    if base64.b64encode(value, altchars=altchars).decode() != text:
        raise _EnvelopeFlaw(Unreadable("invalid_value", path, "not base64: written in more than one way"))
    return value


def _encode(value: bytes) -> str:
    return base64.b64encode(value).decode()
