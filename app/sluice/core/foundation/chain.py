"""The hash chain of one partition: it makes ledger records gapless and their order provable.

Seed 002's certificate chain and product.md, "Ledger": `event_hash` is SHA-256 over the RFC 8785 form of the
whole record without `event_hash`; `prev_hash` is the `event_hash` of the record before, GENESIS in the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sluice.core.foundation.canonical import canonical, digest, encode_ordered, write_alike
from sluice.core.foundation.errors import CanonicalError

if TYPE_CHECKING:
    from collections.abc import Callable

GENESIS = "GENESIS"
PLACE: tuple[str, ...] = ("decider_version", "partition", "prev_hash", "sequence")
"""The fields that a record gets when it is linked, except `event_hash`."""

_write_finite = partial(canonical, finite=True)
_WRITERS: dict[tuple[bool, bool], Callable[[Any], bytes]] = {
    (True, True): encode_ordered,
    (True, False): encode_ordered,
    (False, True): write_alike,
    (False, False): _write_finite,
}
"""By what the maker of a body promises: that it is in order, that orjson writes it alike."""


class Chain:
    """The one writer's end of a partition's chain: `sequence` and `head` of the last record linked."""

    __slots__ = ("decider_version", "head", "partition", "sequence")

    def __init__(
        self, partition: int, sequence: int = 0, head: str = GENESIS, decider_version: str | None = None
    ) -> None:
        """`sequence` 0 with head GENESIS is an empty ledger. `decider_version` names the deciding code in
        each record; with None the records do not name it."""
        self.decider_version = decider_version
        self.partition = partition
        self.sequence = sequence
        self.head = head

    def link(self, body: dict[str, Any], *, ordered: bool = False, alike: bool = False) -> bytes:
        """Give `body` its place in the chain and return its wire value; `body` gets these fields too.
        `ordered` and `alike` as in OutRecord.

        The wire value is the canonical form with `event_hash` appended, so that the record is serialised
        once. Raises CanonicalError, and then leaves the chain as it was.
        """
        if self.decider_version is not None:
            body["decider_version"] = self.decider_version
        body["partition"] = self.partition
        body["sequence"] = self.sequence + 1
        body["prev_hash"] = self.head
        written = _WRITERS[ordered, alike](body)
        event_hash = "sha256:" + sha256(written).hexdigest()
        body["event_hash"] = event_hash
        self.sequence += 1
        self.head = event_hash
        return b'%b,"event_hash":"%b"}' % (written[:-1], event_hash.encode())


def hash_holds(record: dict[str, Any]) -> bool:
    """Whether a record's `event_hash` is the hash of the rest of it."""
    rest = {name: value for name, value in record.items() if name != "event_hash"}
    try:
        return digest(rest) == record.get("event_hash")
    except CanonicalError:
        return False


@dataclass(slots=True)
class OutRecord:
    """One ledger record without its place in the chain.

    `topic` is the base name of the output topic, `kind` the record's model ("Verdict", ...), `subject` the
    Kafka key: the session's id, or the input's coordinates when no session could be read. Records of other
    topics than the ledger's have no place in the chain. `ordered`: the maker of the body promises that it is
    in canonical order, with room for the place (sluice/core/foundation/canonical.py, `in_order`); `alike`:
    that orjson writes its numbers and sorts its keys as RFC 8785 does.
    """

    topic: str
    kind: str
    body: dict[str, Any]
    subject: str
    ordered: bool = False
    alike: bool = False
