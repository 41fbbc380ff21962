"""Proofs from tree heads, made of the ledger and the heads on a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.adapters.kafka.kafka_ledger import read_ledger
from sluice.adapters.kafka.kafka_tree_heads import read_heads
from sluice.core.foundation.input_record import read_coordinates
from sluice.core.trust.head_proofs import ProofMaker, prove_consistency, prove_inclusion

if TYPE_CHECKING:
    from sluice.client.kafka_connection import KafkaCluster
    from sluice.core.trust.tree_heads import HeadSeries
    from sluice_topics.records.tree_heads import TreeHead


class NotProvable(Exception):
    """There is nothing to prove, or no head to prove it with; the message says why."""


async def prove_record(
    cluster: KafkaCluster, series: HeadSeries, wanted: str, number: int | None = None
) -> dict[str, Any]:
    """The proof that the records with an id are in the ledger of a head; None: the last one. `series`: empty,
    with the keys and the installation whose heads count.

    Raises NotProvable, HeadRefused, LedgerBroken, UnknownTopics and KafkaUnreachable.
    """
    heads = await _read_series(cluster, series)
    head, envelope = _choose(heads, number if number is not None else len(heads))
    try:
        partition: int | None = read_coordinates(wanted)[1]
    except ValueError:
        partition = None
    prefix = series.audience.topic_prefix
    count = len(head.partitions)
    if partition is not None and partition >= count:
        raise NotProvable(f"head {head.number} states no partition {partition}")
    maker = ProofMaker(head, range(count) if partition is None else [partition], wanted)
    await read_ledger(
        cluster,
        prefix,
        lambda record: maker.take(record.topic, record.partition, record.offset, record.value),
        number=partition,
    )
    within = [record for record in maker.records if record.sequence <= head.partitions[record.partition].size]
    if not within:
        what = f"is newer than head {head.number}" if maker.records else "is in no record of the ledger"
        raise NotProvable(f"{wanted} {what}")
    return prove_inclusion(head, envelope, maker.build_trees(), within)


async def prove_growth(cluster: KafkaCluster, series: HeadSeries, first: int, second: int) -> dict[str, Any]:
    """The proof that the ledger of one head begins that of a later one. `series` and what it raises: as
    `prove_record`."""
    if first > second:
        raise NotProvable(f"head {first} is later than head {second}")
    heads = await _read_series(cluster, series)
    (then, before), (now, after) = _choose(heads, first), _choose(heads, second)
    maker = ProofMaker(now, range(len(now.partitions)))
    await read_ledger(
        cluster,
        series.audience.topic_prefix,
        lambda record: maker.take(record.topic, record.partition, record.offset, record.value),
    )
    return prove_consistency((then, now), (before, after), maker.build_trees())


async def _read_series(cluster: KafkaCluster, series: HeadSeries) -> list[tuple[TreeHead, bytes]]:
    records = await read_heads(cluster, series.audience.topic_prefix)
    return [(series.take(record.value, record.timestamp_ms), record.value or b"") for record in records]


def _choose(heads: list[tuple[TreeHead, bytes]], number: int) -> tuple[TreeHead, bytes]:
    if not heads:
        raise NotProvable("there are no tree heads: `sluice ledger sign-heads` signs them")
    if not 0 < number <= len(heads):
        raise NotProvable(f"there is no head {number}: the last one is head {len(heads)}")
    return heads[number - 1]
