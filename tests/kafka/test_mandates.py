"""A mandate on a real broker: issued, acted within, acted outside, early, late and revoked; and rerun."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from typer.testing import CliRunner

from load.installations import neutral_policy
from load.installations.worker_process import WorkerProcess
from sluice.cli.main import cli
from sluice.client import (
    AsyncGateClient,
    ClientError,
    ClientOptions,
    GateClient,
    InputSigner,
    MandateIssuer,
    MandateTerms,
    NeedsHuman,
    compute_mandate_digest,
    in_session,
    issue_mandate,
)
from sluice.core.registry.keys import PublicKey
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import MANDATES, SESSION_EVENTS, VERDICTS
from tests.kafka.gateway_process import run_gateway
from tests.kafka.installation import (
    action,
    installation_on,
    publish,
    read_stored,
    run_worker,
    wait_for,
    wait_until,
)
from tests.kafka.mcp_place import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typer.testing import Result

    from load.installations.installation import TestInstallation

pytestmark = pytest.mark.kafka
AGENT, READ = "mandated-agent", neutral_policy.READ_TOOL
KEY = Ed25519PrivateKey.generate()
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
PUBLIC = {"public_key": PublicKey(KEY.public_key().public_bytes_raw()).text}
WITHIN_A_SECOND = 1.0


def entry(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    spec = {"tenant_id": neutral_policy.TENANT, **spec}
    return {"kind": kind, "id": name, "revision": 1, "spec": spec}


def make_installation(kafka: str, folder: Path, name: str) -> TestInstallation:
    made = installation_on(kafka, folder, name, ("controls", "mandate", "tier_auth"))
    entries = [entry("agent", AGENT, tier="T2", mandate="needed"), entry("issuer", "console", keys=[PUBLIC])]
    asyncio.run(publish_policy(kafka, made.prefix, made.trust.sign_entries(entries)))
    return made


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    return make_installation(kafka, tmp_path_factory.mktemp("mandates"), module_prefix.rstrip("."))


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


def issue(installation: TestInstallation, session: str, minutes: int = 60, **terms: Any) -> dict[str, Any]:
    """A mandate to read up to ten rows."""
    tools = [{"tool": READ, "condition": "action.parameters.rows <= 10"}]
    issuer = MandateIssuer("console", InputSigner(PEM, installation.audience))
    named = MandateTerms(**{"task": "Read ten rows", "tools": tools, **terms})
    return issue_mandate(issuer, AGENT, session, datetime.now(UTC) + timedelta(minutes=minutes), named)


def options(installation: TestInstallation) -> ClientOptions:
    return ClientOptions(
        topic_prefix=installation.prefix, installation=installation.trust.installation, deadline_s=60.0
    )


def test_within_its_mandate_a_tool_runs_and_outside_a_person_is_asked(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    ran: list[int] = []
    with GateClient(installation.bootstrap_servers, AGENT, options(installation)) as gate:

        @gate.guard(READ, rows_before=1)
        def read(rows: int) -> int:
            ran.append(rows)
            return rows

        with in_session("inside", mandate=issue(installation, "inside")):
            assert read(10) == 10
            with pytest.raises(NeedsHuman, match="outside_mandate"):
                read(11)
        with in_session("inside"), pytest.raises(NeedsHuman, match="names none of the session's 1"):
            read(10)
    assert ran == [10]


async def test_a_client_is_told_whether_its_mandate_counts(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    async with AsyncGateClient(installation.bootstrap_servers, AGENT, options(installation)) as gate:
        mandate = issue(installation, "told")
        digest = await gate.mandate(mandate)
        assert digest == compute_mandate_digest(mandate)
        answer = await gate.propose(READ, {"rows": 1}, session_id="told", mandate=digest)
        assert (answer.verdict, answer.record["session"]["mandate"]["task"]) == ("allowed", "Read ten rows")
        with pytest.raises(ClientError, match="bad_signature"):
            await gate.mandate({**mandate, "task": "Read every row"})


def test_an_action_waits_for_the_mandate_behind_it_and_not_for_one_that_never_comes(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    mandate = issue(installation, "early")
    named = {"agent_id": AGENT, "parameters": {"rows": 1}, "mandate_digest": compute_mandate_digest(mandate)}
    publish(installation, [action("early", "a-1", **named)])
    publish(installation, [mandate], MANDATES)
    (waited,) = wait_for(installation, VERDICTS, "early", 1, worker)
    assert waited["verdict"] == "allowed"
    (recorded,) = wait_for(installation, SESSION_EVENTS, "early", 1, worker)
    assert recorded["sequence"] < waited["sequence"]
    publish(installation, [action("never", "a-1", **named)])
    (absent,) = wait_for(installation, VERDICTS, "never", 1, worker)
    assert absent["blockReason"].startswith("outside_mandate: the session has no mandate")


def write_key(path: Path, pem: bytes) -> str:
    path.touch(mode=0o600)
    path.write_bytes(pem)
    return str(path)


def test_the_command_issues_shows_and_revokes(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    def sluice(*words: str) -> Result:
        return CliRunner().invoke(cli, ["mandate", *words], env=installation.settings)

    key, tools, out = write_key(tmp_path / "console.pem", PEM), tmp_path / "tools.json", tmp_path / "out.json"
    tools.write_text(json.dumps([{"tool": READ, "count": 1}]))
    words = ("issue", AGENT, "by-command", "--as", "console", "--key", key, "--tools", str(tools))
    issued = sluice(*words, "--task", "Read once", "--for", "30m", "--out", str(out), "--json")
    assert issued.exit_code == 0, issued.output
    digest = json.loads(issued.stdout)["digest"]
    assert compute_mandate_digest(json.loads(out.read_bytes())) == digest
    unknown = sluice("issue", AGENT, "by-command", "--as", "nobody", "--key", key, "--task", "Read")
    assert (unknown.exit_code, "unknown_issuer" in unknown.output) == (1, True)
    with GateClient(installation.bootstrap_servers, AGENT, options(installation)) as gate:
        call = {"session_id": "by-command", "mandate": digest}
        assert [gate.propose(READ, {}, **call).verdict for _ in range(2)] == ["allowed", "needs_human"]
    for name in (digest, "by-command", str(out)):
        shown = sluice("show", name)
        assert (shown.exit_code, "task: Read once" in shown.output) == (0, True), shown.output
        assert f"{digest}: counts" in shown.output
    assert sluice("show", "no-such-session").exit_code == 1
    owner = write_key(tmp_path / "owner.pem", installation.trust.write_pem("owner"))
    revoked = sluice("revoke", str(out), "--key", owner, "--reason", "no longer wanted")
    assert revoked.exit_code == 0, revoked.output
    assert "revoked: no longer wanted" in sluice("show", digest).output
    assert sluice("revoke", f"sha256:{64 * '0'}", "--key", owner, "--reason", "unknown").exit_code == 1


def test_the_gateway_takes_a_mandate_and_one_in_a_session_s_first_call(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    def body(session: str, rows: int, **more: Any) -> dict[str, Any]:
        return {"sessionId": session, "toolName": READ, "parameters": {"rows": rows}, **more}

    with run_gateway(installation) as gateway, gateway.client(gateway.key(agents=[AGENT])) as client:
        mandate = issue(installation, "by-gateway")
        taken = client.post("/v1/mandates", json=mandate)
        assert (taken.status_code, taken.json()["mandate"]["digest"]) == (
            200,
            compute_mandate_digest(mandate),
        )
        refused = client.post("/v1/mandates", json={**mandate, "task": "Read every row"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "bad_signature")
        others = client.post("/v1/mandates", json={**mandate, "agent_id": neutral_policy.AGENT})
        assert (others.status_code, others.json()["error"]["code"]) == (403, "agent_not_bound")
        named = {"mandate_digest": compute_mandate_digest(mandate)}
        assert client.post("/v1/evaluate", json=body("by-gateway", 10, **named)).status_code == 200
        assert client.post("/v1/evaluate", json=body("by-gateway", 11, **named)).status_code == 202
        carried = issue(installation, "first-call")
        key = {"Idempotency-Key": "first-call"}
        first = [
            client.post("/v1/evaluate", json=body("first-call", 1, mandate=carried), headers=key)
            for _ in range(2)
        ]
        assert [one.status_code for one in first] == [200, 200]
        assert client.post("/v1/evaluate", json=body("first-call", 1, mandate="x")).status_code == 400
        twice = body("first-call", 1, mandate=carried, mandate_digest=f"sha256:{64 * '0'}")
        assert client.post("/v1/evaluate", json=twice).status_code == 400


async def test_the_calls_of_an_mcp_server_act_under_its_task(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    condition = "action.parameters.text == 'mine'"
    mandate = issue(installation, "by-mcp", tools=[{"tool": "load.read", "condition": condition}])
    file = tmp_path / "mandate.json"
    file.write_text(json.dumps(mandate))
    place = Place(installation, tmp_path, "by-mcp")
    place.options = ["--server", "load", "--task", file, "--approval-s", "0.1"]
    async with place.agent() as client:
        mine = await client.call_tool("read", {"text": "mine"})
        assert not mine.is_error, mine
        other = await client.call_tool("read", {"text": "yours"})
        assert other.is_error
        assert "outside_mandate" in str(other.content)
    assert place.calls == [["read", {"text": "mine"}]]
    file.write_text(json.dumps({**mandate, "task": "Read every row"}))
    refused = place.sluice("--server", "load", "--task", file, "--", "true")
    assert (refused.returncode, "is refused: bad_signature" in refused.stderr) == (2, True)
    elsewhere = place.sluice("--server", "load", "--agent", "another", "--task", file, "--", "true")
    assert "is for another agent or session" in elsewhere.stderr


def test_a_revocation_ends_it_everywhere_within_a_second_and_every_decision_reruns(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    with GateClient(installation.bootstrap_servers, AGENT, options(installation)) as gate:
        sessions = [f"revoked-{place}" for place in range(4)]
        parent = issue(installation, "above", minutes=90)
        mandates = {one: issue(installation, one, parent=parent) for one in sessions}
        for session, mandate in mandates.items():
            assert gate.propose(READ, {"rows": 1}, session_id=session, mandate=mandate).allowed
        revoked = entry(
            "mandate_revocation", compute_mandate_digest(parent), reason="the order was cancelled"
        )
        asyncio.run(
            publish_policy(
                installation.bootstrap_servers,
                installation.prefix,
                installation.trust.sign_entries([revoked]),
            )
        )
        began = time.monotonic()
        left, slowest = set(sessions), 0.0
        while left:
            for session in sorted(left):
                sent = time.monotonic()
                answer = gate.propose(READ, {"rows": 1}, session_id=session, mandate=mandates[session])
                if not answer.allowed:
                    assert "the order was cancelled" in str(answer.reason)
                    left.discard(session)
                    slowest = max(slowest, sent - began)
            assert time.monotonic() - began < 60
    assert slowest < WITHIN_A_SECOND + 1, "a slow machine has a second more"
    told = CliRunner().invoke(cli, ["rerun", "--all", "--json"], env=installation.settings)
    assert told.exit_code == 0, told.stdout[:2000]
    assert json.loads(told.stdout)["by_kind"]["verdict"]["identical"] == len(
        read_stored(installation, VERDICTS)
    )
    assert CliRunner().invoke(cli, ["ledger", "verify"], env=installation.settings).exit_code == 0


def test_a_killed_workers_successor_has_the_mandate_and_its_counts(
    kafka: str, module_prefix: str, tmp_path: Path
) -> None:
    installation = make_installation(kafka, tmp_path, f"{module_prefix.rstrip('.')}-killed")
    mandate = issue(installation, "lasting", tools=[{"tool": READ, "count": 2}])
    named = {"agent_id": AGENT, "mandate_digest": compute_mandate_digest(mandate)}
    doomed = WorkerProcess(installation, "doomed", 0.0)
    try:
        wait_until(lambda: bool(doomed.partitions()), doomed)
        publish(installation, [mandate], MANDATES)
        publish(installation, [action("lasting", "a-1", **named)])
        wait_for(installation, VERDICTS, "lasting", 1, doomed)
    finally:
        doomed.end_now()
    publish(installation, [action("lasting", f"a-{place}", **named) for place in (2, 3)])
    for successor in run_worker(installation, "successor"):
        found = wait_for(installation, VERDICTS, "lasting", 3, successor)
    assert [one["verdict"] for one in found] == ["allowed", "allowed", "needs_human"]
    assert "was used 2 times already" in found[2]["blockReason"]
    told = CliRunner().invoke(cli, ["rerun", "--all", "--json"], env=installation.settings)
    assert (told.exit_code, json.loads(told.stdout)["identical"]) == (0, 3), told.stdout[:2000]
