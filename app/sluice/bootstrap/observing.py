"""Builds what a process shows of itself from its settings: metrics, their listener, health."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from sluice.observability.health import FollowerHealth, GatewayHealth, NotifierHealth, WorkerHealth
from sluice.observability.http_listener import HealthChecks, HttpListener
from sluice.observability.metrics import ProcessMetrics
from sluice.observability.observers import EngineObservers
from sluice.observability.service_metrics import (
    ArchiverMetrics,
    GatewayMetrics,
    NotifierMetrics,
    SignerMetrics,
)
from sluice.observability.worker_metrics import WorkerMetrics
from sluice.stream.process import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sluice.observability.metric_definitions import Process
    from sluice.observability.traces import RequestTraces, SpanWriter
    from sluice.settings.reader import Settings
    from sluice.stream.engine.observer import EngineObserver


class TracesUnavailable(Exception):
    """The settings ask for traces, and the extra `traces` is not installed."""


def build_span_writer(settings: Settings, service: str) -> SpanWriter | None:
    """None: the settings switch traces off. Raises TracesUnavailable."""
    traces_settings = settings.traces
    if not traces_settings.endpoint:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - an extra

        from sluice.observability.traces import SpanWriter, TraceSettings  # noqa: PLC0415 - as above
    except ImportError:
        raise TracesUnavailable("traces.endpoint: install the extra `traces`") from None
    traced = TraceSettings(service, traces_settings.share, traces_settings.max_per_s)
    return SpanWriter(OTLPSpanExporter(traces_settings.endpoint, timeout=EXPORT_S), traced)


class ObservedProcess(NamedTuple):
    """A process's metrics, and the listener that serves them, not started."""

    metrics: ProcessMetrics
    listener: HttpListener


EXPORT_S = 5.0
"""Within which an endpoint must have taken spans, or they are dropped."""
FLUSH_S = 2.0
"""How long a process that was asked to stop waits for its last spans."""


Health = WorkerHealth | GatewayHealth | NotifierHealth | FollowerHealth


class ObservedWorker(NamedTuple):
    """A worker's observer, and the listener that serves what it counts, not started; None: nothing is
    served. `flush`: hands on the spans that are left, within FLUSH_S."""

    observer: EngineObserver
    listener: HttpListener | None
    flush: Callable[[], None]


def observe_worker(settings: Settings, beat_file: Path | None = None) -> ObservedWorker | None:
    """`beat_file`: touched while the worker's loop turns. None: the settings switch all of it off, and there
    is no such file. Raises TracesUnavailable."""
    address, spans = settings.worker.metrics_address, build_span_writer(settings, "sluice-worker")
    observers: list[EngineObserver] = []
    if spans is not None:
        from sluice.observability.traces import WorkerTraces  # noqa: PLC0415 - an extra

        observers.append(WorkerTraces(spans))
    health = WorkerHealth(beat_file)
    if address or beat_file is not None:
        observers.append(health)
    flush = partial(spans.flush, FLUSH_S) if spans is not None else _flush_nothing
    if not address:
        return ObservedWorker(EngineObservers(observers), None, flush) if observers else None
    metrics, listener = observe_process("worker", address, health)
    counted = WorkerMetrics(metrics, SystemClock().wall_ms)
    return ObservedWorker(EngineObservers([counted, *observers]), listener, flush)


def _flush_nothing() -> None:
    return None


class ObservedGateway(NamedTuple):
    """A gateway's counter of requests, its health, and their listener, not started; None: it is off."""

    metrics: GatewayMetrics
    health: GatewayHealth
    listener: HttpListener


def trace_gateway(settings: Settings) -> RequestTraces | None:
    """None: the settings switch it off. Raises TracesUnavailable."""
    spans = build_span_writer(settings, "sluice-gateway")
    if spans is None:
        return None
    from sluice.observability.traces import RequestTraces  # noqa: PLC0415 - an extra

    return RequestTraces(spans)


def observe_gateway(settings: Settings) -> ObservedGateway | None:
    """None: the settings switch it off."""
    address = settings.gateway.metrics_address
    if not address:
        return None
    health = GatewayHealth()
    metrics, listener = observe_process("gateway", address, health)
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
    metrics, listener = observe_process("notifier", address, health)
    return ObservedNotifier(NotifierMetrics(metrics, health), health, listener)


class ObservedSigner(NamedTuple):
    """What a head signer tells of itself, and the listener that serves it, not started."""

    metrics: SignerMetrics
    listener: HttpListener


def observe_signer(settings: Settings) -> ObservedSigner | None:
    """None: the settings switch it off."""
    address = settings.heads.metrics_address
    if not address:
        return None
    health = FollowerHealth("ledger: it is not read to its end yet, so no head was signed")
    metrics, listener = observe_process("signer", address, health)
    return ObservedSigner(SignerMetrics(metrics, health), listener)


class ObservedArchiver(NamedTuple):
    """The same of an archiver."""

    metrics: ArchiverMetrics
    listener: HttpListener


def observe_archiver(settings: Settings) -> ObservedArchiver | None:
    """None: the settings switch it off."""
    address = settings.archive.metrics_address
    if not address:
        return None
    health = FollowerHealth("topics: what lay there at the start is not archived yet")
    metrics, listener = observe_process("archiver", address, health)
    return ObservedArchiver(ArchiverMetrics(metrics, health), listener)


def observe_process(process: Process, address: str, health: Health) -> ObservedProcess:
    """The metrics of a process, with those of Python and of the operating system, and their listener."""
    registry = CollectorRegistry()
    for collect in (ProcessCollector, PlatformCollector, GCCollector):
        collect(registry=registry)
    metrics = ProcessMetrics(process, registry)
    checks = HealthChecks(health.beat.find_fault, health.list_waits)
    return ObservedProcess(metrics, HttpListener(address, registry, checks))
