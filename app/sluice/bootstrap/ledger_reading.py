"""What commands and routes read of the ledger: reports' values, the counts of the memory gate, tree heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sluice.adapters.kafka.kafka_ledger import read_values
from sluice.client.record_proofs import NO_PROOFS
from sluice.core.registry.keys import PublicKey
from sluice.core.reports.memory_recount import compare_statistics, find_behind, sum_by_group
from sluice.core.state.statistics import NOTHING, Statistics
from sluice.core.trust.tree_heads import HeadKeys, HeadSeries
from sluice.settings.reader import list_real_names
from sluice.stream.engine.outbox import live_statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sluice.adapters.kafka.kafka_quarantine import KafkaQuarantine
    from sluice.adapters.kafka.kafka_read import Start
    from sluice.client.record_proofs import RecordProofs
    from sluice.core.registry.keys import SigningKey
    from sluice.core.reports.memory_recount import Behind, Counts, LiveCounts, StatisticsDifference
    from sluice.settings.reader import Settings


async def read_topics(
    settings: Settings,
    topics: Sequence[str],
    take: Callable[[bytes | None], None],
    start: Start | int = "beginning",
    proofs: RecordProofs = NO_PROOFS,
) -> None:
    """Hand the values of these topics, by base name, to `take`. Raises KafkaUnreachable and UnknownTopics."""
    names = list_real_names(settings)
    await read_values(settings.kafka.connection, {names[base]: base for base in topics}, take, start, proofs)


class LedgerCounts(NamedTuple):
    """The ledger's own numbers, and where the workers' are others."""

    counts: Counts
    differences: list[StatisticsDifference]
    behind: list[Behind]

    @property
    def equal(self) -> bool:
        """Whether the workers keep what the ledger says."""
        return not (self.differences or self.behind)


class GateCounts(NamedTuple):
    """`recounted` None: no recount was asked for."""

    live: Counts
    recounted: LedgerCounts | None = None

    @property
    def overall(self) -> Statistics:
        """Over all partitions, tenants and agents, as the workers keep them."""
        return sum_overall(self.live)

    @property
    def equal(self) -> bool:
        """Whether no recount differs from what the workers keep."""
        return self.recounted is None or self.recounted.equal


def sum_overall(counts: Counts) -> Statistics:
    """Over all partitions, tenants and agents."""
    return sum_by_group(counts, lambda _: None).get(None, NOTHING)


async def count_gate(kafka: KafkaQuarantine, *, recount: bool) -> GateCounts:
    """Read from the broker, with `recount` the ledger too. Raises KafkaUnreachable and UnknownTopics."""
    live = await live_statistics(kafka.read_changelog())
    return GateCounts(live.counts, await _recompute(kafka, live) if recount else None)


async def _recompute(kafka: KafkaQuarantine, live: LiveCounts) -> LedgerCounts:
    """What the ledger has beyond the state was written since: if so, the state has it by now too."""
    anew = await kafka.recompute(live.sequences)
    lost = (
        find_behind((await live_statistics(kafka.read_changelog())).sequences, anew.beyond)
        if anew.beyond
        else []
    )
    return LedgerCounts(anew.counts, compare_statistics(live.counts, anew.counts), lost)


def build_head_series(
    settings: Settings, more: Iterable[str] = (), signing: Iterable[SigningKey] = ()
) -> HeadSeries:
    """The heads of the installation, of which none is read yet. The keys whose heads count are the settings',
    `more` in base64, and those that are signing now. Raises UnusableKeyError."""
    heads = settings.heads
    named = [PublicKey.from_text(text) for text in (*heads.public_keys, *more)]
    retired = {
        PublicKey.from_text(text): round(at.timestamp() * 1000) for text, at in heads.retired_keys.items()
    }
    keys = HeadKeys([*named, *(key.public for key in signing)], retired)
    return HeadSeries(keys, settings.build_audience())
