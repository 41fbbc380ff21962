"""One endpoint for several workers of a machine: what each publishes on loopback, with a label of its own."""

from __future__ import annotations

import http.client
import logging
import socket
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from sluice.observability.http_listener import HealthChecks, HttpListener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

log = logging.getLogger(__name__)

LABEL = "worker"
LOOPBACK = "127.0.0.1"
READ_S = 1.0
"""Until workers that have not answered are left out: all are asked at once."""
LONGEST_PAGE = 4 << 20


class MergedWorkers(Collector):
    """Reads the workers' metrics when it is asked for them. A worker that is away, or just starting, or whose
    page does not come in time or is none, is left out."""

    def __init__(self, list_ports: Callable[[], Mapping[int, int]]) -> None:
        """`list_ports`: the ports on loopback of the workers that listen, by their numbers."""
        self._list_ports = list_ports

    def collect(self) -> Iterable[Metric]:
        """Each family once, with the samples of all workers. Takes READ_S at most."""
        families: dict[str, Metric] = {}
        for number, page in _read_all(self._list_ports()):
            for family in page:
                merged = families.setdefault(
                    family.name, Metric(family.name, family.documentation, family.type)
                )
                for sample in family.samples:
                    labels = {**sample.labels, LABEL: str(number)}
                    merged.add_sample(sample.name, labels, sample.value, sample.timestamp)
        return families.values()


def observe_workers(
    address: str, list_ports: Callable[[], Mapping[int, int]], list_waits: Callable[[], list[str]]
) -> HttpListener:
    """The listener of a supervisor, not started; `list_ports`: where its workers listen (MergedWorkers);
    `list_waits`: what it waits for until all decide."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(MergedWorkers(list_ports))
    return HttpListener(address, registry, HealthChecks(lambda: None, list_waits))


def _read_all(ports: Mapping[int, int]) -> list[tuple[int, list[Metric]]]:
    """The pages that came in time, by the numbers of the workers."""
    if not ports:
        return []
    connections = {
        number: http.client.HTTPConnection(LOOPBACK, port, timeout=READ_S)
        for number, port in sorted(ports.items())
    }
    threads = ThreadPoolExecutor(len(connections), thread_name_prefix="worker-metrics")
    asked = {number: threads.submit(_read_page, opened) for number, opened in connections.items()}
    came, late = wait(asked.values(), READ_S)
    for number, connection in connections.items():
        if asked[number] in late and (sock := connection.sock) is not None:
            with suppress(OSError):  # its thread ends then, however slowly the page came
                sock.shutdown(socket.SHUT_RDWR)
    threads.shutdown(wait=False, cancel_futures=True)
    pages = {number: future.result() for number, future in asked.items() if future in came}
    return [(number, page) for number, page in pages.items() if page is not None]


def _read_page(connection: http.client.HTTPConnection) -> list[Metric] | None:
    """None: it is away, or what it serves is no page of metrics."""
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        page = answer.read(LONGEST_PAGE + 1)
        if answer.status != http.client.OK or len(page) > LONGEST_PAGE:
            return None
        return list(text_string_to_metric_families(page.decode()))
    except (OSError, http.client.HTTPException):
        return None
    except (ValueError, LookupError):
        log.warning("a worker on port %d serves what is no page of metrics", connection.port)
        return None
    finally:
        connection.close()
