"""Mend 22.17: what a held memory says and how many are held, over HTTP, for reviewers of the tenant alone."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from load.installations import neutral_policy
from tests.kafka.gateway_process import OTHER_TENANT, Gateway
from tests.kafka.memories import write

if TYPE_CHECKING:
    import httpx2

pytestmark = pytest.mark.kafka
STATS = "/v1/quarantine/stats"
NAMES = {"totalEvaluated", "allowed", "quarantined", "rejected", "currentQuarantineSize"}


def make_held(client: httpx2.Client) -> str:
    """The id of a new held memory."""
    fields = write(f"s-{uuid.uuid4().hex}", "w", content=neutral_policy.DOUBT)
    del fields["agent_id"], fields["write_id"]
    decided = client.post("/v1/memory/evaluate", json=fields).json()
    assert decided["action"] == "quarantine"
    return str(decided["memory_id"])


def test_a_reviewer_reads_a_held_memory_and_the_counts(gateway: Gateway) -> None:
    with gateway.client() as agent, gateway.client(gateway.key(role="reviewer")) as reviewer:
        before = reviewer.get(STATS).json()
        memory = make_held(agent)
        found = reviewer.get(f"/v1/quarantine/{memory}")
        after = reviewer.get(STATS).json()
    told = found.json()
    assert (found.status_code, told["memory_id"], told["content"]) == (200, memory, neutral_policy.DOUBT)
    assert told["decision"]["action"] == "quarantine"
    assert told["state"] in {"waiting", "expired"}  # this policy's expire after six seconds
    assert told["events"][0]["memory_id"] == memory
    assert after["overall"].keys() == NAMES
    assert after["overall"]["quarantined"] == before["overall"].get("quarantined", 0) + 1
    assert neutral_policy.AGENT in [one["agent"] for one in after["rows"]]


def test_agents_and_other_tenants_read_nothing_of_it(gateway: Gateway) -> None:
    with gateway.client() as agent:
        memory = make_held(agent)
    path = f"/v1/quarantine/{memory}"
    for key in (gateway.key(agents=[neutral_policy.AGENT]), gateway.key(), gateway.key(OTHER_TENANT)):
        with gateway.client(key) as client:
            for one in (path, STATS):
                refused = client.get(one)
                assert (refused.status_code, refused.json()["error"]["code"]) == (403, "reviewer_key_needed")
                assert neutral_policy.DOUBT not in refused.text
    for key in (gateway.key(OTHER_TENANT, role="reviewer"), gateway.key(agents=["load-x"], role="reviewer")):
        with gateway.client(key) as client:
            assert client.get(path).status_code == 404
            rows = client.get(STATS).json()["rows"]
            assert neutral_policy.AGENT not in [one["agent"] for one in rows]
    with gateway.client(gateway.key(role="reviewer")) as reviewer:
        for unknown in ("memory:gate.memory.writes:0:99999", "verdict:gate.actions.proposed:0:0", "x"):
            assert reviewer.get(f"/v1/quarantine/{unknown}").status_code == 404
