"""What processes on a real broker show of themselves: metrics, health, and log lines."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from load import PLAIN
from load.installations.loopback_http import HttpAnswer, HttpCall, serve_http
from load.installations.worker_process import WorkerProcess
from sluice.broker.handle import find_free_ports
from sluice.observability.metric_definitions import BY_NAME
from sluice_topics.catalog import ACTIONS, DEAD_LETTERS, VERDICTS
from tests.kafka.gateway_process import action as request
from tests.kafka.gateway_process import run_gateway
from tests.kafka.installation import (
    END_S,
    action,
    installation_on,
    publish,
    read_stored,
    wait_for,
    wait_until,
)
from tests.kafka.notifier_process import endpoint, run_notifier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.installation import TestInstallation

pytestmark = pytest.mark.kafka
SESSION = "observed"
REQUEST = "sluice.request POST /v1/evaluate"
PAYLOAD = "4111-1111-1111-1111"
"""In parameters and in what cannot be read: nothing that is shown may have it."""


def scrape(address: str) -> dict[str, dict[str, float]]:
    """What is shown at an address: values by name, and by labels as `name=value` in the order of names."""
    text = httpx2.get(f"http://{address}/metrics", timeout=10, verify=PLAIN).text
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def status(address: str, path: str) -> int:
    return httpx2.get(f"http://{address}{path}", timeout=10, verify=PLAIN).status_code


@dataclass
class Collector:
    """Takes spans, as OpenTelemetry's collector does."""

    url: str = ""
    spans: list[Any] = field(default_factory=list)


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    found = Collector()

    def take(call: HttpCall) -> HttpAnswer:
        body = gzip.decompress(call.body) if call.headers.get("Content-Encoding") == "gzip" else call.body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            found.spans += [span for scope in resource.scope_spans for span in scope.spans]
        return HttpAnswer()

    with serve_http(take) as url:
        found.url = f"{url}/v1/traces"
        yield found


@pytest.fixture(scope="module")
def address() -> str:
    (port,) = find_free_ports(1)
    return f"127.0.0.1:{port}"


@pytest.fixture(scope="module")
def installation(
    kafka: str,
    module_prefix: str,
    tmp_path_factory: pytest.TempPathFactory,
    address: str,
    collector: Collector,
) -> TestInstallation:
    named = module_prefix.rstrip(".")
    settings = {
        "SLUICE_WORKER__METRICS_ADDRESS": address,
        "SLUICE_TRACES__ENDPOINT": collector.url,
        "SLUICE_TRACES__SHARE": "0",
    }
    return installation_on(kafka, tmp_path_factory.mktemp("observed"), named, **settings)


@pytest.fixture(scope="module")
def worker(installation: TestInstallation, address: str) -> Iterator[WorkerProcess]:
    """A worker in its first life, asked for its health from its first moment on."""
    worker = WorkerProcess(installation, "worker", 0.0)
    seen: list[tuple[int, int]] = []

    def is_ready() -> bool:
        try:
            seen.append((status(address, "/healthz"), status(address, "/readyz")))
        except httpx2.TransportError:
            return False
        return seen[-1][1] == 200

    try:
        wait_until(is_ready, worker)
        assert (200, 503) in seen, "it said that it was ready before it was"
        assert worker.partitions()
        yield worker
    finally:
        code = worker.end(END_S)
    assert code == 0, worker.last_words()


def test_a_workers_metrics_say_what_was_decided(
    installation: TestInstallation, worker: WorkerProcess, address: str
) -> None:
    broken = (SESSION.encode(), f'{{"card": "{PAYLOAD}"'.encode())
    hidden = {"parameters": {"card": PAYLOAD}}
    publish(installation, [*(action(SESSION, f"a-{number}", **hidden) for number in range(20)), broken])
    wait_for(installation, VERDICTS, SESSION, 20, worker)
    wait_until(lambda: bool(read_stored(installation, DEAD_LETTERS)), worker)
    wait_until(lambda: scrape(address)["sluice_consumer_lag"][f"topic={ACTIONS}"] == 0, worker)
    found = scrape(address)
    assert sum(found["sluice_verdicts_total"].values()) == 20
    assert found["sluice_verdicts_total"]["enforcement=enforce,gate=none,outcome=ALLOW"] == 20
    assert found["sluice_dead_letters_total"] == {f"code=not_json,topic={ACTIONS}": 1}
    assert found["sluice_input_seconds_count"][f"stage=whole,topic={ACTIONS}"] == 21
    whole_s = found["sluice_input_seconds_sum"][f"stage=whole,topic={ACTIONS}"] / 21
    assert 0.0005 < whole_s < 30
    assert found["sluice_partitions_open"][""] == found["sluice_partitions_fenced_total"][""] == 8
    assert found["sluice_ready"][""] == 1
    assert found["sluice_state_bytes"][""] > found["sluice_state_entries"][""] > 8
    assert found["sluice_commit_seconds_count"][""] >= 1
    assert len(found["sluice_policy_in_force"]) == 1
    read_s, changed_s = (found[f"sluice_policy_{what}_timestamp_seconds"][""] for what in ("read", "changed"))
    assert abs(read_s - time.time()) < 60 > abs(changed_s - time.time())
    assert found["process_resident_memory_bytes"][""] > 0
    ours = {re.sub("_(bucket|count|sum)$", "", name) for name in found if name.startswith("sluice_")}
    assert ours <= BY_NAME.keys()
    shown = httpx2.get(f"http://{address}/metrics", timeout=10, verify=PLAIN).text
    assert SESSION not in shown
    assert "a-1" not in shown
    assert PAYLOAD not in shown


def test_a_healthy_first_start_logs_no_error(installation: TestInstallation, worker: WorkerProcess) -> None:
    log = worker.log.read_text(encoding="utf-8")
    assert "ready: deciding for partitions" in log
    assert not re.search(r"\b(ERROR|CRITICAL)\b", log), log
    assert PAYLOAD not in log


def test_a_gateways_requests_are_counted_by_route(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    (port,) = find_free_ports(1)
    address = f"127.0.0.1:{port}"
    with run_gateway(installation, metrics_address=address) as gateway:
        assert (status(address, "/healthz"), status(address, "/readyz")) == (200, 200)
        with gateway.client() as client:
            assert client.post("/v1/evaluate", json=request("gateway-session")).status_code == 200
            assert client.get("/v1/no/such/path").status_code == 404
            assert client.get("/metrics").status_code == 404
        found = scrape(address)
        assert found["sluice_gateway_requests_total"]["method=POST,route=/v1/evaluate,status=200"] == 1
        assert found["sluice_gateway_requests_total"]["method=GET,route=none,status=404"] == 2
        assert found["sluice_gateway_request_seconds_count"]["route=/v1/evaluate"] == 1
        assert not re.search(r" (ERROR|CRITICAL) ", gateway.read_log()), gateway.read_log()


def test_a_notifier_is_ready_once_it_has_read_what_there_is(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    (port,) = find_free_ports(1)
    address = f"127.0.0.1:{port}"
    with endpoint() as hook:
        settings = {
            "SLUICE_NOTIFY__WEBHOOKS": f'[{{"name": "ops", "url": "{hook.url}", "secret": "{"s" * 24}"}}]',
            "SLUICE_NOTIFY__METRICS_ADDRESS": address,
        }
        with run_notifier(installation, settings) as notifier:

            def is_ready() -> bool:
                try:
                    return status(address, "/readyz") == 200
                except httpx2.TransportError:
                    return False

            notifier.wait_until(is_ready)
            assert status(address, "/healthz") == 200
            assert scrape(address)["sluice_notifications_waiting"] == {"destination=webhook ops": 0}
            assert not re.search(r" (ERROR|CRITICAL) ", notifier.read_log()), notifier.read_log()


def test_decisions_are_exported_once_and_a_restart_goes_on_where_it_ended(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = "exported"
    publish(
        installation, [action(session, f"e-{number}", parameters={"card": PAYLOAD}) for number in range(6)]
    )
    wait_for(installation, VERDICTS, session, 6, worker)
    first = export(installation, "--look-back", "3600")
    assert len([one for one in first if one["actor"]["session"]["uid"] == session]) == 6
    assert len({one["metadata"]["uid"] for one in first}) == len(first)
    publish(installation, [action(session, "e-later")])
    wait_for(installation, VERDICTS, session, 7, worker)
    (later,) = export(installation)
    assert (later["resources"], later["disposition"]) == ([{"uid": "e-later"}], "Allowed")
    assert PAYLOAD not in json.dumps(first)


def test_a_callers_trace_goes_through_gateway_and_worker_and_both_send_it_before_they_end(
    installation: TestInstallation, worker: WorkerProcess, collector: Collector
) -> None:
    trace_id, caller = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    assert collector.spans == []  # nobody else asked
    header = f"00-{trace_id}-{caller}-01"
    with run_gateway(installation, "traced") as gateway, gateway.client(traceparent=header) as client:
        body = request("traced-session", parameters={"card": PAYLOAD})
        assert client.post("/v1/evaluate", json=body).status_code == 200
    assert REQUEST in {one.name for one in collector.spans}  # it has ended, and kept none back
    assert worker.end(END_S) == 0
    assert "sluice.commit" in {one.name for one in collector.spans}
    spans = {one.name: one for one in collector.spans}
    assert {one.trace_id.hex() for one in collector.spans} == {trace_id}
    assert spans[REQUEST].parent_span_id.hex() == caller
    assert spans["sluice.decide"].parent_span_id == spans[REQUEST].span_id
    assert spans["sluice.commit"].parent_span_id == spans["sluice.decide"].span_id
    gates = [one for one in collector.spans if one.name.startswith("sluice.gate ")]
    assert gates
    assert {one.parent_span_id for one in gates} == {spans["sluice.decide"].span_id}
    (record,) = [
        one for one in read_stored(installation, VERDICTS) if b"traced-session" in (one.value or b"")
    ]
    written = dict(record.headers)["traceparent"]
    assert written is not None
    assert written.decode() == f"00-{trace_id}-{spans['sluice.decide'].span_id.hex()}-01"
    assert PAYLOAD not in "".join(map(str, collector.spans))


def export(installation: TestInstallation, *options: str) -> list[dict[str, Any]]:
    """The events that `sluice export` writes before it waits for more."""
    words = [sys.executable, "-m", "sluice", "export", "--timeout", "4", *options]
    own = {key: value for key, value in os.environ.items() if not key.startswith(("SLUICE_", "KAFKA_"))}
    done = subprocess.run(
        words, env={**own, **installation.settings}, capture_output=True, timeout=120, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]
