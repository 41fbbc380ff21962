"""What waits for a person, over HTTP: lists, an end that many wait for, and what approvers signed."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from load.installations import neutral_policy, quality_policy
from sluice.core.trust.signing import sign_review
from sluice_demo.throwaway_trust import OWNER, REVIEWER
from tests.kafka.gateway_process import (
    ESCALATING_TOOL,
    OTHER_TENANT,
    Gateway,
    action,
    run_gateway,
)
from tests.kafka.installation import DEADLINE_S
from tests.kafka.memories import write
from tests.kafka.retrievals import item

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx2

    from load.installations.installation import TestInstallation

pytestmark = pytest.mark.kafka


@pytest.fixture
def client(gateway: Gateway) -> Iterator[httpx2.Client]:
    with gateway.client() as made:
        yield made


def escalate(client: httpx2.Client) -> dict[str, Any]:
    """An action that waits for an approver, as its escalation stands."""
    told = client.post("/v1/evaluate", json=action(f"s-{uuid.uuid4().hex}", toolName=ESCALATING_TOOL))
    assert told.status_code == 202
    return open_escalation(client, told.json()["escalationId"])


def open_escalation(client: httpx2.Client, an_id: str, digest: str = "action_digest") -> dict[str, Any]:
    """Once the gateway's reader has it."""
    while True:
        found = client.get(f"/v1/escalations/{an_id}")
        if digest in found.json():
            assert found.status_code == 202
            return dict(found.json())


def sign(
    installation: TestInstallation, waits: dict[str, Any], decision: str = "approve", **changed: Any
) -> dict[str, Any]:
    """The owner's answer."""
    fields = {
        "subject_id": waits["escalation_id"],
        "session_id": waits["session_id"],
        "decision": decision,
        "approver_id": OWNER,
        "digest": waits["action_digest"],
        "justification": "looked at it",
        **changed,
    }
    return sign_review(fields, installation.trust.owner, installation.audience).model_dump(
        mode="json", exclude_unset=True
    )


def test_an_approver_lets_an_action_run_and_whoever_waits_is_told(
    installation: TestInstallation, gateway: Gateway, client: httpx2.Client
) -> None:
    waits = escalate(client)
    path = f"/v1/escalations/{waits['escalation_id']}"
    assert (waits["status"], waits["tier"], waits["required_role"]) == ("pending", "T3", "approver")
    (listed,) = [
        one
        for one in client.get("/v1/escalations").json()["waiting"]
        if one["escalation_id"] == waits["escalation_id"]
    ]
    assert listed["agent_id"] == neutral_policy.AGENT
    key = gateway.key(agents=[neutral_policy.AGENT])
    ready = threading.Barrier(9)

    def wait(_: int) -> httpx2.Response:
        with gateway.client(key) as own:
            own.get("/healthz")
            ready.wait()
            return own.get(path, params={"wait": 60})

    with ThreadPoolExecutor(8) as threads:
        waiting = [threads.submit(wait, number) for number in range(8)]
        ready.wait()
        decided = client.post(f"{path}/decision", json=sign(installation, waits))
        told = [one.result(DEADLINE_S) for one in waiting]
    assert (decided.status_code, decided.json()["status"]) == (200, "ended")
    assert (decided.json()["decision"], decided.json()["approver_id"]) == ("approve", OWNER)
    assert {one.status_code for one in told} == {200}
    assert {one.json()["status"] for one in told} == {"approved"}
    resolved = told[0].json()["resolved"]
    assert (resolved["outcome"], resolved["session_id"]) == ("ALLOW", waits["session_id"])
    found = client.get(f"/v1/verdicts/{resolved['verdict_id']}")
    assert (found.status_code, found.json()) == (200, resolved)
    again = client.post(f"{path}/decision", json=sign(installation, waits, "deny"))
    assert (again.status_code, again.json()["error"]["code"]) == (422, "already_ended")
    listed_now = client.get("/v1/escalations").json()["waiting"]
    assert waits["escalation_id"] not in [one["escalation_id"] for one in listed_now]


def test_a_denial_ends_it_too(installation: TestInstallation, client: httpx2.Client) -> None:
    waits = escalate(client)
    path = f"/v1/escalations/{waits['escalation_id']}"
    assert client.post(f"{path}/decision", json=sign(installation, waits, "deny")).status_code == 200
    told = client.get(path, params={"wait": 5})
    assert (told.status_code, told.json()["status"], told.json()["resolved"]) == (200, "denied", None)
    assert OWNER in told.json()["reason"]


def test_an_approver_may_narrow_the_action(installation: TestInstallation, client: httpx2.Client) -> None:
    waits = escalate(client)
    path = f"/v1/escalations/{waits['escalation_id']}"
    narrower = sign(installation, waits, parameters={"table": "orders", "limit": 1})
    assert client.post(f"{path}/decision", json=narrower).status_code == 200
    told = client.get(path, params={"wait": 5}).json()
    assert (told["status"], told["parameters"]) == ("approved", {"table": "orders", "limit": 1})


@pytest.mark.parametrize(
    ("changed", "status", "code"),
    [
        ({"signature": "AAAA"}, 422, "wrong_signature"),
        ({"approver_id": "nobody"}, 422, "not_an_approver"),
        ({"decision": "perhaps"}, 400, "invalid_value"),
        ({"subject_id": "escalation:gate.actions.proposed:0:999999"}, 400, "ambiguous_field"),
        ({"session_id": "another"}, 400, "ambiguous_field"),
    ],
)
def test_an_answer_that_does_not_count_is_refused(
    installation: TestInstallation, client: httpx2.Client, changed: dict[str, Any], status: int, code: str
) -> None:
    waits = escalate(client)
    answer = client.post(
        f"/v1/escalations/{waits['escalation_id']}/decision", json=sign(installation, waits) | changed
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_other_tenants_and_other_agents_keys_see_nothing_of_it(
    installation: TestInstallation, gateway: Gateway, client: httpx2.Client
) -> None:
    waits = escalate(client)
    path = f"/v1/escalations/{waits['escalation_id']}"
    for key in (gateway.key(OTHER_TENANT), gateway.key(agents=["load-other"])):
        with gateway.client(key) as other:
            assert other.get("/v1/escalations").json() == {"waiting": [], "count": 0}
            assert other.get(path).status_code == 404
            assert other.post(f"{path}/decision", json=sign(installation, waits)).status_code == 404
    for unknown in ("escalation:gate.actions.proposed:0:99999", "escalation:gate.actions.proposed:0:00", "x"):
        assert client.get(f"/v1/escalations/{unknown}").status_code == 404
    assert client.get(path, params={"wait": -1}).json()["error"]["code"] == "invalid_value"


def test_after_a_restart_what_waits_and_what_ended_are_found(
    installation: TestInstallation, gateway: Gateway, client: httpx2.Client
) -> None:
    ended, waits = escalate(client), escalate(client)
    path = f"/v1/escalations/{ended['escalation_id']}"
    assert client.post(f"{path}/decision", json=sign(installation, ended)).status_code == 200
    with run_gateway(installation, "second") as second, second.client() as new:
        listed = [one["escalation_id"] for one in new.get("/v1/escalations").json()["waiting"]]
        assert waits["escalation_id"] in listed
        assert ended["escalation_id"] not in listed
        assert new.get(path).json()["status"] == "approved"


def test_an_approver_lets_denied_items_be_read_once(
    installation: TestInstallation, client: httpx2.Client
) -> None:
    asked = {
        "sessionId": f"s-{uuid.uuid4().hex}",
        "request_id": "r-1",
        "autonomy_tier": "high_privilege",
        "tool_category": quality_policy.CATEGORY,
        "items": [item("old", timestamp="1990-01-01T00:00:00Z")],
    }
    (withheld,) = client.post("/v1/retrievals/evaluate", json=asked).json()["withheld"]
    waits = open_escalation(client, withheld["escalation_id"], "request_hash")
    path = f"/v1/escalations/{waits['escalation_id']}"
    answer = sign(installation, {**waits, "action_digest": waits["request_hash"]})
    assert client.post(f"{path}/decision", json=answer).status_code == 200
    told = client.get(path, params={"wait": 5})
    assert (told.status_code, told.json()["status"]) == (200, "approved")
    assert told.json()["usable_until"]
    again = client.post("/v1/retrievals/evaluate", json=asked).json()
    assert [one["item_id"] for one in again["items"]] == ["old"]
    assert not client.post("/v1/retrievals/evaluate", json=asked).json()["items"], "once"


def test_a_reviewer_decides_on_a_held_memory(installation: TestInstallation, client: httpx2.Client) -> None:
    """Held memories of this policy expire after six seconds: on a busy machine that comes first."""
    for _ in range(5):
        path, answer = _hold_memory(installation, client)
        told = client.post(path, json=answer)
        if told.status_code == 200:
            break
        assert told.json()["error"]["code"] == "expired"
    assert (told.status_code, told.json()["status"]) == (200, "ended")
    assert client.post(path, json=answer).status_code == 422


def _hold_memory(installation: TestInstallation, client: httpx2.Client) -> tuple[str, dict[str, Any]]:
    """Where a new held memory is reviewed, and the reviewer's answer."""
    session = f"s-{uuid.uuid4().hex}"
    fields = write(session, "w", content=neutral_policy.DOUBT)
    del fields["agent_id"], fields["write_id"]
    decided = client.post("/v1/memory/evaluate", json=fields).json()
    assert decided["action"] == "quarantine"
    held: list[dict[str, Any]] = []
    while not held:
        waiting = client.get("/v1/quarantine").json()["waiting"]
        held = [one for one in waiting if one["session_id"] == session]
    review = {
        "subject_id": decided["memory_id"],
        "session_id": session,
        "decision": "approve",
        "approver_id": REVIEWER,
        "digest": held[0]["content_digest"],
        "justification": "known and harmless",
    }
    answer = sign_review(review, installation.trust.reviewer, installation.audience).model_dump(
        mode="json", exclude_unset=True
    )
    return f"/v1/quarantine/{decided['memory_id']}/review", answer
