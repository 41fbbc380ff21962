"""Seed 003's statistics as the ledger alone tells them: the auditor's side of the book.

It shares nothing with sluice/core/state/book.py but the statistics' shape: what the partitions count and
what a recount finds are two ways to the same numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import orjson

from sluice.core.registry.registry_entries import UNREGISTERED
from sluice.core.state.statistics import KEY_PREFIX, NOTHING, Statistics, Whose
from sluice_topics.records import QuarantineEntered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sluice.core.reports.ledger_values import Event
    from sluice_topics.records import MemoryDecision

Counts = dict[tuple[int, Whose], Statistics]
"""By partition, since each counts for itself, and by whose they are."""


class StatisticsRecount:
    """Statistics counted anew, up to a sequence number in each partition.

    `until`: by partition, the last sequence that counts; of other partitions nothing counts. `beyond`: the
    last sequence of those that were seen and did not count, by partition.
    """

    def __init__(self, until: Mapping[int, int]) -> None:
        self._until = until
        self.counts: Counts = {}
        self.beyond: dict[int, int] = {}

    def count_decision(self, decision: MemoryDecision) -> None:
        """A repeat is not counted. All agents that are not registered count together."""
        if self._is_within(decision) and decision.duplicate_of is None:
            has_tenant = decision.tenant_id is not None
            whose = Whose(decision.tenant_id or UNREGISTERED, (decision.agent_id or "") if has_tenant else "")
            self._put(
                decision.partition,
                whose,
                self._get_statistics(decision.partition, whose).add(decision.action),
            )

    def count_event(self, event: Event) -> None:
        """What entered and did not leave is in quarantine."""
        if self._is_within(event):
            whose = Whose(event.tenant_id, event.agent_id)
            by = 1 if isinstance(event, QuarantineEntered) else -1
            self._put(event.partition, whose, self._get_statistics(event.partition, whose).resize(by))

    def _is_within(self, record: MemoryDecision | Event) -> bool:
        if record.sequence <= self._until.get(record.partition, 0):
            return True
        self.beyond[record.partition] = max(record.sequence, self.beyond.get(record.partition, 0))
        return False

    def _get_statistics(self, partition: int, whose: Whose) -> Statistics:
        return self.counts.get((partition, whose), NOTHING)

    def _put(self, partition: int, whose: Whose, statistics: Statistics) -> None:
        self.counts[partition, whose] = statistics


class StatisticsDifference(NamedTuple):
    """Where the workers' count is another than the ledger's."""

    partition: int
    whose: Whose
    live: Statistics
    recounted: Statistics


class Behind(NamedTuple):
    """Where the workers' state ends before the ledger does: part of it is lost."""

    partition: int
    state: int
    ledger: int


def compare_statistics(live: Counts, recounted: Counts) -> list[StatisticsDifference]:
    """Everything that is not equal; what one side lacks is nothing."""
    pairs = [
        StatisticsDifference(*key, live.get(key, NOTHING), recounted.get(key, NOTHING))
        for key in sorted(live.keys() | recounted.keys())
    ]
    return [pair for pair in pairs if pair.live != pair.recounted]


def find_behind(state: Mapping[int, int], ledger: Mapping[int, int]) -> list[Behind]:
    """Of sequences by partition; `state` was read after `ledger`, so that it can be no older."""
    pairs = [Behind(number, state.get(number, 0), last) for number, last in sorted(ledger.items())]
    return [pair for pair in pairs if pair.state < pair.ledger]


G = TypeVar("G")


class LiveCounts:
    """Fed with a changelog's records, each partition's in order.

    A partition writes its own record last in every transaction, with the ledger's sequence. Up to it the
    changelog and the ledger agree, so a recount to that sequence gives the same numbers while workers go on.
    """

    def __init__(self) -> None:
        self.counts: Counts = {}
        self.sequences: dict[int, int] = {}
        self._uncommitted: Counts = {}

    def take(self, partition: int, key: bytes, value: bytes | None) -> None:
        """An entry of the table; those that are no statistics are left out."""
        if key.startswith(KEY_PREFIX) and value is not None:
            self._uncommitted[partition, Whose.parse_key(key)] = Statistics(*orjson.loads(value))

    def commit(self, partition: int, sequence: int) -> None:
        """The partition's own record: what came before it is whole, up to this sequence of its ledger."""
        whole = {key: statistics for key, statistics in self._uncommitted.items() if key[0] == partition}
        self.counts |= whole
        for counted_key in whole:
            del self._uncommitted[counted_key]
        self.sequences[partition] = sequence


def sum_by_group(counts: Counts, group: Callable[[Whose], G]) -> dict[G, Statistics]:
    """The statistics of every group, over all partitions."""
    by_group: dict[G, Statistics] = {}
    for (_, whose), statistics in sorted(counts.items()):
        name = group(whose)
        by_group[name] = by_group.get(name, NOTHING).plus(statistics)
    return by_group
