"""The metrics of the gateway and of the notifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sluice.observability.health import NotifierHealth
    from sluice.observability.metrics import ProcessMetrics

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class GatewayMetrics:
    """Counts requests."""

    def __init__(self, metrics: ProcessMetrics) -> None:
        self._metrics = metrics

    def observe(self, method: str, template: str | None, status: int, took_s: float) -> None:
        """Count one. `template`: of its path, None for a path that there is not."""
        route = template or "none"
        counted = method if method in METHODS else "OTHER"
        self._metrics.add("sluice_gateway_requests_total", {(counted, route, str(status)): 1})
        self._metrics.observe("sluice_gateway_request_seconds", {(route,): (took_s,)})


class NotifierMetrics:
    """Counts deliveries, and passes on how far destinations are."""

    def __init__(self, metrics: ProcessMetrics, health: NotifierHealth) -> None:
        self._metrics = metrics
        self._health = health

    def note_delivery(self, destination: str, result: Literal["delivered", "put_off", "fault"]) -> None:
        """See DeliveryObserver."""
        self._metrics.add("sluice_notifications_total", {(destination, result): 1})

    def note_backlog(self, destination: str, waiting: int, *, caught_up: bool) -> None:
        """See DeliveryObserver."""
        self._health.note_backlog(destination, caught_up=caught_up)
        self._metrics.put_one("sluice_notifications_waiting", (destination,), waiting)
