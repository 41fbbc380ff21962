"""A gateway whose broker is away says so, and goes on when the broker is back."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

import pytest

from load.installations import neutral_policy
from tests.kafka.gateway_process import action, run_gateway
from tests.kafka.installation import DEADLINE_S, make_small_installation, run_worker

if TYPE_CHECKING:
    from pathlib import Path

    import httpx2

    from sluice.broker.handle import Broker

pytestmark = pytest.mark.kafka


def test_without_a_broker_requests_get_503_and_with_it_again_decisions(
    own_broker: Broker, prefix: str, tmp_path: Path
) -> None:
    installation = make_small_installation(own_broker.bootstrap_servers, tmp_path, prefix.rstrip("."))
    with run_gateway(installation, wait_s=2, read_timeout_s=2) as gateway:
        key = gateway.key(agents=[neutral_policy.AGENT])
        with gateway.client(key) as client:
            own_broker.stop()
            away = client.post("/v1/evaluate", json=action("s-away"))
            unread = client.get("/v1/verdicts/verdict:gate.actions.proposed:0:0")
            assert client.get("/healthz").status_code == 200
            own_broker.start()
            assert (away.status_code, away.json()["error"]["code"]) == (503, "not_confirmed")
            assert unread.status_code in (503, 504)
            for _ in run_worker(installation):
                decided = _decide(client)
    assert decided.json()["verdict"] == "allowed"


def _decide(client: httpx2.Client) -> httpx2.Response:
    """The first answer that is a decision."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        answer = client.post("/v1/evaluate", json=action(f"s-{uuid.uuid4().hex}"))
        if answer.status_code == 200:
            return answer
        assert answer.status_code in (503, 504), answer.text
        assert time.monotonic() < deadline
