"""docs/examples in TypeScript and Go at a real gateway and worker: docs/gateway.md is enough for a client.

The compiler of TypeScript comes from the machine's registry. Without node and npm, or go, or the compiler,
a test is skipped; in CI a compiler that cannot be had is a failure.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from load.installations import neutral_policy
from sluice.cli.policy.key_files import make_private_key
from sluice.core.trust.signing import sign_review
from sluice_demo.throwaway_trust import OWNER, publish_policy
from sluice_topics.catalog import OUTCOMES, SESSION_EVENTS, VERDICTS
from tests.documents.blocks import ROOT
from tests.kafka.gateway_process import ESCALATING_TOOL, Gateway, entries, run_gateway
from tests.kafka.installation import installation_on, records, run_worker, wait_for
from tests.typescript_client import PATIENCE_S, compile_client, run_commands

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
POINT = "point-of-node"
UNOPTIMISED = "-gcflags=all=-N -l"
"""The compiler then takes two thirds of the time."""
Command = tuple[str, ...]


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    """With an enforcement point, whose key is `POINT`.pem in the installation's folder."""
    made = installation_on(kafka, tmp_path_factory.mktemp("languages"), module_prefix.rstrip("."))
    public = make_private_key(made.folder / f"{POINT}.pem").public.text
    spec = {"tenant_id": neutral_policy.TENANT, "public_key": public}
    point = {"kind": "enforcement_point", "id": POINT, "revision": 1, "spec": spec}
    asyncio.run(publish_policy(kafka, made.prefix, made.trust.sign_entries([*entries(), point])))
    return made


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


@pytest.fixture(scope="module")
def gateway(installation: TestInstallation, worker: WorkerProcess) -> Iterator[Gateway]:
    with run_gateway(installation, wait_s=50, longest_wait_s=60) as started:
        yield started


@pytest.fixture(scope="module")
def typescript() -> Command:
    """The command that starts the example in TypeScript."""
    built = compile_client()
    return "node", str(built / "example" / "guarded.js")


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """The command that starts the example in Go."""
    folder = tmp_path_factory.mktemp("client") / "go"
    shutil.copytree(ROOT / "docs" / "examples" / "go", folder)
    run_commands(["go", "build", UNOPTIMISED, "-o", "guarded", "."], folder)
    return (str(folder / "guarded"),)


@pytest.fixture(scope="module", params=["typescript", "go"])
def client(request: pytest.FixtureRequest) -> Command:
    """The command that starts either example."""
    command: Command = request.getfixturevalue(request.param)
    return command


def start(
    client: Command, gateway: Gateway, tool: str, sessions: list[str], **environment: str
) -> subprocess.Popen[str]:
    """The program, which makes one call in each session."""
    key = gateway.key(agents=[neutral_policy.AGENT])
    env = {**os.environ, "SLUICE_URL": gateway.url, "SLUICE_API_KEY": key, **environment}
    words = [*client, neutral_policy.AGENT, tool, *sessions]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def finish(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """What the program says of each call."""
    out, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, error
    assert "SluiceUnreported" not in error
    return [json.loads(line) for line in out.splitlines()]


def test_an_allowed_tool_runs_and_its_outcome_settles_in_sessions_of_every_partition(
    client: Command, installation: TestInstallation, gateway: Gateway, worker: WorkerProcess
) -> None:
    sessions = [f"{client[0][-4:]} größe %{number}" for number in range(12)]
    said = finish(start(client, gateway, neutral_policy.READ_TOOL, sessions))
    assert said == [{"session": session, "result": "read orders"} for session in sessions]
    settled = wait_for(installation, SESSION_EVENTS, sessions, 12, worker)
    assert {(event["session_id"], event["reported_by"], event["signed"]) for event in settled} == {
        (session, neutral_policy.AGENT, False) for session in sessions
    }
    assert len({event["input"]["partition"] for event in settled}) > 1
    assert len(records(installation, VERDICTS, sessions[0])) == 1


def test_a_denied_tool_does_not_run(
    client: Command, installation: TestInstallation, gateway: Gateway, worker: WorkerProcess
) -> None:
    session = f"{client[0][-4:]} denied"
    (said,) = finish(start(client, gateway, "unknown.tool", [session]))
    assert said["refused"].startswith("denied: unregistered_tool")
    assert len(wait_for(installation, VERDICTS, session, 1, worker)) == 1
    assert records(installation, OUTCOMES, session) == []


def test_a_tool_that_needs_a_person_does_not_run(
    client: Command, installation: TestInstallation, gateway: Gateway
) -> None:
    session = f"{client[0][-4:]} held"
    (said,) = finish(start(client, gateway, ESCALATING_TOOL, [session]))
    assert said["refused"].startswith("needs_human")
    assert records(installation, OUTCOMES, session) == []


def test_an_outcome_that_an_enforcement_point_signed_counts(
    typescript: Command, installation: TestInstallation, gateway: Gateway, worker: WorkerProcess
) -> None:
    session = "signed größe"
    assert finish(start(typescript, gateway, neutral_policy.READ_TOOL, [session], **sign_as(installation)))
    (settled,) = wait_for(installation, SESSION_EVENTS, session, 1, worker)
    assert (settled["reported_by"], settled["signed"], settled["actual"]) == (POINT, True, 1)


def test_a_call_that_a_person_lets_run_runs_with_the_approvers_parameters(
    typescript: Command, installation: TestInstallation, gateway: Gateway, worker: WorkerProcess
) -> None:
    session = "approved größe"
    waits_ms = {"APPROVAL_MS": "120000"}
    process = start(typescript, gateway, ESCALATING_TOOL, [session], **waits_ms, **sign_as(installation))
    with gateway.client() as approver:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            waiting = approver.get("/v1/escalations").json()["waiting"]
            found = [one for one in waiting if one["session_id"] == session]
            if found:
                break
            assert time.monotonic() < deadline
            time.sleep(0.1)
        fields = {
            "subject_id": found[0]["escalation_id"],
            "session_id": session,
            "decision": "approve",
            "approver_id": OWNER,
            "digest": found[0]["action_digest"],
            "justification": "a smaller table",
            "parameters": {"table": "order_lines"},
        }
        review = sign_review(fields, installation.trust.owner, installation.audience)
        path = f"/v1/escalations/{fields['subject_id']}/decision"
        answer = approver.post(path, json=review.model_dump(mode="json", exclude_unset=True))
        assert answer.status_code == 200, answer.text
    assert finish(process) == [{"session": session, "result": "read order_lines"}]
    settled = [
        event
        for event in wait_for(installation, SESSION_EVENTS, session, 1, worker)
        if event.get("reported_by") == POINT
    ]
    assert [event["signed"] for event in settled] == [True], "of an approved call too"


def sign_as(installation: TestInstallation) -> dict[str, str]:
    """The environment in which the example signs as the enforcement point."""
    return {
        "POINT": POINT,
        "POINT_KEY": str(installation.folder / f"{POINT}.pem"),
        "SLUICE_POLICY__INSTALLATION": installation.trust.installation,
        "PREFIX": installation.prefix,
    }
