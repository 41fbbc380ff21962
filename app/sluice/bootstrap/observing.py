"""Builds what a process shows of itself from its settings: metrics, their listener, health."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from sluice.observability.health import GatewayHealth, NotifierHealth, WorkerHealth
from sluice.observability.http_listener import HealthChecks, HttpListener
from sluice.observability.metrics import ProcessMetrics
from sluice.observability.observers import EngineObservers
from sluice.observability.service_metrics import GatewayMetrics, NotifierMetrics
from sluice.observability.worker_metrics import WorkerMetrics
from sluice.stream.process import SystemClock

if TYPE_CHECKING:
    from sluice.observability.metric_definitions import Process
    from sluice.settings.reader import Settings
    from sluice.stream.engine.observer import EngineObserver


class ObservedProcess(NamedTuple):
    """A process's metrics, and the listener that serves them, not started."""

    metrics: ProcessMetrics
    listener: HttpListener


class ObservedWorker(NamedTuple):
    """A worker's observer, and the listener that serves what it counts, not started."""

    observer: EngineObserver
    listener: HttpListener


def observe_worker(settings: Settings) -> ObservedWorker | None:
    """None: the settings switch it off."""
    address = settings.worker.metrics_address
    if not address:
        return None
    health = WorkerHealth()
    checks = HealthChecks(health.beat.find_fault, health.list_waits)
    metrics, listener = observe_process("worker", address, checks)
    counted = WorkerMetrics(metrics, SystemClock().wall_ms)
    return ObservedWorker(EngineObservers([counted, health]), listener)


class ObservedGateway(NamedTuple):
    """A gateway's counter of requests, its health, and their listener, not started."""

    metrics: GatewayMetrics
    health: GatewayHealth
    listener: HttpListener


def observe_gateway(settings: Settings) -> ObservedGateway | None:
    """None: the settings switch it off."""
    address = settings.gateway.metrics_address
    if not address:
        return None
    health = GatewayHealth()
    metrics, listener = observe_process(
        "gateway", address, HealthChecks(health.beat.find_fault, health.list_waits)
    )
    return ObservedGateway(GatewayMetrics(metrics), health, listener)


class ObservedNotifier(NamedTuple):
    """A notifier's observer of deliveries, its health, and their listener, not started."""

    metrics: NotifierMetrics
    health: NotifierHealth
    listener: HttpListener


def observe_notifier(settings: Settings) -> ObservedNotifier | None:
    """None: the settings switch it off."""
    address = settings.notify.metrics_address
    if not address:
        return None
    health = NotifierHealth()
    metrics, listener = observe_process(
        "notifier", address, HealthChecks(health.beat.find_fault, health.list_waits)
    )
    return ObservedNotifier(NotifierMetrics(metrics, health), health, listener)


def observe_process(process: Process, address: str, checks: HealthChecks) -> ObservedProcess:
    """The metrics of a process, with those of Python and of the operating system, and their listener."""
    registry = CollectorRegistry()
    for collect in (ProcessCollector, PlatformCollector, GCCollector):
        collect(registry=registry)
    metrics = ProcessMetrics(process, registry)
    return ObservedProcess(metrics, HttpListener(address, registry, checks))
