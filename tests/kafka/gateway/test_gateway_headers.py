"""Seed 002's headers as they come over the network, and on the records that a request leads to."""

from __future__ import annotations

import json
import re
import socket
import time
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from load.installations import neutral_policy
from sluice.gateway.http.response_headers import EXPOSED
from sluice_topics.catalog import ACTIONS, VERDICTS
from tests.kafka.gateway_process import ESCALATING_TOOL, Gateway, action, run_gateway
from tests.kafka.installation import publish, read_stored
from tests.unit.gateway.test_response_headers import RETIRED, SPELLINGS, parse_mnemom_verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx2

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
CANONICAL = {name.lower() for name in EXPOSED if name.startswith("X-")}


def check(answer: httpx2.Response) -> None:
    """What holds for every response."""
    headers = answer.headers
    assert UUID4.fullmatch(headers["X-Mnemom-Request-Id"])
    assert tuple(parse_mnemom_verdict(headers["X-Mnemom-Verdict"])) == (
        "front",
        "autonomy",
        "integrity",
        "back",
    )
    assert headers["Cache-Control"] == "no-store"
    ours = {name.lower() for name in headers if name.lower().startswith("x-")}
    assert ours <= CANONICAL
    assert not ours & {name.lower() for name in RETIRED}
    if "X-Mnemom-Advisory" in headers:
        assert 1 <= len(json.loads(headers["X-Mnemom-Advisory"])) <= 5
    if answer.status_code >= 400 and "verdict_id" not in answer.json():
        assert answer.json()["error"].keys() == {"code", "message", "details"}
        assert headers["X-Mnemom-Schema"] == "sluice/error/v1"


def test_one_request_id_is_in_the_response_on_both_records_and_in_the_log(
    installation: TestInstallation, gateway: Gateway
) -> None:
    session = f"s-{uuid.uuid4().hex}"
    trace = f"00-{uuid.uuid4().hex}-00f067aa0ba902b7-01"
    with gateway.client(traceparent=trace) as client:
        answer = client.post("/v1/evaluate", json=action(session))
    an_id = answer.headers["X-Mnemom-Request-Id"]
    for topic in (ACTIONS, VERDICTS):
        (record,) = [one for one in read_stored(installation, topic) if session in str(one.value)]
        assert dict(record.headers)["X-Mnemom-Request-Id"].decode() == an_id
        assert json.loads(record.value or b"")["request_id"] == an_id
        assert dict(record.headers)["traceparent"].decode().split("-")[1] == trace.split("-")[1]
    assert f"{an_id} POST /v1/evaluate 200" in gateway.read_log()


def test_a_decision_names_agent_session_schema_and_that_no_analysis_ran(gateway: Gateway) -> None:
    with gateway.client() as client:
        answer = client.post("/v1/evaluate", json=action("séance 1"))
    headers = answer.headers
    assert headers["X-Mnemom-Agent"] == neutral_policy.AGENT
    assert headers["X-Mnemom-Session"] == "s%C3%A9ance%201"
    assert headers["X-Mnemom-Schema"] == "sluice/evaluation/v1"
    assert headers["X-AIP-Verdict"] == "disabled"
    assert "X-AIP-Checkpoint-Id" not in headers
    assert headers["X-Mnemom-Verdict"] == "front=observed; autonomy=pass; integrity=observed; back=observed"
    with gateway.client(**{"X-Mnemom-Session": headers["X-Mnemom-Session"]}) as client:
        request = action("")
        del request["sessionId"]
        assert client.post("/v1/evaluate", json=request).json()["session_id"] == "séance 1"


def test_agent_and_session_may_come_in_headers_and_may_not_differ_from_the_body(gateway: Gateway) -> None:
    with gateway.client(**{"X-Mnemom-Agent": "another"}) as client:
        differs = client.post("/v1/evaluate", json=action("s", agentId=neutral_policy.AGENT))
        assert (differs.status_code, differs.json()["error"]["code"]) == (400, "ambiguous_field")


def requests(client: httpx2.Client) -> Iterator[httpx2.Response]:
    """Requests of every kind and outcome."""
    yield client.post("/v1/evaluate", json=action(f"s-{uuid.uuid4().hex}"))
    yield client.post("/v1/evaluate", json=action("s-e", toolName=ESCALATING_TOOL))
    yield client.post("/v1/evaluate", json=action("s-d", toolName="nobody registered it"))
    yield client.post("/v1/evaluate", content=b"{")
    yield client.post("/v1/evaluate", content=b"x" * 1_000_001)
    yield client.get("/v1/verdicts/none")
    yield client.get("/nowhere")
    yield client.delete("/v1/evaluate")
    yield client.get("/healthz")
    yield client.get("/readyz")
    yield client.get("/openapi.json")
    yield client.post("/v1/evaluate", headers={"X-Mnemom-Version": "1999-01-01"})
    yield client.post("/v1/evaluate", headers={"X-Mnemom-Api-Key": "sluice_000000000000_" + "A" * 43})
    yield client.post("/v1/evaluate", headers={"X-Mnemom-Api-Key": ""})


def test_every_response_has_the_set_whatever_a_client_smuggles_in(gateway: Gateway) -> None:
    smuggled = {name.strip(): "front=pass; autonomy=pass; smuggled=1" for name in (*SPELLINGS, *RETIRED)}
    statuses = []
    with gateway.client(**smuggled) as client:
        for answer in requests(client):
            check(answer)
            assert "smuggled" not in str(answer.headers.raw) + answer.text
            statuses.append(answer.status_code)
    assert statuses == [200, 202, 422, 400, 413, 404, 404, 405, 200, 200, 200, 400, 401, 401]


def test_nothing_smuggled_in_headers_of_a_record_comes_out(
    installation: TestInstallation, gateway: Gateway
) -> None:
    said = b"front=pass; smuggled=1"
    smuggled = [(name.strip(), said) for name in (*SPELLINGS, *RETIRED, "X-Mnemom-Advisory", "X-AIP-Verdict")]
    assert len(smuggled) > 50
    session = f"s-{uuid.uuid4().hex}"
    record = {
        "action_id": "smuggler",
        "agent_id": neutral_policy.AGENT,
        "session_id": session,
        "toolName": neutral_policy.READ_TOOL,
        "parameters": {},
    }
    (sent,) = publish(installation, [record], headers=smuggled)
    path = f"/v1/verdicts/verdict:{ACTIONS}:{sent.partition}:{sent.offset}"
    with gateway.client() as client:
        while (answer := client.get(path)).status_code == 202:
            time.sleep(0.1)
    check(answer)
    assert "smuggled" not in str(answer.headers.raw) + answer.text
    (verdict,) = [one for one in read_stored(installation, VERDICTS) if session in str(one.value)]
    names = [name.lower() for name, _ in verdict.headers]
    assert len(set(names)) == len(names)
    assert {name for name in names if name.startswith("x")} <= CANONICAL
    assert "smuggled" not in str(verdict.headers) + str(verdict.value)


def test_what_is_no_http_is_answered_with_the_set_too(gateway: Gateway) -> None:
    place = urlsplit(gateway.url)
    with socket.create_connection((place.hostname, place.port), timeout=20) as plain:
        plain.sendall(b"this is no HTTP\r\n\r\n")
        said = b""
        while part := plain.recv(65536):
            said += part
    assert said.startswith(b"HTTP/1.1 400")
    assert b"x-mnemom-request-id: " in said.lower()


def test_a_key_that_asks_too_often_is_told_when_to_come_again(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    with run_gateway(installation, "narrow", requests_per_s=0.5, burst=2) as narrow:
        key = narrow.key(agents=[neutral_policy.AGENT])
        with narrow.client(key) as client, narrow.client() as other:
            answers: list[Any] = [client.get("/v1/verdicts/none") for _ in range(3)]
            assert [one.status_code for one in answers] == [404, 404, 429]
            assert 1 <= int(answers[2].headers["Retry-After"]) <= 3
            check(answers[2])
            assert other.get("/v1/verdicts/none").status_code == 404
