"""Keys that can be trusted, and those that cannot."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from sluice.core.registry.keys import PublicKey, Roots, SigningKey, UnusableKeyError
from tests.unit.core.trust.scene import ALICE

IDENTITY = b"\x01" + bytes(31)
SECRET = bytes(range(32))


def pem(
    private: Ed25519PrivateKey | ec.EllipticCurvePrivateKey,
    encryption: KeySerializationEncryption | None = None,
) -> bytes:
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())


def test_a_key_is_the_same_in_text_and_in_bytes() -> None:
    assert PublicKey.from_text(ALICE.public.text) == ALICE.public
    assert ALICE.public.verifies(ALICE.sign(b"m"), b"m")
    assert not ALICE.public.verifies(ALICE.sign(b"m"), b"n")


@pytest.mark.parametrize("text", ["", "!", "AAAA", ALICE.public.text + "AAAA", ALICE.public.text[:-1]])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(UnusableKeyError):
        PublicKey.from_text(text)


def test_a_key_for_which_anybody_can_sign_is_refused_though_its_signatures_hold() -> None:
    Ed25519PublicKey.from_public_bytes(IDENTITY).verify(IDENTITY + bytes(32), b"any message at all")
    for weak in (IDENTITY, IDENTITY[:-1] + b"\x80"):
        with pytest.raises(UnusableKeyError, match="anybody can sign"):
            Roots([base64.b64encode(weak).decode()])


def test_a_private_key_comes_from_its_pem() -> None:
    private = Ed25519PrivateKey.from_private_bytes(SECRET)
    assert SigningKey.from_pem(pem(private)).public == SigningKey(private).public


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (b"", "not a private key"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "not a private key"),
        (pem(ec.generate_private_key(ec.SECP256R1())), "not an Ed25519"),
        (
            pem(Ed25519PrivateKey.from_private_bytes(SECRET), BestAvailableEncryption(b"words")),
            "passphrase",
        ),
    ],
)
def test_another_file_is_said_to_be_none(given: bytes, reason: str) -> None:
    with pytest.raises(UnusableKeyError, match=reason):
        SigningKey.from_pem(given)


def test_a_private_key_does_not_show() -> None:
    secret = Ed25519PrivateKey.from_private_bytes(SECRET)
    shown = repr(SigningKey(secret)) + str(vars(SigningKey(secret)))
    assert SECRET.hex() not in shown
    assert base64.b64encode(SECRET).decode() not in shown
