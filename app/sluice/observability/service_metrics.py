"""The metrics of the gateway, the notifier, the head signer and the archiver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sluice.observability.health import FollowerHealth, NotifierHealth
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


class SignerMetrics:
    """See HeadObserver: counts heads, and says how old the newest one is and what it does not state."""

    def __init__(self, metrics: ProcessMetrics, health: FollowerHealth) -> None:
        self._metrics = metrics
        self._health = health

    def note_head(self, signed_at_ms: int, *, is_own: bool) -> None:
        """A head that is on the topic."""
        self._metrics.put_one("sluice_head_timestamp_seconds", (), signed_at_ms / 1000)
        if is_own:
            self._metrics.add("sluice_heads_signed_total", {(): 1})

    def note_progress(self, unsigned: int, *, is_whole: bool) -> None:
        """How far the ledger is read."""
        self._health.note_progress(is_whole=is_whole)
        self._metrics.put_one("sluice_unsigned_records", (), max(0, unsigned))


class ArchiverMetrics:
    """See ArchiveObserver: counts records, and says up to when the archive is whole."""

    def __init__(self, metrics: ProcessMetrics, health: FollowerHealth) -> None:
        self._metrics = metrics
        self._health = health

    def note_entry(self, records: int) -> None:
        """An entry that the archive has."""
        self._metrics.add("sluice_archived_records_total", {(): records})

    def note_whole(self, at_ms: int, *, is_start: bool) -> None:
        """Everything that lay on the broker then is archived; at the start the last entry's time, 0: none."""
        self._health.note_progress(is_whole=not is_start)
        if at_ms:
            self._metrics.put_one("sluice_archive_timestamp_seconds", (), at_ms / 1000)
