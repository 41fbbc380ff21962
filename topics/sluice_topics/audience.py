"""The installation for which something is signed, and the bytes that are signed with it.

An audience is part of every signed message, so a signature that was made for staging counts for nothing in
production, whatever keys and coordinates both have (RFC 7519's `aud` serves the same end).

A message is a domain and then its parts, each as a space, its length in bytes in decimal, a space and its
bytes, as DSSE's pre-authentication encoding does: no two lists of parts share their bytes.
"""

from __future__ import annotations

from typing import NamedTuple

RECORD_DOMAIN = b"SluiceRecordV1"
INPUT_DOMAIN = b"SluiceInputV1"


class Audience(NamedTuple):
    """The setting policy.installation, and the prefix of the installation's topics."""

    installation: str = ""
    topic_prefix: str = ""


UNNAMED = Audience()
"""Of what belongs to no installation: a registry that is tried offline."""


def record_message(audience: Audience, canonical: bytes) -> bytes:
    """The bytes that are signed of a review, an outcome or a grant. `canonical`: the RFC 8785 form of the
    record without `signature`."""
    return encode(RECORD_DOMAIN, audience.installation.encode(), audience.topic_prefix.encode(), canonical)


class SignedInput(NamedTuple):
    """What an agent signs of an input. `topic`: the base name, without the installation's prefix; `key`: the
    message key; `signed_at_ms`: ms since 1970."""

    topic: str
    key: bytes
    key_id: str
    signed_at_ms: int
    nonce: str
    value: bytes

    def message(self, audience: Audience) -> bytes:
        """The bytes that are signed: installation, the topic's whole name, and the other fields."""
        return encode(
            INPUT_DOMAIN,
            audience.installation.encode(),
            (audience.topic_prefix + self.topic).encode(),
            self.key,
            self.key_id.encode(),
            b"%d" % self.signed_at_ms,
            self.nonce.encode(),
            self.value,
        )


def encode(domain: bytes, *parts: bytes) -> bytes:
    """A message, as above."""
    return domain + b"".join([b" %d %b" % (len(part), part) for part in parts])
