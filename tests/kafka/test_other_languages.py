"""docs/examples in Node and Go against a real worker: the contract of docs/clients.md is enough for a client.

Their packages come from the machine's registries. Without node and npm, or go, or its packages, a test is
skipped; in CI packages that cannot be had are a failure.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from load.installations import neutral_policy
from sluice.cli.demo.throwaway_trust import publish_policy
from sluice.cli.policy.key_files import make_private_key
from sluice.stream.engine.outbox import home_of
from sluice_topics.catalog import ACTIONS, OUTCOMES, SESSION_EVENTS, VERDICTS
from tests.documents.blocks import ROOT
from tests.kafka.installation import installation_on, publish, read_stored, records, run_worker, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
EXAMPLES = ROOT / "docs" / "examples"
SIGNER = "signing-agent"
UNOPTIMISED = "-gcflags=all=-N -l"
"""The compiler then takes two thirds of the time."""
PATIENCE_S = 240.0


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    """With an agent that signs, whose key is `SIGNER`.pem in the installation's folder."""
    installation = installation_on(kafka, tmp_path_factory.mktemp("languages"), module_prefix.rstrip("."))
    public = make_private_key(installation.folder / f"{SIGNER}.pem").public.text
    spec = {"tenant_id": neutral_policy.TENANT, "tier": "T2", "keys": [{"public_key": public}]}
    entry = {"kind": "agent", "id": SIGNER, "revision": 1, "spec": spec}
    asyncio.run(publish_policy(kafka, installation.prefix, installation.trust.sign_entries([entry])))
    return installation


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


def run_commands(words: list[str], folder: Path) -> None:
    """Run what fetches and builds."""
    if shutil.which(words[0]) is None:
        pytest.skip(f"there is no {words[0]} on this machine")
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE_S, env=os.environ
    )
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"{' '.join(words)}: {done.stderr}")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", params=["node", "go"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that starts the example."""
    folder = tmp_path_factory.mktemp("client") / "example"
    shutil.copytree(
        EXAMPLES / request.param, folder, ignore=lambda *_: ["node_modules"]
    )  # nothing is built in the tree
    if request.param == "go":
        run_commands(["go", "build", UNOPTIMISED, "-o", "guarded", "."], folder)
        return [str(folder / "guarded")]
    run_commands(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
    return ["node", str(folder / "guarded.js")]


def call(
    client: list[str],
    installation: TestInstallation,
    tool: str,
    sessions: list[str],
    agent: str = neutral_policy.AGENT,
    key: str = "",
) -> list[dict[str, Any]]:
    """What the program says of one call in each session."""
    words = [*client, installation.bootstrap_servers, installation.prefix, agent, tool, *sessions]
    env = {**os.environ, "AGENT_KEY": key, "SLUICE_POLICY__INSTALLATION": installation.trust.installation}
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S, env=env)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_an_allowed_tool_runs_and_its_outcome_settles_in_sessions_of_every_partition(
    client: list[str], installation: TestInstallation, worker: WorkerProcess
) -> None:
    sessions = [f"{client[0][-4:]} größe %{number}" for number in range(12)]
    told = call(client, installation, neutral_policy.READ_TOOL, sessions)
    assert told == [{"session": one, "result": "read orders"} for one in sessions]
    settled = wait_for(installation, SESSION_EVENTS, sessions, 12, worker)
    assert {(one["session_id"], one["reported_by"]) for one in settled} == {
        (one, neutral_policy.AGENT) for one in sessions
    }
    assert len({one["input"]["partition"] for one in settled}) > 1


def test_a_denied_tool_does_not_run(
    client: list[str], installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = f"{client[0][-4:]} denied"
    (told,) = call(client, installation, "unknown.tool", [session])
    assert told["refused"].startswith("denied: unregistered_tool")
    assert len(wait_for(installation, VERDICTS, session, 1, worker)) == 1
    assert records(installation, OUTCOMES, session) == []


def test_a_verdict_that_a_stranger_wrote_before_the_action_lets_no_tool_run(
    client: list[str], installation: TestInstallation, worker: WorkerProcess
) -> None:
    """Mend 22.3: under the id of the verdict to come."""
    honest, session = f"{client[0][-4:]} honest", f"{client[0][-4:]} forged"
    call(client, installation, neutral_policy.READ_TOOL, [honest])
    (allowed,) = wait_for(installation, VERDICTS, honest, 1, worker)
    partition = home_of(session.encode(), installation.partitions)
    offset = sum(one.partition == partition for one in read_stored(installation, ACTIONS))
    an_id = f"verdict:{ACTIONS}:{partition}:{offset}"
    value = json.dumps({**allowed, "verdict_id": an_id, "session_id": "of the forger"}).encode()
    publish(installation, [(session.encode(), value)], VERDICTS, [("ce_id", an_id.encode())])
    (told,) = call(client, installation, "unknown.tool", [session])
    assert told["refused"].startswith("denied: unregistered_tool")
    assert records(installation, VERDICTS, session)[0]["verdict_id"] == an_id


def test_an_agent_that_signs_is_believed_with_its_key_alone(
    client: list[str], installation: TestInstallation, worker: WorkerProcess
) -> None:
    session, key = f"{client[0][-4:]} größe signs", str(installation.folder / f"{SIGNER}.pem")
    assert call(client, installation, neutral_policy.READ_TOOL, [session], SIGNER, key) == [
        {"session": session, "result": "read orders"}
    ]
    (settled,) = wait_for(installation, SESSION_EVENTS, session, 1, worker)
    assert settled["reported_by"] == SIGNER, "its outcome was signed as well"
    (told,) = call(client, installation, neutral_policy.READ_TOOL, [session], SIGNER)
    assert told["refused"].startswith("denied: unsigned_agent: missing")
