"""Publishing, as a rehearsal: what the fold would make of new records, before any of them is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.core.foundation.arrival import Arrival
from app.core.trust.dsse import Envelope, read_envelope
from app.core.trust.fold import Folded, fold
from app.core.trust.refused import Reason
from app.core.trust.signed_entries import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.core.registry.keys import Roots
    from app.core.trust.compiled import Compiled
    from app.core.trust.refused import Refused


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """`writes`: what is new, if nothing is refused. `repeats`: what is there, not to be written again."""

    writes: tuple[Arrival, ...]
    repeats: tuple[Arrival, ...]
    refused: tuple[Refused, ...]


def rehearse(
    records: Sequence[Arrival], new: Sequence[Arrival], roots: Roots, compiled: Compiled
) -> Rehearsal:
    """What would become of `new`, made by `arrivals`, behind `records`: one refused, none written."""
    folded = fold([*records, *new], roots, compiled)
    refused = refused_of(folded, new)
    repeated = {one.decision_id for one in folded.repeats}
    repeats = tuple(one for one in new if one.decision_id in repeated)
    writes = () if refused else tuple(one for one in new if one.decision_id not in repeated)
    return Rehearsal(writes, repeats, refused)


def refused_of(folded: Folded, records: Iterable[Arrival]) -> tuple[Refused, ...]:
    """Those refusals that are of one of the records."""
    asked = {one.decision_id for one in records}
    return tuple(refused for refused in folded.refused if refused.arrival.decision_id in asked)


def arrivals(topic: str, values: Iterable[bytes], records: Iterable[Arrival], now_ms: int) -> list[Arrival]:
    """Envelopes as they would arrive in `topic` now, behind the records that are there."""
    behind = max((one.offset + 1 for one in records if one.topic == topic), default=0)
    return [
        Arrival(topic, 0, behind + place, now_ms, record_key(topic, value), value)
        for place, value in enumerate(values)
    ]


def record_key(topic: str, value: bytes) -> bytes | None:
    """The Kafka key that belongs to an envelope, signed or not; None where it holds nothing readable."""
    envelope = read_envelope(value)
    if not isinstance(envelope, Envelope):
        return None
    said = statement(topic, envelope)
    return None if isinstance(said, Reason) else said.key.encode()
