"""The values of the metrics, kept cheaply where they are counted and read by prometheus-client at a scrape.

A worker counts a batch at a time: a dictionary and a few lists of numbers under one lock. prometheus-client's
own instruments take a lock and a search for each number, which is a share of a decision's time.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from sluice.observability.metric_definitions import BY_NAME, METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

    from sluice.observability.metric_definitions import MetricDefinition, Process

Labels = tuple[str, ...]
"""The values of a metric's labels, in the order of its definition."""
MOST_SERIES = 500
"""Of one metric: what comes beyond is counted under OTHER, so that no fault of ours floods a scrape."""
OTHER = "other"


class Histogram:
    """Counts by bucket, and the sum of what was observed."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """`bounds`: upper bounds, ascending; one more bucket takes what is above."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, values: Iterable[float]) -> None:
        """Count each value in the bucket of the smallest bound that is not below it."""
        bounds, counts, total = self.bounds, self.counts, self.total
        for value in values:
            counts[bisect_left(bounds, value)] += 1
            total += value
        self.total = total


class ProcessMetrics(Collector):
    """The metrics of one process, as a collector of a Prometheus registry. Every method may be called from
    any thread."""

    def __init__(self, process: Process, registry: CollectorRegistry) -> None:
        """Registers itself: two of them need two registries."""
        self._definitions = {
            definition.name: definition for definition in METRICS if process in definition.processes
        }
        self._lock = threading.Lock()
        self._numbers: dict[str, dict[Labels, float]] = {name: {} for name in self._definitions}
        self._histograms: dict[str, dict[Labels, Histogram]] = {name: {} for name in self._definitions}
        registry.register(self)

    def add(self, name: str, counts: Mapping[Labels, float]) -> None:
        """Add to a counter, by labels."""
        with self._lock:
            numbers = self._numbers[name]
            for labels, count in counts.items():
                bound = self._bound(labels, numbers)
                numbers[bound] = numbers.get(bound, 0) + count

    def observe(self, name: str, values: Mapping[Labels, Iterable[float]]) -> None:
        """Add to a histogram, by labels, in the metric's unit."""
        with self._lock:
            histograms, bounds = self._histograms[name], self._definitions[name].buckets
            for labels, observed in values.items():
                bound = self._bound(labels, histograms)
                histogram = histograms.get(bound)
                if histogram is None:
                    histogram = histograms[bound] = Histogram(bounds)
                histogram.observe(observed)

    def put(self, name: str, values: Mapping[Labels, float]) -> None:
        """Give a gauge these values; those under other labels end."""
        with self._lock:
            self._numbers[name] = dict(list(values.items())[:MOST_SERIES])

    def put_one(self, name: str, labels: Labels, value: float) -> None:
        """Give a gauge a value under these labels; others stay."""
        with self._lock:
            numbers = self._numbers[name]
            numbers[self._bound(labels, numbers)] = value

    def collect(self) -> Iterator[Metric]:
        """What there is now, for a scrape."""
        with self._lock:
            numbers = {name: dict(values) for name, values in self._numbers.items()}
            histograms = {
                name: {
                    labels: (list(histogram.counts), histogram.total) for labels, histogram in values.items()
                }
                for name, values in self._histograms.items()
            }
        for name, definition in self._definitions.items():
            if definition.kind == "histogram":
                yield _build_histogram(definition, histograms[name])
            else:
                yield _build_family(definition, numbers[name])

    def describe(self) -> Iterator[Metric]:
        """The names, so that a registry finds a second metric of one name without a scrape."""
        for definition in self._definitions.values():
            yield (
                _build_histogram(definition, {})
                if definition.kind == "histogram"
                else _build_family(definition, {})
            )

    @staticmethod
    def _bound(labels: Labels, series: Mapping[Labels, object]) -> Labels:
        return labels if labels in series or len(series) < MOST_SERIES else (OTHER,) * len(labels)


def _build_family(definition: MetricDefinition, numbers: Mapping[Labels, float]) -> Metric:
    """A counter or gauge without labels is there from the start: a rate of it needs its 0."""
    build = CounterMetricFamily if definition.kind == "counter" else GaugeMetricFamily
    family = build(definition.name, definition.meaning, labels=definition.labels)
    if definition.kind == "counter" and not definition.labels and not numbers:
        numbers = {(): 0.0}
    for labels, value in numbers.items():
        family.add_metric(labels, value)
    return family


def _build_histogram(
    definition: MetricDefinition, histograms: Mapping[Labels, tuple[list[int], float]]
) -> Metric:
    family = HistogramMetricFamily(definition.name, definition.meaning, labels=definition.labels)
    for labels, (counts, total) in histograms.items():
        bounds = [*map(str, definition.buckets), "+Inf"]
        family.add_metric(labels, list(zip(bounds, accumulate(counts), strict=True)), total)
    return family


def list_sample_names() -> frozenset[str]:
    """Every name that a query may ask for: a histogram's with its three endings."""
    names = set()
    for name, definition in BY_NAME.items():
        if definition.kind == "histogram":
            names |= {f"{name}_bucket", f"{name}_count", f"{name}_sum"}
        else:
            names.add(name)
    return frozenset(names)
