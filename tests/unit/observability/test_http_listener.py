"""The listener of /metrics: what it answers, and that nobody holds it or its process up."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import httpx2
import pytest
from prometheus_client import CollectorRegistry

from load import PLAIN
from sluice.observability import http_listener
from sluice.observability.http_listener import (
    LONGEST_HEAD,
    MOST_CONNECTIONS,
    HealthChecks,
    HttpListener,
    ListenError,
    parse_address,
)
from sluice.observability.metrics import ProcessMetrics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

HEALTHY = HealthChecks(lambda: None, list)


@contextmanager
def listening(checks: HealthChecks = HEALTHY, registry: CollectorRegistry | None = None) -> Iterator[int]:
    """The port of a listener."""
    listener = HttpListener("127.0.0.1:0", registry or CollectorRegistry(), checks)
    listener.start()
    try:
        yield listener.port
    finally:
        listener.stop()


def get(port: int, path: str) -> httpx2.Response:
    return httpx2.get(f"http://127.0.0.1:{port}{path}", timeout=5, verify=PLAIN)


def send(port: int, sent: bytes, wait_s: float = 3.0) -> bytes:
    """What comes back to these bytes until the connection ends."""
    with socket.create_connection(("127.0.0.1", port), wait_s) as connection:
        try:
            connection.sendall(sent)
            return b"".join(iter(lambda: connection.recv(65536), b""))
        except (ConnectionError, TimeoutError):
            return b"ended"


def test_metrics_and_health_are_answered() -> None:
    registry = CollectorRegistry()
    ProcessMetrics("worker", registry).put("sluice_ready", {(): 1})
    with listening(registry=registry) as port:
        metrics = get(port, "/metrics")
        assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert "\nsluice_ready 1.0\n" in metrics.text
        assert get(port, "/metrics?name[]=x").status_code == 200
        assert (get(port, "/healthz").status_code, get(port, "/readyz").status_code) == (200, 200)
        head = httpx2.head(f"http://127.0.0.1:{port}/metrics", timeout=5)
        assert (head.status_code, head.content) == (200, b"")


def test_what_is_broken_and_what_is_waited_for_is_said() -> None:
    broken, waits = ["nothing is done"], ["policy: is not read yet"]
    with listening(HealthChecks(lambda: broken[0] if broken else None, lambda: waits)) as port:
        alive, ready = get(port, "/healthz"), get(port, "/readyz")
        assert (alive.status_code, alive.json()) == (503, {"alive": False, "broken": "nothing is done"})
        assert (ready.status_code, ready.json()) == (503, {"ready": False, "waits_for": waits})
        broken.clear()
        waits.clear()
        assert get(port, "/healthz").json() == {"alive": True, "broken": None}
        assert get(port, "/readyz").json() == {"ready": True, "waits_for": []}


@pytest.mark.parametrize(
    "path",
    ["/", "/metrics/", "//metrics", "/../metrics", "/metrics/../healthz", "/%6detrics", "/METRICS", "*"],
)
def test_there_is_no_other_path(path: str) -> None:
    with listening() as port:
        answered = send(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert answered.startswith(b"HTTP/1.1 404 "), answered


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", b"405"),
        (b"DELETE /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"CONNECT 10.0.0.1:80 HTTP/1.1\r\n\r\n", b"405"),
        (b"GET http://10.0.0.1/metrics HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"GET  /metrics HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /metrics SMTP\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
        (b"\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"a" * LONGEST_HEAD + b"\r\n\r\n", b"400"),
        (b"GET /" + b"a" * (3 * LONGEST_HEAD), b"400"),
    ],
)
def test_what_is_no_request_for_metrics_is_refused(sent: bytes, status: bytes) -> None:
    with listening() as port:
        answered = send(port, sent)
        # What was not read makes the kernel reset the connection, which may overtake the answer.
        assert answered.startswith(b"HTTP/1.1 " + status) or (answered == b"ended" and len(sent) > 1000)
        assert get(port, "/healthz").status_code == 200


def test_a_second_request_on_a_connection_is_not_answered() -> None:
    with listening() as port:
        request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        assert send(port, request * 50).count(b"HTTP/1.1 ") <= 1


def test_slow_clients_are_cut_off_and_keep_out_no_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listener, "HEAD_S", 1.0)
    with listening() as port, ExitStack() as held:
        slow = [
            held.enter_context(socket.create_connection(("127.0.0.1", port), 5))
            for _ in range(3 * MOST_CONNECTIONS)
        ]
        for one in slow:
            one.sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
        began = time.monotonic()
        assert get(port, "/healthz").status_code == 200
        assert time.monotonic() - began < 1.0
        for one in slow:
            one.settimeout(5)
            try:
                while one.recv(1024):
                    pass
            except ConnectionError:
                pass
        assert time.monotonic() - began < 4.0


def test_a_client_that_reads_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listener, "HEAD_S", 0.5)

    class Large:
        def collect(self) -> Iterator[Metric]:
            from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415

            yield GaugeMetricFamily("large", "x" * 20_000_000, value=1)

    registry = CollectorRegistry()
    registry.register(Large())
    with listening(registry=registry) as port, socket.socket() as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect(("127.0.0.1", port))
        lazy.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        time.sleep(1.5)
        assert get(port, "/healthz").status_code == 200
        lazy.settimeout(2)
        taken = 0
        try:
            while more := lazy.recv(1_000_000):
                taken += len(more)
        except OSError:
            pass
        assert taken < 20_000_000


def test_a_flood_of_scrapes_renders_few_times() -> None:
    class Counted(CollectorRegistry):
        rendered = 0

        def collect(self) -> Iterator[Metric]:
            self.rendered += 1
            return iter(())

    registry = Counted()
    with listening(registry=registry) as port:
        began = time.monotonic()
        for _ in range(100):
            assert get(port, "/metrics").status_code == 200
        took_s = time.monotonic() - began
    assert registry.rendered <= 2 + took_s / http_listener.RENDER_S


def test_the_process_goes_on_while_the_listener_is_flooded() -> None:
    with listening() as port:
        stop = threading.Event()

        def flood() -> None:
            while not stop.is_set():
                send(port, b"GET /metrics HTTP/1.1\r\n\r\n", 1.0)

        threads = [threading.Thread(target=flood, daemon=True) for _ in range(4)]
        for one in threads:
            one.start()
        gaps = []
        for _ in range(100):
            before = time.monotonic()
            time.sleep(0.002)
            gaps.append(time.monotonic() - before)
        stop.set()
        for one in threads:
            one.join(5)
    assert sorted(gaps)[len(gaps) // 2] < 0.2


def test_an_address_that_cannot_be_listened_on_is_named() -> None:
    with listening() as port, pytest.raises(ListenError, match=f"127.0.0.1:{port}: "):
        HttpListener(f"127.0.0.1:{port}", CollectorRegistry(), HEALTHY).start()


@pytest.mark.parametrize("text", ["", "9464", ":9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "a:b"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no address"):
        parse_address(text)


def test_addresses() -> None:
    assert parse_address("127.0.0.1:9464") == ("127.0.0.1", 9464)
    assert parse_address("[::1]:0") == ("::1", 0)
    assert json.dumps(parse_address("metrics.internal:1")) == '["metrics.internal", 1]'
