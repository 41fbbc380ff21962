"""Who calls the gateway: API keys by `sluice keys api`, and agents that sign, for which the gateway signs."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from load.installations import neutral_policy
from sluice.cli.main import cli
from sluice.cli.policy.key_files import make_private_key
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import VERDICTS
from tests.kafka.gateway_process import Gateway, action, entries, run_gateway
from tests.kafka.installation import make_small_installation, read_stored, run_worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess
    from sluice.core.registry.keys import SigningKey

pytestmark = pytest.mark.kafka
SIGNING_AGENT, FOREIGN_AGENT = "signing-agent", "foreign-agent"
"""Both sign; the gateway is a delegate for the tenant of the first alone."""


def _key(public: str) -> dict[str, Any]:
    return {"public_key": public}


def _entries(gateway_key: SigningKey, agent_key: SigningKey) -> list[dict[str, Any]]:
    keys = [_key(agent_key.public.text)]
    specs: dict[tuple[str, str], dict[str, Any]] = {
        ("agent", SIGNING_AGENT): {"tenant_id": neutral_policy.TENANT, "tier": "T2", "keys": keys},
        ("agent", FOREIGN_AGENT): {"tenant_id": "foreign", "tier": "T2", "keys": keys},
        ("delegate", "gateway-1"): {
            "tenants": [neutral_policy.TENANT],
            "keys": [_key(gateway_key.public.text)],
        },
    }
    return [{"kind": kind, "id": name, "revision": 1, "spec": spec} for (kind, name), spec in specs.items()]


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    folder = tmp_path_factory.mktemp("keys")
    made = make_small_installation(
        kafka, folder, module_prefix.rstrip("."), ("controls", "fast_reject", "tier_auth")
    )
    own = _entries(make_private_key(folder / "gateway.pem"), make_private_key(folder / "agent.pem"))
    asyncio.run(publish_policy(kafka, made.prefix, made.trust.sign_entries([*entries(), *own])))
    return made


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


@pytest.fixture(scope="module")
def gateway(installation: TestInstallation, worker: WorkerProcess) -> Iterator[Gateway]:
    with run_gateway(
        installation, wait_s=50, signing_key=str(installation.folder / "gateway.pem")
    ) as started:
        yield started


def sluice(gateway: Gateway, *words: str) -> Any:
    """A verb of `sluice keys api`, on the gateway's file; its JSON where it prints some."""
    done = CliRunner().invoke(cli, ["keys", "api", *words, "--file", str(gateway.keys)])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout) if "--json" in words else done.stdout


def test_a_key_is_made_listed_used_and_revoked(gateway: Gateway) -> None:
    words = ("--tenant", neutral_policy.TENANT, "--agent", neutral_policy.AGENT, "--note", "tests")
    made = sluice(gateway, "new", *words, "--json")
    (listed,) = [one for one in sluice(gateway, "list", "--json") if one["id"] == made["id"]]
    assert (listed["tenant_id"], listed["agents"], listed["note"]) == (
        neutral_policy.TENANT,
        [neutral_policy.AGENT],
        "tests",
    )
    secret = made["key"].rpartition("_")[2]
    assert secret not in gateway.keys.read_text()
    assert gateway.keys.stat().st_mode & 0o077 == 0
    with gateway.client(made["key"]) as client:
        assert client.post("/v1/evaluate", json=action("s-1")).status_code == 200
        sluice(gateway, "revoke", made["id"])
        assert client.post("/v1/evaluate", json=action("s-1")).status_code == 401
    assert secret not in gateway.read_log()
    again = CliRunner().invoke(cli, ["keys", "api", "revoke", made["id"], "--file", str(gateway.keys)])
    assert again.exit_code == 1


@pytest.mark.parametrize("wrong", ["", "x", "sluice_000000000000_" + "A" * 43, "{}A", "{}\n"])
def test_a_key_that_is_not_exactly_the_one_made_counts_for_nothing(gateway: Gateway, wrong: str) -> None:
    with gateway.client(wrong.format(gateway.key()).strip() or "none") as client:
        answer = client.get("/v1/verdicts/none")
        if wrong.endswith("\n"):
            assert answer.status_code == 404, "white space around a header's value is no part of it"
        else:
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")


def test_the_gateway_signs_for_the_agents_of_its_tenants_alone(
    installation: TestInstallation, gateway: Gateway
) -> None:
    session = f"s-{uuid.uuid4().hex}"
    with gateway.client(gateway.key(agents=[SIGNING_AGENT])) as client:
        allowed = client.post("/v1/evaluate", json=action(session))
    assert allowed.status_code == 200
    (record,) = [
        json.loads(one.value or b"")
        for one in read_stored(installation, VERDICTS)
        if session in str(one.value)
    ]
    assert record["signature"]["delegate"] == "gateway-1"
    assert "delegate/gateway-1@1" in record["registry_hashes"]
    with gateway.client(gateway.key("foreign", [FOREIGN_AGENT])) as client:
        denied = client.post("/v1/evaluate", json=action(session))
    assert (denied.status_code, denied.json()["error"]["code"]) == (422, "unsigned_agent")
    assert "unknown_key" in denied.json()["blockReason"]


def test_what_the_gateway_signed_is_decided_again_alike(
    installation: TestInstallation, gateway: Gateway
) -> None:
    with gateway.client(gateway.key(agents=[SIGNING_AGENT])) as client:
        told = client.post("/v1/evaluate", json=action("again")).json()
        again = client.post(f"/v1/verdicts/{told['verdict_id']}/rerun")
        unknown = client.post("/v1/verdicts/verdict:gate.actions.proposed:0:999/rerun")
    assert (again.status_code, again.json()["status"], again.json()["differences"]) == (200, "identical", [])
    assert unknown.status_code == 404
    with gateway.client(gateway.key("foreign")) as other:
        assert other.post(f"/v1/verdicts/{told['verdict_id']}/rerun").status_code == 404
    done = CliRunner().invoke(cli, ["rerun", told["verdict_id"], "--json"], env=installation.settings)
    assert done.exit_code == 0, done.output
