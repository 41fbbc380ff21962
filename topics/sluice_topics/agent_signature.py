"""An agent's signature of an input: the record header that carries it.

The header `sluice-signature` holds five words with one space between them: `v1`, the key's id (hex SHA-256 of
its 32 public bytes), when it was signed (ms since 1970), a nonce, and the Ed25519 signature in base64.

Signed are (audience.py) the installation, the topic's whole name, the message key, the key's id, the time and
the nonce as the header writes them, and the record's value. No two inputs share their bytes, and none shares
them with a DSSE envelope or with a record that is signed in its canonical form.
"""

from __future__ import annotations

import base64
import re
from binascii import a2b_base64
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

HEADER = "sluice-signature"
LONGEST_HEADER = 256
_FORM = re.compile(
    rb"v1 ([0-9a-f]{64}) ([1-9][0-9]{0,14}) ([A-Za-z0-9_-]{16,32}) ([A-Za-z0-9+/]{85}[AQgw]==)"
)


class AgentSignature(NamedTuple):
    """What a header says. Nothing in it is trusted before the signature is verified."""

    key_id: str
    signed_at_ms: int
    nonce: str
    signature: bytes

    def header(self) -> bytes:
        """The header's value."""
        return b"v1 %s %d %s %s" % (
            self.key_id.encode(),
            self.signed_at_ms,
            self.nonce.encode(),
            base64.b64encode(self.signature),
        )


def read_signature(raw: bytes) -> AgentSignature | None:
    """What a header's value says; None for one that is not written as above, character by character."""
    match = _FORM.fullmatch(raw) if len(raw) <= LONGEST_HEADER else None
    if match is None:
        return None
    key_id, at_ms, nonce, signature = match.groups()
    return AgentSignature(key_id.decode(), int(at_ms), nonce.decode(), a2b_base64(signature))


def find_header(headers: Iterable[tuple[str, bytes | None]]) -> bytes | None:
    """The signature's header among those of a message, the first if there are several; None for none."""
    return next((value for name, value in headers if name == HEADER and value is not None), None)
