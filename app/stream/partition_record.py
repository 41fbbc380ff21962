"""What belongs to a partition and not to a session, in the sessions' changelog under a reserved key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson

from app.core.ledger.chain import GENESIS
from app.stream.crash_guard import Marker

if TYPE_CHECKING:
    from collections.abc import Mapping

RESERVED_KEY = b"p:"


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """Ledger head, positions and crash marker; written in every transaction of the partition.

    `positions`: per topic (base name) the next offset and the offsets below it that are not decided.
    `controls`: per control topic the offset below which the ledger holds every refusal of a record.
    """

    sequence: int = 0
    head: str = GENESIS
    positions: Mapping[str, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    marker: Marker = field(default_factory=Marker)
    controls: Mapping[str, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        return orjson.dumps(
            {
                "sequence": self.sequence,
                "head": self.head,
                "positions": self.positions,
                "marker": self.marker.as_json(),
                "controls": self.controls,
            }
        )

    @classmethod
    def decode(cls, value: bytes | None) -> PartitionRecord:
        """The record as written, or that of a partition nobody has owned yet for None."""
        if value is None:
            return cls()
        tree = orjson.loads(value)
        positions = {
            topic: (offset, tuple(pending)) for topic, (offset, pending) in tree["positions"].items()
        }
        marker = Marker.from_json(tree["marker"])
        return cls(tree["sequence"], tree["head"], positions, marker, tree.get("controls", {}))
