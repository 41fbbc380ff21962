"""The gateway before a real worker: an agent that speaks HTTP gets the verdict that the worker committed."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from load.installations import neutral_policy
from sluice.adapters.kafka.kafka_tree_heads import HeadLimits, HeadSigner
from sluice.core.trust.tree_heads import HeadKeys, HeadSeries
from sluice.gateway.openapi_shapes import EvaluationResponse
from sluice.stream.engine.outbox import home_of
from sluice.verifier.head_check import HeadSigners
from sluice.verifier.head_proof_check import check_proof
from sluice_topics.catalog import ACTIONS, VERDICTS
from tests.kafka.gateway_process import (
    ESCALATING_TOOL,
    OTHER_AGENT,
    OTHER_TENANT,
    SHADOW_AGENT,
    SHADOW_TENANT,
    Gateway,
    action,
)
from tests.kafka.installation import publish, read_stored
from tests.unit.core.trust.scene import key as make_key

if TYPE_CHECKING:
    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
PURGE = neutral_policy.PURGE_TOOL


def new_session() -> str:
    return f"s-{uuid.uuid4().hex}"


def deny(session: str, **more: Any) -> dict[str, Any]:
    return action(session, toolName=PURGE, rows_affected=neutral_policy.PURGE_LIMIT + 1, **more)


def test_an_allowed_action_is_answered_with_the_committed_verdict(
    installation: TestInstallation, gateway: Gateway
) -> None:
    session = new_session()
    with gateway.client() as client:
        answer = client.post("/v1/evaluate", json=action(session, traceId="t-1"))
    assert answer.status_code == 200
    told = EvaluationResponse.model_validate(answer.json())
    assert (told.verdict, told.outcome, told.session_id, told.trace_id) == (
        "allowed",
        "ALLOW",
        session,
        "t-1",
    )
    (record,) = [one for one in read_stored(installation, VERDICTS) if session in str(one.value)]
    committed = json.loads(record.value or b"")
    for name in ("verdict_id", "outcome", "tier", "rerun_hash", "gateResults", "rule_results"):
        assert answer.json()[name] == committed[name]
    assert answer.json()["evaluationMs"] == pytest.approx(
        sum(one["durationMs"] for one in committed["gateResults"]), abs=0.001
    )


@pytest.mark.parametrize(
    ("mode", "tool", "status", "verdict"),
    [
        ("high_stakes", PURGE, 422, "denied"),
        ("ENFORCE", PURGE, 422, "denied"),
        ("standard", PURGE, 200, "denied"),
        ("high_stakes", ESCALATING_TOOL, 202, "needs_human"),
        ("standard", ESCALATING_TOOL, 200, "needs_human"),
        ("ENFORCE", neutral_policy.READ_TOOL, 200, "allowed"),
    ],
)
def test_the_mode_says_whether_a_verdict_holds_the_caller_up(
    gateway: Gateway, mode: str, tool: str, status: int, verdict: str
) -> None:
    rows = neutral_policy.PURGE_LIMIT + 1 if tool == PURGE else 1
    with gateway.client() as client:
        answer = client.post(
            "/v1/evaluate", json=action(new_session(), mode=mode, toolName=tool, rows_affected=rows)
        )
    body = answer.json()
    assert (answer.status_code, body["verdict"]) == (status, verdict)
    assert ("error" in body) == (status != 200)
    assert (body["escalationId"] is not None) == (status == 202)
    assert answer.headers["X-Mnemom-Verdict"].split("; ")[1] == (
        f"autonomy={'pass' if verdict == 'allowed' else 'observed' if mode == 'standard' else 'enforced'}"
    )


def test_a_denied_actions_body_is_an_error_in_place_of_the_tools_result(gateway: Gateway) -> None:
    with gateway.client() as client:
        body = client.post("/v1/evaluate", json=deny(new_session())).json()
    assert body["error"]["code"] == "irreversible_rows"
    assert body["error"]["details"]["gate"] == "fast_reject"
    assert body["error"]["details"]["to_do"]


def test_seed_000s_form_is_answered_too(gateway: Gateway) -> None:
    request = {
        "proposed_action": {"action": neutral_policy.READ_TOOL, "value": {"table": "orders"}},
        "policy_bundle_id": neutral_policy.BUNDLE,
        "mode": "high_stakes",
    }
    with gateway.client() as client:
        answer = client.post("/v1/evaluate", json=request)
    assert answer.status_code == 200
    assert {"verdict", "rule_results", "evidence_refs", "rerun_hash"} <= answer.json().keys()


def test_shadow_is_for_tenants_in_shadow(gateway: Gateway) -> None:
    request = deny(new_session(), mode="SHADOW")
    with gateway.client() as client:
        refused = client.post("/v1/evaluate", json=request)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "not_in_shadow")
    with gateway.client(gateway.key(SHADOW_TENANT, [SHADOW_AGENT])) as client:
        answer = client.post("/v1/evaluate", json=request)
    assert (answer.status_code, answer.json()["outcome"]) == (200, "ALLOW")
    assert answer.json()["shadowOutcome"] == "BLOCK"


async def test_a_verdict_is_proven_to_be_in_the_ledger_of_a_head_and_only_to_its_tenant(
    installation: TestInstallation, gateway: Gateway
) -> None:
    key = make_key("heads")
    with gateway.client() as client:
        made = await asyncio.to_thread(client.post, "/v1/evaluate", json=action(new_session()))
        way = f"/v1/verdicts/{made.json()['verdict_id']}/proof"
        early = await asyncio.to_thread(client.get, way)
        assert (early.status_code, early.json()["error"]["code"]) == (409, "no_tree_head")
        audience = installation.trust.make_audience(installation.prefix)
        series = HeadSeries(HeadKeys([key.public]), audience)
        signer = HeadSigner(installation.bootstrap_servers, series, [key], HeadLimits(1, 1))
        assert await signer.run(once=True) is not None
        proof = await asyncio.to_thread(client.get, way)
    assert (proof.status_code, proof.json()["schema"]) == (200, "sluice/inclusion_proof/v1")
    signers = HeadSigners([key.public.text], audience.installation)
    assert check_proof(proof.content, signers).holds
    with gateway.client(gateway.key(OTHER_TENANT)) as client:
        assert (await asyncio.to_thread(client.get, way)).status_code == 404


def test_a_verdict_is_found_again_by_its_id_and_only_by_its_tenant(gateway: Gateway) -> None:
    with gateway.client() as client:
        first = client.post("/v1/evaluate", json=action(new_session())).json()
        again = client.get(f"/v1/verdicts/{first['verdict_id']}")
        assert (again.status_code, again.json()) == (200, first)
        for unknown in ("verdict:gate.actions.proposed:0:999999", "verdict:gate.bundles:0:0", "x", "%00"):
            assert client.get(f"/v1/verdicts/{unknown}").status_code == 404
    for key in (gateway.key(OTHER_TENANT), gateway.key(agents=["load-other"])):
        with gateway.client(key) as client:
            assert client.get(f"/v1/verdicts/{first['verdict_id']}").status_code == 404


def test_an_action_from_kafka_is_found_over_http(installation: TestInstallation, gateway: Gateway) -> None:
    session = new_session()
    record = {
        "action_id": "by-kafka",
        "agent_id": neutral_policy.AGENT,
        "session_id": session,
        "toolName": neutral_policy.READ_TOOL,
        "parameters": {},
    }
    (sent,) = publish(
        installation, [record], headers=[("X-Mnemom-Verdict", b"front=pass"), ("x-aip-verdict", b"clear")]
    )
    with gateway.client() as client:
        while True:
            answer = client.get(f"/v1/verdicts/verdict:{ACTIONS}:{sent.partition}:{sent.offset}")
            if answer.status_code != 202:
                break
            assert answer.json()["status"] == "pending"
    assert answer.json()["action_id"] == "by-kafka"
    (verdict,) = [one for one in read_stored(installation, VERDICTS) if session in str(one.value)]
    headers = {name.lower(): value for name, value in verdict.headers}
    assert len(headers) == len(verdict.headers)
    assert headers["x-mnemom-verdict"].startswith(b"front=observed; autonomy=pass")
    assert headers["x-aip-verdict"] == b"disabled"


@pytest.mark.parametrize(
    ("body", "code", "path"),
    [
        (b"", "empty", "$"),
        (b"[]", "wrong_type", "$"),
        (b'{"toolName": "t", "tool_name": "t"}', "ambiguous_field", "$.toolName"),
        (b'{"toolName": NaN}', "not_finite", "$.toolName"),
        (b'{"a": 1, "a": 2}', "duplicate_key", "$.a"),
        (b'{"toolName": "\xff"}', "not_utf8", "$.toolName"),
        (b'{"parameters": {}}', "missing_field", "$.toolName"),
        (b'{"toolName": "t", "parameters": {}, "surprise": 1}', "unknown_field", "$.surprise"),
        (b'{"toolName": "t", "parameters": {}, "request_id": "mine"}', "unknown_field", "$.request_id"),
        (b'{"toolName": "t", "parameters": {}, "rows_affected": -1}', "invalid_value", "$.rows_affected"),
        (b'{"toolName": "t", "parameters": {}, "sessionId": 7}', "wrong_type", "$.session_id"),
    ],
)
def test_a_body_that_is_no_action_is_refused_with_the_place_of_the_error(
    gateway: Gateway, body: bytes, code: str, path: str
) -> None:
    with gateway.client() as client:
        answer = client.post("/v1/evaluate", content=body)
    told = answer.json()["error"]
    assert (answer.status_code, told["code"], told["details"]["path"]) == (400, code, path)


def test_without_a_decision_in_time_the_answer_names_what_to_poll(
    installation: TestInstallation, worker: WorkerProcess, gateway: Gateway
) -> None:
    import signal  # noqa: PLC0415 - only here

    session = new_session()
    worker.send(signal.SIGSTOP)
    try:
        with gateway.client() as client:
            late = client.post("/v1/evaluate", json=action(session, mode="standard", deadline_ms=1000))
            poll = late.json()["error"]["details"]["poll"]
            pending = client.get(poll)
    finally:
        worker.send(signal.SIGCONT)
    assert (late.status_code, pending.status_code) == (504, 202)
    with gateway.client() as client:
        while (answer := client.get(poll)).status_code == 202:
            time.sleep(0.1)
    assert (answer.status_code, answer.json()["session_id"]) == (200, session)
    assert len([one for one in read_stored(installation, VERDICTS) if session in str(one.value)]) == 1


def test_a_body_over_a_megabyte_is_refused_and_a_slow_client_is_cut_off(gateway: Gateway) -> None:
    with gateway.client() as client:
        answer = client.post("/v1/evaluate", content=b" " * 1_000_001)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
    heads = (
        b"POST /v1/evaluate HTTP/1.1\r\nHost: x\r\nX-Slow: ",
        b"GET / HT",
        b"POST /v1/evaluate HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
    )
    with ThreadPoolExecutor(len(heads)) as threads:
        *cut_off, told = threads.map(lambda head: all_that_comes(gateway, head), heads)
    assert cut_off == [b"", b""]
    assert told.startswith(b"HTTP/1.1 408")


def all_that_comes(gateway: Gateway, head: bytes) -> bytes:
    """What the gateway sends before it ends the connection of a client that says this much and no more."""
    place = urlsplit(gateway.url)
    with socket.create_connection((place.hostname, place.port), timeout=30) as slow:
        slow.sendall(head)
        return b"".join(iter(lambda: slow.recv(65536), b""))


def test_health_needs_no_key(gateway: Gateway) -> None:
    import httpx2  # noqa: PLC0415 - only here

    for path, told in (("/healthz", "ok"), ("/readyz", "ready")):
        answer = httpx2.get(f"{gateway.url}{path}")
        assert (answer.status_code, answer.json()) == (200, {"status": told})
        assert UUID4.fullmatch(answer.headers["X-Mnemom-Request-Id"])


def test_a_key_speaks_for_its_agents_alone(gateway: Gateway) -> None:
    with gateway.client(gateway.key(OTHER_TENANT)) as client:
        for agent in (neutral_policy.AGENT, "nobody"):
            answer = client.post("/v1/evaluate", json=action(new_session(), agentId=agent))
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "agent_not_bound")
        own = client.post("/v1/evaluate", json=action(new_session(), agentId=OTHER_AGENT))
    assert own.status_code == 200


def test_a_verdict_that_a_stranger_wrote_before_the_action_is_not_shown(
    installation: TestInstallation, gateway: Gateway
) -> None:
    """Mend 22.3: it lies under the id of the verdict to come, and allows what the gate denies."""
    session = new_session()
    partition = home_of(session.encode(), installation.partitions)
    with gateway.client() as client:
        allowed = client.post("/v1/evaluate", json=action(session)).json()["verdict_id"]
        (true,) = [one for one in read_stored(installation, VERDICTS) if allowed in str(one.value)]
        last = max(one.offset for one in read_stored(installation, ACTIONS) if one.partition == partition)
        an_id = f"verdict:{ACTIONS}:{partition}:{last + 1}"
        forged = {**json.loads(true.value or b""), "verdict_id": an_id}
        key_and_value = (session.encode(), json.dumps(forged).encode())
        publish(installation, [key_and_value], VERDICTS, [("ce_id", an_id.encode())])
        decided = client.post("/v1/evaluate", json=deny(session))
        found = client.get(f"/v1/verdicts/{an_id}")
    assert (decided.json()["verdict_id"], decided.json()["verdict"]) == (an_id, "denied")
    assert found.json()["verdict"] == "denied"
