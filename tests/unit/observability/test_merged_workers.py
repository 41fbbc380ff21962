"""What several workers publish comes out at one address, each family once, each sample with its worker."""

from __future__ import annotations

import re
import socket
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.parser import text_string_to_metric_families

from load.installations.loopback_http import HttpAnswer, LoopbackServer
from sluice.observability.http_listener import HealthChecks, HttpListener
from sluice.observability.merged_workers import observe_workers

WELL = HealthChecks(lambda: None, list)


def start_worker(decided: int) -> HttpListener:
    """A worker's listener with a counter and a histogram."""
    registry = CollectorRegistry()
    Counter("decided_total", "What it decided.", ["outcome"], registry=registry).labels("allow").inc(decided)
    Histogram("took_seconds", "How long.", registry=registry, buckets=[1]).observe(0.5)
    listener = HttpListener("127.0.0.1:0", registry, WELL)
    listener.start()
    return listener


def read(listener: HttpListener, path: str) -> str:
    """The body of an answer."""
    with urllib.request.urlopen(f"http://127.0.0.1:{listener.port}{path}", timeout=10) as answer:
        return str(answer.read().decode())


def test_samples_of_all_that_answer_are_told_apart_by_their_worker() -> None:
    workers = [start_worker(3), start_worker(4)]
    waits = ["worker 1"]
    ports = {0: workers[0].port, 1: workers[1].port, 2: 1}
    merged = observe_workers("127.0.0.1:0", lambda: ports, lambda: waits)
    merged.start()
    try:
        text = read(merged, "/metrics")
        families = {family.name: family for family in text_string_to_metric_families(text)}
        told = {
            one.labels["worker"]: one.value for one in families["decided"].samples if "_total" in one.name
        }
        assert told == {"0": 3.0, "1": 4.0}
        assert (text.count("# TYPE decided_total counter"), text.count("# TYPE took_seconds histogram")) == (
            1,
            1,
        )
        buckets = [one for one in families["took_seconds"].samples if one.name == "took_seconds_bucket"]
        assert {(one.labels["worker"], one.labels["le"]) for one in buckets} == {
            (worker, bound) for worker in "01" for bound in ("1.0", "+Inf")
        }
        with pytest.raises(urllib.error.HTTPError, match="503"):
            read(merged, "/readyz")
        waits.clear()
        assert '"ready": true' in read(merged, "/readyz")
    finally:
        for listener in (merged, *workers):
            listener.stop()


def test_workers_that_hang_and_pages_that_are_none_hold_up_nothing_and_are_left_out() -> None:
    garbled = LoopbackServer(lambda _: HttpAnswer(200, b"garbled is no number\n"))
    hung = [socket.create_server(("127.0.0.1", 0)) for _ in range(6)]
    well = start_worker(3)
    ports = {number: one.getsockname()[1] for number, one in enumerate(hung)} | {
        6: garbled.port,
        7: well.port,
    }
    merged = observe_workers("127.0.0.1:0", lambda: ports, list)
    merged.start()
    try:
        began = time.monotonic()
        text = read(merged, "/metrics")
        assert time.monotonic() - began < 3
        assert set(re.findall(r'worker="(.)"', text)) == {"7"}
    finally:
        for listener in (merged, well):
            listener.stop()
        garbled.stop()
        for one in hung:
            one.close()
