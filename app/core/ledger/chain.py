"""The hash chain of one partition: what makes its ledger records gapless and their order provable.

Seed 002's certificate chain and product.md, "Ledger": `event_hash` is SHA-256 over the RFC 8785 form of the
whole record without `event_hash`; `prev_hash` is the record's before it, the first one's is GENESIS.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from app.core.ledger.canonical import canonical, in_order

GENESIS = "GENESIS"
PLACE: tuple[str, ...] = ("partition", "prev_hash", "sequence")
"""The fields that a record gets when it is linked, but for its `event_hash`."""


class Chain:
    """The one writer's end of a partition's chain: `sequence` and `head` of the last record linked."""

    __slots__ = ("head", "partition", "sequence")

    def __init__(self, partition: int, sequence: int = 0, head: str = GENESIS) -> None:
        """`sequence` 0 with head GENESIS is an empty ledger."""
        self.partition = partition
        self.sequence = sequence
        self.head = head

    def link(self, body: dict[str, Any], *, ordered: bool = False) -> bytes:
        """Give `body` its place in the chain and return its wire value; `body` gets the four fields too.
        `ordered` as in OutRecord.

        The wire value is the canonical form with `event_hash` appended, so that the record is serialised
        once. Raises CanonicalError, and then leaves the chain as it was.
        """
        body["partition"] = self.partition
        body["sequence"] = self.sequence + 1
        body["prev_hash"] = self.head
        written = in_order(body) if ordered else canonical(body, finite=True)
        event_hash = "sha256:" + sha256(written).hexdigest()
        body["event_hash"] = event_hash
        self.sequence += 1
        self.head = event_hash
        return b'%b,"event_hash":"%b"}' % (written[:-1], event_hash.encode())
