"""Seed 003's statistics after a run: as the worker kept them, and whether the ledger says the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.adapters.kafka_quarantine import KafkaQuarantine
from app.core.memory.live_counts import summed
from app.core.memory.recount import differences
from app.core.memory.statistics import NOTHING, Statistics
from app.stream.live_statistics import live_statistics

if TYPE_CHECKING:
    from app.demo.place import Place


@dataclass(frozen=True, slots=True)
class Counted:
    """`live`: over all partitions, tenants and agents; `equal`: each of its parts is as the ledger has it."""

    live: Statistics
    equal: bool


async def counted(place: Place) -> Counted:
    """Read both from the broker. Raises KafkaUnreachable and UnknownTopics."""
    names = {topic.name: real for real, topic in place.layout.topics().items()}
    kafka = KafkaQuarantine(place.bootstrap_servers, names)
    live = await live_statistics(kafka.changelog())
    recount = await kafka.recount(live.sequences)
    whole = summed(live.counts, lambda _: None).get(None, NOTHING)
    return Counted(whole, not differences(live.counts, recount.counts))
