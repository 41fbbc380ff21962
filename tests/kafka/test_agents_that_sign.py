"""An agent that signs, on a real broker: the client signs for it, and nothing else counts in its name."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from typer.testing import CliRunner

from load.installations import neutral_policy
from sluice.cli.main import cli
from sluice.client import ActionDenied, AsyncGateClient, ClientOptions, GateClient
from sluice.client.sender import InputSigner
from sluice.core.foundation.clock import rfc3339
from sluice.core.registry.keys import PublicKey
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import ACTIONS, OUTCOMES, SESSION_EVENTS, VERDICTS
from tests.kafka.installation import (
    action,
    make_small_installation,
    publish,
    read_stored,
    run_worker,
    wait_for,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
AGENT, READ = "signing-agent", neutral_policy.READ_TOOL
KEY = Ed25519PrivateKey.generate()
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def entry(revision: int, **bounds: str) -> dict[str, Any]:
    """The agent's entry with its one key."""
    key = {"public_key": PublicKey(KEY.public_key().public_bytes_raw()).text, **bounds}
    spec = {"tenant_id": neutral_policy.TENANT, "tier": "T2", "keys": [key]}
    return {"kind": "agent", "id": AGENT, "revision": revision, "spec": spec}


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    folder = tmp_path_factory.mktemp("signing")
    made = make_small_installation(kafka, folder, module_prefix.rstrip("."), ("controls", "tier_auth"))
    asyncio.run(publish_policy(kafka, made.prefix, made.trust.sign_entries([entry(1)])))
    return made


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


def options(installation: TestInstallation, **more: Any) -> ClientOptions:
    return ClientOptions(
        topic_prefix=installation.prefix,
        installation=installation.trust.installation,
        deadline_s=60.0,
        **more,
    )


def put(
    installation: TestInstallation, session: str, record: dict[str, Any], topic: str = ACTIONS
) -> tuple[str, bytes]:
    """Publish a record that the agent signed; its header."""
    value, now_ms = json.dumps(record).encode(), time.time_ns() // 1_000_000
    header = InputSigner(PEM, installation.audience).make_header(topic, session, value, now_ms)
    publish(installation, [record], topic, [header])
    return header


async def test_the_client_signs_actions_and_outcomes(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    call: dict[str, Any] = {"session_id": "by-client", "rows_affected": 7}
    async with (
        AsyncGateClient(installation.bootstrap_servers, AGENT, options(installation, agent_key=PEM)) as gate,
        gate.action(READ, {"table": "orders"}, **call) as permit,
    ):
        permit.rows_affected = 9
    verdict = permit.verdict.record
    assert verdict["signature"]["key_id"] == PublicKey(KEY.public_key().public_bytes_raw()).keyid
    (settled,) = await asyncio.to_thread(wait_for, installation, SESSION_EVENTS, "by-client", 1, worker)
    assert (settled["actual"], settled["reported_by"]) == (9, AGENT)


def test_the_blocking_client_signs_too(installation: TestInstallation, worker: WorkerProcess) -> None:
    with GateClient(installation.bootstrap_servers, AGENT, options(installation, agent_key=PEM)) as gate:
        assert gate.propose(READ, {}, session_id="blocking").allowed


def test_nobody_else_acts_or_reports_in_its_name(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    with (
        GateClient(installation.bootstrap_servers, AGENT, options(installation)) as gate,
        pytest.raises(ActionDenied, match="unsigned_agent: missing") as error,
        gate.action(READ, {}, session_id="nobody"),
    ):
        raise AssertionError("it ran")
    assert error.value.verdict.gate == "signature"
    put(installation, "nobody", action("nobody", "a-1", agent_id=AGENT))
    outcome = {"action_id": "a-1", "session_id": "nobody", "rows_affected": 900, "reported_by": AGENT}
    publish(installation, [outcome], OUTCOMES)
    (refused,) = wait_for(installation, SESSION_EVENTS, "nobody", 1, worker)
    assert (refused["reason"], refused["message"].split(":")[0]) == ("unsigned_agent", "missing")


def test_a_replay_is_a_duplicate_and_counts_once(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    record = action("replay", "a-1", agent_id=AGENT)
    header = put(installation, "replay", record)
    publish(installation, [record], headers=[header])
    publish(installation, [(b"elsewhere", json.dumps(record).encode())], headers=[header])
    publish(installation, [record])
    first, again, stripped = wait_for(installation, VERDICTS, "replay", 3, worker)
    assert (first["verdict"], again["duplicate_of"]) == ("allowed", first["verdict_id"])
    assert (stripped["verdict"], stripped["duplicate_of"]) == ("denied", None)
    assert again["session"]["after"]["aggregateActionCount"] == 1


def test_publish_signs_for_an_agent(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    key, lines = tmp_path / "agent.pem", tmp_path / "actions.jsonl"
    key.touch(mode=0o600)
    key.write_bytes(PEM)
    lines.write_text(json.dumps(action("by-publish", "a-1", agent_id=AGENT, toolName=READ)) + "\n")
    environment = {
        "SLUICE_KAFKA__BOOTSTRAP_SERVERS": installation.bootstrap_servers,
        "SLUICE_KAFKA__TOPIC_PREFIX": installation.prefix,
        "SLUICE_POLICY__INSTALLATION": installation.trust.installation,
    }
    for options_ in ([], ["--agent-key", str(key)]):
        ran = CliRunner().invoke(cli, ["publish", str(lines), *options_], env=environment)
        assert ran.exit_code == 0, ran.output
    verdicts = wait_for(installation, VERDICTS, "by-publish", 2, worker)
    assert [one["blockReason"] is None for one in verdicts] == [False, True]
    assert verdicts[0]["blockReason"].startswith("unsigned_agent: missing")


def test_a_revoked_key_s_later_records_are_refused_and_every_decision_reruns(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    revoked = entry(2, revoked_at=rfc3339(time.time_ns() // 1_000_000))
    asyncio.run(
        publish_policy(
            installation.bootstrap_servers, installation.prefix, installation.trust.sign_entries([revoked])
        )
    )
    tried: list[str] = []

    def is_refused() -> bool:
        tried.append(f"a-{len(tried)}")
        put(installation, "revoked", action("revoked", tried[-1], agent_id=AGENT))
        found = wait_for(installation, VERDICTS, "revoked", len(tried), worker)
        return "revoked_key" in str(
            next(one for one in found if one["action_id"] == tried[-1])["blockReason"]
        )

    wait_until(is_refused, worker)
    told = CliRunner().invoke(cli, ["rerun", "--all", "--json"], env=installation.settings)
    assert told.exit_code == 0, told.stdout
    assert json.loads(told.stdout)["by_kind"]["verdict"]["identical"] == len(
        read_stored(installation, VERDICTS)
    )
    assert CliRunner().invoke(cli, ["ledger", "verify"], env=installation.settings).exit_code == 0
