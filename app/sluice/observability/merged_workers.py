"""One endpoint for several workers of a machine: what each publishes on loopback, with a label of its own."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from sluice.observability.http_listener import HealthChecks, HttpListener, parse_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

LABEL = "worker"
READ_S = 1.0
"""Until a worker that does not answer is left out."""
LONGEST_PAGE = 4 << 20


class MergedWorkers(Collector):
    """Reads the workers' metrics when it is asked for them. A worker that is away, or just starting, is left
    out."""

    def __init__(self, addresses: Sequence[str]) -> None:
        """`addresses`: host:port of the workers, by their numbers."""
        self._places = [parse_address(address) for address in addresses]

    def collect(self) -> Iterable[Metric]:
        """Each family once, with the samples of all workers."""
        families: dict[str, Metric] = {}
        for number, place in enumerate(self._places):
            for family in text_string_to_metric_families(_read_metrics(*place)):
                merged = families.setdefault(
                    family.name, Metric(family.name, family.documentation, family.type)
                )
                for sample in family.samples:
                    labels = {**sample.labels, LABEL: str(number)}
                    merged.add_sample(sample.name, labels, sample.value, sample.timestamp)
        return families.values()


def observe_workers(
    address: str, workers: Sequence[str], list_waits: Callable[[], list[str]]
) -> HttpListener:
    """The listener of a supervisor, not started; `workers`: the addresses of its workers; `list_waits`: what
    it waits for until all decide."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(MergedWorkers(workers))
    return HttpListener(address, registry, HealthChecks(lambda: None, list_waits))


def _read_metrics(host: str, port: int) -> str:
    connection = http.client.HTTPConnection(host, port, timeout=READ_S)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        return answer.read(LONGEST_PAGE).decode() if answer.status == http.client.OK else ""
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        connection.close()
