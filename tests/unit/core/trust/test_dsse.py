"""DSSE by its specification: the example of its text, and the envelopes of sigstore's conformance suite.

`data/dsse.jsonl` holds every row of the vectors that has a DSSE envelope, of a sigstore bundle the envelope
and the certificate. `data/dsse_no_envelope.jsonl` holds the others: a bare file's signature is no DSSE.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.trust.dsse import (
    MAX_SIGNATURES,
    Envelope,
    EnvelopeSignature,
    find_valid_keys,
    pae,
    read_envelope,
    sign,
)
from sluice_topics.json_text import Unreadable
from tests.unit.core.trust.scene import ALICE, BOB, STRANGER

DATA = Path(__file__).resolve().parents[1] / "data"


def rows(name: str) -> dict[str, dict[str, Any]]:
    """The vectors of a file by their ids."""
    return {row["id"]: row for row in map(json.loads, (DATA / name).read_text().splitlines())}


ROWS, OTHERS = rows("dsse.jsonl"), rows("dsse_no_envelope.jsonl")
ABOUT_THE_LOG = "the signature holds; what is wrong is the transparency log's entry beside it"
ABOUT_THE_CERTIFICATE = "the signature holds; what is wrong is the time at which the certificate was valid"
NOT_ABOUT_THE_ENVELOPE = {
    "sigstore-dsse-mismatch-envelope_fail": ABOUT_THE_LOG,
    "sigstore-dsse-mismatch-sig_fail": ABOUT_THE_LOG,
    "sigstore-intoto-expired-certificate_fail": ABOUT_THE_CERTIFICATE,
    "sigstore-intoto-log-entry-mismatch_fail": ABOUT_THE_LOG,
    "sigstore-intoto-missing-inclusion-proof_fail": ABOUT_THE_LOG,
    "sigstore-intoto-set-outside-signing-cert-validity_fail": ABOUT_THE_CERTIFICATE,
    "sigstore-intoto-tsa-timestamp-outside-cert-validity_fail": ABOUT_THE_CERTIFICATE,
    "sigstore-rekor2-dsse-mismatch-envelope_fail": ABOUT_THE_LOG,
    "sigstore-rekor2-dsse-mismatch-sig_fail": ABOUT_THE_LOG,
}


@dataclass(frozen=True)
class EcKey:
    """An ECDSA key of the vectors; `bare` signatures are r and s side by side, others are DER."""

    key: ec.EllipticCurvePublicKey
    bare: bool
    keyid: str = "ec"

    def verifies(self, signature: bytes, message: bytes) -> bool:
        half = len(signature) // 2
        r, s = int.from_bytes(signature[:half]), int.from_bytes(signature[half:])
        try:
            self.key.verify(
                encode_dss_signature(r, s) if self.bare else signature, message, ec.ECDSA(hashes.SHA256())
            )
        except InvalidSignature:
            return False
        return True


def key_of(given: dict[str, Any]) -> EcKey:
    if "certificate" not in given:
        numbers = ec.EllipticCurvePublicNumbers(int(given["x"]), int(given["y"]), ec.SECP256R1())
        return EcKey(numbers.public_key(), bare=True)
    key = x509.load_der_x509_certificate(base64.b64decode(given["certificate"])).public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    return EcKey(key, bare=False)


def envelope_in(raw: bytes) -> Envelope:
    envelope = read_envelope(raw)
    assert isinstance(envelope, Envelope), envelope
    return envelope


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_an_envelope_of_the_vectors_verifies_exactly_if_it_should(row: dict[str, Any]) -> None:
    envelope = envelope_in(json.dumps(row["input"]["envelope"]).encode())
    should = row["label"] == "valid" or row["id"] in NOT_ABOUT_THE_ENVELOPE
    assert find_valid_keys(envelope, [key_of(row["input"])]) == ({"ec"} if should else set())


@pytest.mark.parametrize("row", OTHERS.values(), ids=OTHERS)
def test_a_document_of_the_vectors_without_an_envelope_is_refused(row: dict[str, Any]) -> None:
    """Bundles that sign a message's digest, and one that is no JSON; without their certificates and logs."""
    assert isinstance(read_envelope(row["document"].encode()), Unreadable)


def test_the_encoding_is_the_specifications() -> None:
    given = ROWS["dsse-protocol-example"]["input"]
    envelope = envelope_in(json.dumps(given["envelope"]).encode())
    assert pae(envelope.payload_type, envelope.payload) == given["pae"].encode()


def test_lengths_are_of_bytes() -> None:
    assert pae("ü", b"\xc3\xbc\n") == b"DSSEv1 2 \xc3\xbc 3 \xc3\xbc\n"


@given(st.text(max_size=8), st.binary(max_size=8), st.text(max_size=8), st.binary(max_size=8))
def test_no_two_pairs_share_an_encoding(kind: str, payload: bytes, other_kind: str, other: bytes) -> None:
    assert (pae(kind, payload) == pae(other_kind, other)) == ((kind, payload) == (other_kind, other))


@given(st.text(max_size=32), st.binary(max_size=256))
def test_what_was_signed_and_written_is_read_and_verified(kind: str, payload: bytes) -> None:
    envelope = envelope_in(sign(kind, payload, [ALICE, BOB]).encode())
    assert (envelope.payload_type, envelope.payload) == (kind, payload)
    public = [ALICE.public, BOB.public, STRANGER.public]
    assert find_valid_keys(envelope, public) == {ALICE.keyid, BOB.keyid}


@given(st.integers(0, 63), st.integers(1, 255), st.sampled_from(["sig", "payload", "type"]))
def test_no_byte_of_type_payload_or_signature_may_differ(place: int, flip: int, what: str) -> None:
    whole = sign("t" * 64, b"p" * 64, [ALICE])
    kind, payload, sig = whole.payload_type, bytearray(whole.payload), bytearray(whole.signatures[0].value)
    if what == "type":
        kind = kind[:place] + chr(ord("t") ^ flip) + kind[place + 1 :]
    else:
        (sig if what == "sig" else payload)[place] ^= flip
    forged = Envelope(kind, bytes(payload), (EnvelopeSignature(ALICE.keyid, bytes(sig)),))
    assert find_valid_keys(forged, [ALICE.public]) == set()


def test_a_hint_that_names_another_key_makes_nothing_valid() -> None:
    kind, payload = "t", b"p"
    by_bob = Envelope(kind, payload, (EnvelopeSignature(ALICE.keyid, BOB.sign(pae(kind, payload))),))
    assert find_valid_keys(by_bob, [ALICE.public, BOB.public]) == set()


def test_without_a_hint_every_key_is_tried() -> None:
    kind, payload = "t", b"p"
    nameless = Envelope(kind, payload, (EnvelopeSignature("", BOB.sign(pae(kind, payload))),))
    assert find_valid_keys(nameless, [ALICE.public, BOB.public]) == {BOB.keyid}


def test_unrecognised_fields_are_ignored_and_an_empty_hint_is_none() -> None:
    envelope = read_envelope(
        b'{"payloadType":"t","payload":"cA==","more":1,"signatures":[{"sig":"","x":1},{"sig":"","keyid":""}]}'
    )
    assert envelope == Envelope("t", b"p", (EnvelopeSignature("", b""), EnvelopeSignature("", b"")))


def test_either_alphabet_of_base64_will_do() -> None:
    plain = b'{"payloadType":"t","payload":"+/8=","signatures":[]}'
    assert read_envelope(plain) == read_envelope(plain.replace(b"+/8=", b"-_8="))


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"", "$"),
        (b"[]", "$"),
        (b'{"payload":"","signatures":[]}', "$.payloadType"),
        (b'{"payloadType":"t","signatures":[]}', "$.payload"),
        (b'{"payloadType":"t","payload":""}', "$.signatures"),
        (b'{"payloadType":"t","payload":"","signatures":{}}', "$.signatures"),
        (b'{"payloadType":"t","payload":"","signatures":[1]}', "$.signatures[0]"),
        (b'{"payloadType":"t","payload":"","signatures":[{}]}', "$.signatures[0].sig"),
        (b'{"payloadType":"t","payload":"","signatures":[{"sig":"a"}]}', "$.signatures[0].sig"),
        (b'{"payloadType":"t","payload":"","signatures":[{"sig":"","keyid":1}]}', "$.signatures[0].keyid"),
        (b'{"payloadType":"t","payload":"cA==","payload":"cA==","signatures":[]}', "$.payload"),
        (b'{"payloadType":"t","payload":"cB==","signatures":[]}', "$.payload"),
        (b'{"payloadType":"t","payload":"c A==","signatures":[]}', "$.payload"),
        (b'{"payloadType":"t","payload":"+_8=","signatures":[]}', "$.payload"),
        (b'{"payloadType":"t","payload":"\xc3\xbc","signatures":[]}', "$.payload"),
    ],
)
def test_what_is_no_envelope_is_said_with_its_place(raw: bytes, path: str) -> None:
    why = read_envelope(raw)
    assert isinstance(why, Unreadable)
    assert why.path == path


def test_the_number_of_signatures_is_bounded() -> None:
    listed = [{"sig": ""}] * (MAX_SIGNATURES + 1)
    raw = json.dumps({"payloadType": "t", "payload": "", "signatures": listed}).encode()
    assert isinstance(read_envelope(raw), Unreadable)


@given(st.binary(max_size=64))
def test_bytes_are_read_or_refused_and_never_raise(raw: bytes) -> None:
    assert isinstance(read_envelope(raw), Envelope | Unreadable)
