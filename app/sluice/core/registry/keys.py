"""Ed25519 keys (RFC 8032), and who signed a record: an enforcement point its outcome, a reviewer the review.

Public keys are base64 of their 32 raw bytes, private ones PKCS#8 PEM. A key's id is the hex SHA-256 of its
raw public bytes; it says which key to try and is never itself trusted.

What is signed is the RFC 8785 form of the record as sent, without `signature`, for one installation
(sluice_topics/audience.py). The records' fields differ, so a signature of one kind does not fit another.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from sluice.core.foundation.canonical import canonical, digest
from sluice.core.foundation.errors import CanonicalError, CoreError
from sluice_topics.audience import Audience, record_message
from sluice_topics.records import ReviewDecision

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sluice.core.registry.registry import Registry
    from sluice_topics.records import ActionOutcome
    from sluice_topics.records.inputs import DelegationGrant
    from sluice_topics.records.mandates import SignedMandate

RAW_BYTES = 32
_SIGN_BIT = 0x7F
# The y coordinates of the points of order 1, 2, 4 and 8, and the two that are written beyond the field's
# prime, without their sign bit: under such a key anybody can make a signature of any message.
_SMALL_ORDER = frozenset(
    bytes.fromhex(y)
    for y in (
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    )
)


class UnusableKeyError(CoreError):
    """A key cannot be used; the message says why and never contains a part of a private key."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key. The settings or the registry decide whether it is trusted."""

    raw: bytes
    keyid: str = field(init=False)
    _key: Ed25519PublicKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raises UnusableKeyError for bytes that are not a key, and for a key under which anyone can sign."""
        if len(self.raw) != RAW_BYTES:
            raise UnusableKeyError(f"an Ed25519 public key has {RAW_BYTES} bytes, this has {len(self.raw)}")
        if self.raw[:-1] + bytes([self.raw[-1] & _SIGN_BIT]) in _SMALL_ORDER:
            raise UnusableKeyError("a point of small order: anybody can sign for this key")
        object.__setattr__(self, "keyid", sha256(self.raw).hexdigest())
        object.__setattr__(self, "_key", Ed25519PublicKey.from_public_bytes(self.raw))

    @classmethod
    def from_text(cls, text: str) -> PublicKey:
        """The key in base64 as settings and registry carry it. Raises UnusableKeyError."""
        try:
            return cls(base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError) as error:
            raise UnusableKeyError(f"not base64: {error}") from None

    @property
    def text(self) -> str:
        """Base64 of the raw bytes."""
        return base64.b64encode(self.raw).decode()

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether the signature is this key's over exactly these bytes."""
        try:
            self._key.verify(signature, message)
        except InvalidSignature:
            return False
        return True


class SigningKey:
    """A private key. It can sign and return its public half; this module never writes or shows it."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = PublicKey(private.public_key().public_bytes_raw())

    @classmethod
    def from_pem(cls, pem: bytes) -> SigningKey:
        """The key in a PKCS#8 PEM. Raises UnusableKeyError."""
        try:
            private = load_pem_private_key(pem, password=None)
        except TypeError:
            raise UnusableKeyError("the private key is protected by a passphrase") from None
        except (ValueError, UnsupportedAlgorithm):
            raise UnusableKeyError("not a private key in PKCS#8 PEM") from None
        if not isinstance(private, Ed25519PrivateKey):
            raise UnusableKeyError("a private key, but not an Ed25519 one")
        return cls(private)

    @property
    def keyid(self) -> str:
        """The public half's id."""
        return self.public.keyid

    def sign(self, message: bytes) -> bytes:
        """The signature, 64 bytes. The same message gives the same signature."""
        return self._private.sign(message)


class Roots:
    """The keys where trust starts. They sign approvers' entries and nothing else.

    `retired_at_ms`, by key id: a replaced key counts for records before this broker time, so that entries it
    signed stay in force, and for no later record.
    """

    def __init__(self, public_keys: Iterable[str], retired: Mapping[str, int] | None = None) -> None:
        """From base64 public keys, the retired ones with the time in ms. Raises UnusableKeyError; none at all
        means that nothing is trusted."""
        in_use = [PublicKey.from_text(text) for text in public_keys]
        until = {PublicKey.from_text(text): at_ms for text, at_ms in (retired or {}).items()}
        for key in in_use:
            if key in until:
                raise UnusableKeyError(f"{key.text} is both a root key and a retired one")
        self.by_id: Mapping[str, PublicKey] = {key.keyid: key for key in (*until, *in_use)}
        self.retired_at_ms: Mapping[str, int] = {key.keyid: at_ms for key, at_ms in until.items()}


def encode_signed(record: ActionOutcome | ReviewDecision | DelegationGrant, audience: Audience) -> bytes:
    """The bytes of a record that are signed for an installation; a review's null fields are as absent.
    Raises CanonicalError."""
    absent = isinstance(record, ReviewDecision)
    written = record.model_dump(by_alias=True, exclude_unset=True, exclude_none=absent, exclude={"signature"})
    return record_message(audience, canonical(written))


SEEN_GRANTS = 4096


def is_granted_by(key: Ed25519PublicKey, grant: DelegationGrant, audience: Audience) -> bool:
    """Whether the grant bears a valid signature of this key for this installation. A child's every action
    names its grants, so the result of the latest ones is kept."""
    try:
        return _is_valid(key.public_bytes_raw(), grant.signature, encode_signed(grant, audience))
    except CanonicalError:
        return False


@lru_cache(maxsize=SEEN_GRANTS)
def _is_valid(raw: bytes, signature: str, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(_decode_signature(signature), message)
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


def _decode_signature(text: str) -> bytes:
    """The signature in base64. In another spelling of the same bytes it would give the record another digest.
    Raises ValueError."""
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw).decode() != text:
        raise ValueError("base64 that is written in more than one way")
    return raw


def encode_mandate(mandate: SignedMandate, audience: Audience) -> bytes:
    """The bytes of a mandate that are signed for an installation. Raises CanonicalError."""
    return record_message(audience, canonical(_write_mandate(mandate, {"signature", "parents"})))


def digest_mandate(mandate: SignedMandate) -> str:
    """The digest by which actions, revocations and other mandates name a mandate: of the RFC 8785 form of the
    signed record. The mandates above it are no part of it: it names them. Raises CanonicalError."""
    return digest(_write_mandate(mandate, {"parents"}))


def _write_mandate(mandate: SignedMandate, without: set[str]) -> dict[str, Any]:
    return mandate.model_dump(by_alias=True, exclude_unset=True, exclude=without)


def is_mandate_of(key: Ed25519PublicKey, mandate: SignedMandate, audience: Audience) -> bool:
    """Whether the mandate bears a valid signature of this key for this installation."""
    try:
        return _is_valid(key.public_bytes_raw(), mandate.signature, encode_mandate(mandate, audience))
    except CanonicalError:
        return False


def is_signed_by(key: Ed25519PublicKey, record: ActionOutcome | ReviewDecision, audience: Audience) -> bool:
    """Whether the record bears a valid Ed25519 signature (base64) of this key for this installation."""
    try:
        key.verify(_decode_signature(record.signature or ""), encode_signed(record, audience))
    except (InvalidSignature, binascii.Error, ValueError, CanonicalError):
        return False
    return True


def is_signed(registry: Registry, outcome: ActionOutcome) -> bool:
    """Whether the enforcement point that `reported_by` names has signed the outcome: only then may it lower a
    total."""
    point = registry.enforcement_points.get(outcome.reported_by)
    return point is not None and is_signed_by(point.public_key, outcome, registry.audience)
