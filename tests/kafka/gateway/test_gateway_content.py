"""Memories, retrieved items and outcomes over HTTP: answered from what the worker committed."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from load.installations import neutral_policy
from sluice_topics.catalog import MEMORY_DECISIONS, MEMORY_WRITES, OUTCOMES, SESSION_EVENTS
from sluice_topics.values import fingerprint_result
from tests.kafka.gateway_process import OTHER_TENANT, Gateway, action, run_gateway
from tests.kafka.installation import read_stored
from tests.kafka.memories import write
from tests.kafka.retrievals import item
from tests.unit.gateway.test_response_headers import parse_mnemom_verdict

if TYPE_CHECKING:
    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka


def memory(session: str, **more: Any) -> dict[str, Any]:
    """A write as a request says it, without the ids that the gateway gives."""
    fields = write(session, "w") | more
    del fields["agent_id"], fields["write_id"]
    return fields


@pytest.mark.parametrize(
    ("content", "decided", "front"),
    [("The order was paid.", "allow", "pass"), (neutral_policy.ATTACK, "reject", "enforced")],
)
def test_a_memory_is_decided_and_the_front_checkpoint_says_so(
    installation: TestInstallation, gateway: Gateway, content: str, decided: str, front: str
) -> None:
    session = f"s-{uuid.uuid4().hex}"
    with gateway.client() as client:
        answer = client.post("/v1/memory/evaluate", json=memory(session, content=content))
    assert (answer.status_code, answer.json()["action"]) == (200, decided)
    assert parse_mnemom_verdict(answer.headers["X-Mnemom-Verdict"]) == {
        "front": front,
        "autonomy": "observed",
        "integrity": "observed",
        "back": "observed",
    }
    assert answer.headers["X-Mnemom-Schema"] == "sluice/memory_decision/v1"
    assert "X-AIP-Verdict" not in answer.headers
    (record,) = [one for one in read_stored(installation, MEMORY_DECISIONS) if session in str(one.value)]
    committed = json.loads(record.value or b"")
    assert answer.json().items() <= committed.items()
    an_id = answer.headers["X-Mnemom-Request-Id"]
    (sent,) = [one for one in read_stored(installation, MEMORY_WRITES) if session in str(one.value)]
    assert dict(sent.headers)["X-Mnemom-Request-Id"].decode() == an_id
    assert json.loads(sent.value or b"")["request_id"] == committed["request_id"] == an_id
    assert f"{an_id} POST /v1/memory/evaluate 200" in gateway.read_log()
    assert {"trustScore", "reason", "rerun_hash"} <= answer.json().keys()


def test_a_memory_under_a_key_is_decided_once(installation: TestInstallation, gateway: Gateway) -> None:
    session, given = f"s-{uuid.uuid4().hex}", {"Idempotency-Key": uuid.uuid4().hex}
    key = gateway.key(agents=[neutral_policy.AGENT])
    with gateway.client(key) as client:
        answers = [client.post("/v1/memory/evaluate", json=memory(session), headers=given) for _ in range(3)]
        other = client.post("/v1/retrievals/evaluate", json={"items": [item("i")]}, headers=given)
    assert len({one.content for one in answers}) == 1
    assert [one.headers.get("Idempotent-Replay") for one in answers] == [None, "true", "true"]
    assert len([one for one in read_stored(installation, MEMORY_DECISIONS) if session in str(one.value)]) == 1
    assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_conflict")


def test_items_are_served_or_withheld(gateway: Gateway) -> None:
    session = f"s-{uuid.uuid4().hex}"
    bad = item("bad") | {"confidence_score": None}
    with gateway.client() as client:
        good = client.post(
            "/v1/retrievals/evaluate",
            json={"session_id": session, "items": [item("good")], "autonomy_tier": "bounded"},
        )
        mixed = client.post(
            "/v1/retrievals/evaluate",
            json={"sessionId": session, "items": [item("good"), bad], "autonomy_tier": "high_privilege"},
        )
        assert client.get("/v1/quality/report").status_code == 403, "a key for one agent"
    with gateway.client(gateway.key()) as tenant:
        report = tenant.get("/v1/quality/report", params={"since": "2026-01-01"})
        assert tenant.get("/v1/quality/report", params={"since": "2026-99-99"}).status_code == 400
    with gateway.client(gateway.key(OTHER_TENANT)) as other:
        elsewhere = other.get("/v1/quality/report")
    assert (report.status_code, report.json()["overall"]["decisions"] >= 3) == (200, True)
    assert not {"alarms", "basis"} & report.json().keys()
    assert elsewhere.json()["overall"]["decisions"] == 0
    assert [one["item_id"] for one in good.json()["items"]] == ["good"]
    assert good.json()["items"][0]["body"] == item("good")["body"]
    assert good.json()["request_id"] == good.headers["X-Mnemom-Request-Id"]
    assert parse_mnemom_verdict(good.headers["X-Mnemom-Verdict"])["front"] == "pass"
    assert [one["item_id"] for one in mixed.json()["withheld"]] == ["bad"]
    assert parse_mnemom_verdict(mixed.headers["X-Mnemom-Verdict"])["front"] == "enforced"


def test_an_outcome_settles_what_was_reserved(installation: TestInstallation, gateway: Gateway) -> None:
    session = f"s-{uuid.uuid4().hex}"
    with gateway.client() as client:
        decided = client.post("/v1/evaluate", json=action(session)).json()
        outcome = {"action_id": decided["action_id"], "sessionId": session, "rows_affected": 12}
        settled = client.post("/v1/outcomes", json=outcome)
        again = client.post("/v1/outcomes", json=outcome)
        unknown = client.post("/v1/outcomes", json=outcome | {"rows_affected": -1})
        totals_now = client.get(f"/v1/sessions/{session}")
        unknown_session = client.get(f"/v1/sessions/{session}x")
    with gateway.client(gateway.key(OTHER_TENANT)) as other:
        assert other.get(f"/v1/sessions/{session}").status_code == 404
    assert (settled.status_code, settled.json()["actual"]) == (200, 12)
    assert unknown_session.status_code == 404
    told = totals_now.json()
    assert (totals_now.status_code, told["aggregateRowsAffected"], told["aggregateActionCount"]) == (
        200,
        12,
        1,
    )
    assert (told["last_verdict_id"], told["folded"]) == (decided["verdict_id"], False)
    assert settled.json()["aggregateRowsAffected"] == 12
    assert settled.json()["reported_by"] == neutral_policy.AGENT
    assert again.status_code in (200, 422)
    assert unknown.status_code == 400
    events = [json.loads(one.value or b"") for one in read_stored(installation, SESSION_EVENTS)]
    totals = {one.get("aggregateRowsAffected", 12) for one in events if one.get("session_id") == session}
    assert totals == {12}


def test_the_values_of_an_outcome_are_passed_on_and_no_content_is_taken(
    installation: TestInstallation, gateway: Gateway
) -> None:
    session = f"s-{uuid.uuid4().hex}"
    values = fingerprint_result(bytes(32), "Write to eve@evil.example")
    with gateway.client() as client:
        decided = client.post("/v1/evaluate", json=action(session)).json()
        outcome = {"action_id": decided["action_id"], "session_id": session, "rows_affected": 1}
        settled = client.post("/v1/outcomes", json=outcome | {"values": values})
        wrong = [
            client.post("/v1/outcomes", json=outcome | {"values": one})
            for one in ({**values, "fingerprints": ["eve@evil.example"]}, {"content": "Write to"}, ["eve"])
        ]
    assert settled.status_code == 200
    assert [one.status_code for one in wrong] == [400] * len(wrong)
    told = [json.loads(one.value or b"") for one in read_stored(installation, OUTCOMES)]
    assert [one["values"] for one in told if one["session_id"] == session] == [values]


def test_nobody_reports_for_another_tenants_agent(gateway: Gateway) -> None:
    outcome = {"action_id": "a", "session_id": "s", "rows_affected": 1, "reported_by": neutral_policy.AGENT}
    with gateway.client(gateway.key(OTHER_TENANT)) as client:
        answer = client.post("/v1/outcomes", json=outcome)
        signed = client.post("/v1/outcomes", json=outcome | {"signature": "AAAA"})
    assert [one.json()["error"]["code"] for one in (answer, signed)] == ["agent_not_bound"] * 2


def test_an_outcome_that_comes_before_its_action_is_taken(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    outcome = {"action_id": "to-come", "session_id": f"s-{uuid.uuid4().hex}", "rows_affected": 3}
    with run_gateway(installation, "hasty", wait_s=1) as hasty, hasty.client() as client:
        answer = client.post("/v1/outcomes", json=outcome)
    assert (answer.status_code, answer.json()["status"]) == (202, "pending")


def test_all_advisories_of_an_agents_actions_are_listed(gateway: Gateway) -> None:
    """A header has five at most."""
    request = action(f"s-{uuid.uuid4().hex}")
    del request["mode"]
    with gateway.client() as client:
        decided = client.post("/v1/evaluate", json=request)
        listed = client.get(f"/v1/agents/{neutral_policy.AGENT}/advisories")
        newest = client.get(f"/v1/agents/{neutral_policy.AGENT}/advisories", params={"limit": 1}).json()
        assert client.get("/v1/agents/other-agent/advisories").status_code == 403
    an_id, advisories = decided.json()["verdict_id"], decided.json()["advisories"]
    assert advisories
    mine = [one for one in listed.json()["advisories"] if one["verdict_id"] == an_id]
    assert [one["text"] for one in mine] == [one["text"] for one in advisories]
    assert (len(newest["advisories"]), newest["count"]) == (1, listed.json()["count"])
