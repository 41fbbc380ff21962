"""The same request again is decided once, whichever gateway it comes to, and whatever died in between."""

from __future__ import annotations

import json
import signal
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from typer.testing import CliRunner

from load.installations import neutral_policy
from sluice.cli.main import cli
from sluice_demo.throwaway_trust import OWNER
from sluice_topics.catalog import ACTIONS, VERDICTS
from tests.kafka.gateway_process import Gateway, action, run_gateway
from tests.kafka.installation import read_stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from load.installations.redis_server import RedisServer
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
BURST = 20
"""More requests of one key than any test here makes, but for the one about them."""


@pytest.fixture(scope="module")
def redis_url(real_redis: type[RedisServer], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis of our own."""
    with real_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server.url


@pytest.fixture(scope="module")
def two(
    installation: TestInstallation, worker: WorkerProcess, redis_url: str
) -> Iterator[tuple[Gateway, Gateway]]:
    """Two gateways with one Redis."""
    given = {"wait_s": 50, "redis_url": redis_url, "requests_per_s": 0.1, "burst": BURST}
    with run_gateway(installation, "one", **given) as one, run_gateway(installation, "two", **given) as other:
        yield one, other


def new_key() -> dict[str, str]:
    return {"Idempotency-Key": uuid.uuid4().hex}


def verdicts(installation: TestInstallation, session: str) -> list[dict[str, Any]]:
    return [
        json.loads(one.value or b"")
        for one in read_stored(installation, VERDICTS)
        if session in str(one.value)
    ]


def check_replays(answers: list[httpx2.Response], fresh: int) -> None:
    """All the same body and decision, `fresh` of them no replay, each under a request id of its own."""
    assert len({one.content for one in answers}) == 1
    assert len({one.status_code for one in answers}) == 1
    assert len({one.headers["X-Mnemom-Request-Id"] for one in answers}) == len(answers)
    assert len({one.headers["X-Mnemom-Verdict"] for one in answers}) == 1
    assert sum("Idempotent-Replay" not in one.headers for one in answers) == fresh
    assert {one.headers.get("Idempotent-Replay", "true") for one in answers} == {"true"}


def test_a_repeat_gets_the_stored_body_verbatim_at_either_gateway(
    installation: TestInstallation, two: tuple[Gateway, Gateway]
) -> None:
    key, request = two[0].key(agents=[neutral_policy.AGENT]), action("", traceId="t")
    del request["sessionId"]
    given = new_key()
    answers = []
    for gateway in (*two, *two):
        with gateway.client(key) as client:
            answers.append(client.post("/v1/evaluate", json=request, headers=given))
    check_replays(answers, 1)
    assert len(verdicts(installation, answers[0].json()["session_id"])) == 1
    with two[1].client(key) as client:
        other = client.post("/v1/evaluate", json=request | {"rows_affected": 11}, headers=given)
        assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_conflict")
        assert "Idempotent-Replay" not in other.headers
    with two[1].client() as client:
        own = client.post("/v1/evaluate", json=request, headers=given)
        assert own.status_code == 200
        assert own.json()["action_id"] != answers[0].json()["action_id"], "keys are per caller"


def test_two_at_once_are_one_decision(installation: TestInstallation, two: tuple[Gateway, Gateway]) -> None:
    key, session, given = two[0].key(agents=[neutral_policy.AGENT]), f"s-{uuid.uuid4().hex}", new_key()
    together = threading.Barrier(8)

    def post(number: int) -> httpx2.Response:
        with two[number % 2].client(key) as client:
            client.get("/healthz")
            together.wait()
            return client.post("/v1/evaluate", json=action(session), headers=given)

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(post, range(8)))
    check_replays(answers, 1)
    made = verdicts(installation, session)
    assert sum(one["duplicate_of"] is None for one in made) == 1
    assert made[-1]["session"]["after"]["aggregateActionCount"] == 1


@pytest.mark.parametrize("shared", [True, False], ids=["redis", "file"])
def test_a_gateway_killed_in_between_leaves_one_decision(
    installation: TestInstallation, worker: WorkerProcess, redis_url: str, shared: bool
) -> None:
    name = f"killed-{'redis' if shared else 'file'}"
    file = str(installation.folder / f"{name}.sqlite")
    store = {"redis_url": redis_url} if shared else {"idempotency_file": file}
    session, given = f"s-{uuid.uuid4().hex}", new_key()
    with run_gateway(installation, name, wait_s=50, **store) as first:
        key = first.key(agents=[neutral_policy.AGENT])
        worker.send(signal.SIGSTOP)
        try:
            with ThreadPoolExecutor(1) as thread:
                lost = thread.submit(_post, first, key, session, given)
                while not [one for one in read_stored(installation, ACTIONS) if session in str(one.value)]:
                    time.sleep(0.05)
                first.kill()
                with pytest.raises(httpx2.TransportError):
                    lost.result()
        finally:
            worker.send(signal.SIGCONT)
    with run_gateway(installation, f"{name}-2", wait_s=50, **store) as second:
        again = _post(second, key, session, given)
        third = _post(second, key, session, given)
    assert again.status_code == 200
    check_replays([again, third], 0)
    made = verdicts(installation, session)
    assert sum(one["duplicate_of"] is None for one in made) == 1
    assert again.json()["verdict_id"] == made[0]["verdict_id"]
    assert made[-1]["session"]["after"]["aggregateActionCount"] == 1


def _post(gateway: Gateway, key: str, session: str, headers: dict[str, str]) -> httpx2.Response:
    with gateway.client(key) as client:
        return client.post("/v1/evaluate", json=action(session), headers=headers)


@pytest.mark.parametrize("wrong", ["", "x" * 256])
def test_a_key_that_is_none_is_refused(two: tuple[Gateway, Gateway], wrong: str) -> None:
    with two[0].client() as client:
        answer = client.post("/v1/evaluate", json=action("s"), headers={"Idempotency-Key": wrong})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_idempotency_key")


def test_a_key_that_asks_too_often_is_told_when_to_come_again_by_all_gateways(
    two: tuple[Gateway, Gateway],
) -> None:
    key, began = two[0].key(agents=[neutral_policy.AGENT]), time.monotonic()
    with two[0].client(key) as one, two[1].client(key) as other:
        answers = [client.get("/v1/verdicts/none") for _ in range(BURST) for client in (one, other)]
    given = 1 + (time.monotonic() - began) * 0.1
    statuses = [one.status_code for one in answers]
    assert set(statuses) == {404, 429}
    assert BURST <= statuses.count(404) <= BURST + given
    refused = [one for one in answers if one.status_code == 429]
    assert {one.json()["error"]["code"] for one in refused} == {"too_many_requests"}
    assert all(1 <= int(one.headers["Retry-After"]) <= 11 for one in refused)
    with two[1].client() as own:
        assert own.get("/v1/verdicts/none").status_code == 404


def test_what_was_answered_before_a_freeze_is_not_answered_so_again(
    gateway: Gateway, installation: TestInstallation, tmp_path: Path
) -> None:
    """And a caller that starts the tool itself may ask what is frozen, at the cost of one request."""
    session, key = f"s-{uuid.uuid4().hex}", new_key()
    pem = tmp_path / "owner.pem"
    pem.touch(mode=0o600)
    pem.write_bytes(installation.trust.write_pem(OWNER))
    question, where = action(session), f"/v1/agents/{neutral_policy.AGENT}/freezes"
    words = ["freeze", "session", session, "--reason", "incident 7", "--key", str(pem)]
    with gateway.client() as client:
        assert client.post("/v1/evaluate", json=question, headers=key).json()["verdict"] == "allowed"
        assert client.get(where, params={"session_id": session}).json()["may_start"]
        ran = CliRunner().invoke(cli, words, env=installation.settings)
        assert ran.exit_code == 0, ran.output
        deadline = time.monotonic() + 60
        while (frozen := client.get(where, params={"session_id": session}).json())["may_start"]:
            assert time.monotonic() < deadline
        again = client.post("/v1/evaluate", json=question, headers=key)
    assert [one["reason"] for one in frozen["freezes"]] == ["incident 7"]
    assert (again.status_code, again.json()["error"]["code"]) == (422, "frozen")
    assert "frozen_session: incident 7" in again.json()["error"]["message"]
