"""A freeze stops what was allowed and has not started, and what runs; a wide one ends by two people."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from load.installations import neutral_policy
from sluice.bootstrap.followed_freezes import follow_freezes
from sluice.cli.main import cli
from sluice.client import (
    ActionDenied,
    ActionInterrupted,
    ActionStopped,
    AsyncGateClient,
    ClientOptions,
    in_session,
)
from sluice.client.freezes import read_call
from sluice_demo.throwaway_trust import OWNER, REVIEWER
from sluice_topics.catalog import OUTCOMES, VERDICTS
from tests.kafka.installation import (
    action,
    make_small_installation,
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

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess
    from sluice.bootstrap.followed_freezes import FollowedFreezes

pytestmark = pytest.mark.kafka
AGENT, READ, TENANT = neutral_policy.AGENT, neutral_policy.READ_TOOL, neutral_policy.TENANT


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    folder, name = tmp_path_factory.mktemp("in_flight"), module_prefix.rstrip(".")
    made = make_small_installation(kafka, folder, name, ("controls", "tier_auth"))
    made.trust.write(made.folder)
    return made


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


def sluice(
    installation: TestInstallation, *words: str, people: tuple[str, ...] = (OWNER,)
) -> tuple[int, str]:
    """Exit code, and all that the command said."""
    keys = [part for name in people for part in ("--key", str(installation.folder / f"{name}.pem"))]
    ran = CliRunner().invoke(cli, [*words, *keys], env=installation.settings)
    return ran.exit_code, ran.output


async def change(installation: TestInstallation, *words: str, people: tuple[str, ...] = (OWNER,)) -> None:
    code, told = await asyncio.to_thread(
        sluice, installation, *words, "--reason", "incident 7", people=people
    )
    assert code == 0, told


def follow(installation: TestInstallation) -> FollowedFreezes:
    audience = installation.trust.make_audience(installation.prefix)
    keys = [installation.trust.root_key]
    return follow_freezes(installation.bootstrap_servers, keys, audience, refresh_s=0.05)()


def client_of(installation: TestInstallation, view: FollowedFreezes) -> AsyncGateClient:
    """A client that asks this view."""
    options = ClientOptions(topic_prefix=installation.prefix, deadline_s=60.0, freezes=lambda: view)
    return AsyncGateClient(installation.bootstrap_servers, AGENT, options)


def list_outcomes(installation: TestInstallation, session: str) -> list[tuple[int, str | None]]:
    """Rows and error of each outcome of a session."""
    every = [json.loads(record.value or b"null") for record in read_stored(installation, OUTCOMES)]
    return [(one["rows_affected"], one.get("error")) for one in every if one["session_id"] == session]


def verdict_on(installation: TestInstallation, worker: WorkerProcess, session: str, number: int) -> Any:
    """The verdict on the session's action of this number, which is its newest."""
    publish(installation, [action(session, f"a-{number}")])
    return wait_for(installation, VERDICTS, session, number, worker)[-1]


@pytest.mark.usefixtures("worker")
async def test_what_was_allowed_before_a_freeze_does_not_start_and_never_will(
    installation: TestInstallation,
) -> None:
    """As after an approval that took hours: the verdict is there, and the tool has not started."""
    call: dict[str, Any] = {"tool_name": READ, "parameters": {}, "session_id": "waits", "action_id": "a"}
    view = follow(installation)
    async with client_of(installation, view) as gate:
        verdict = await gate.await_verdict(**call)
        assert verdict.allowed
        await change(installation, "freeze", "agent", AGENT)
        async with asyncio.timeout(60):
            while view.find_stop(read_call(verdict)) is None:
                await view.view.wait_for_look()
        with pytest.raises(ActionDenied, match="frozen_agent: incident 7"):
            await gate.permit(**call)
        await change(installation, "thaw", "agent", AGENT)
        with pytest.raises(ActionInterrupted):
            await gate.permit(**call)
    assert await asyncio.to_thread(list_outcomes, installation, "waits") == [(0, "ActionFrozen")]


async def wait_until_thawed(gate: AsyncGateClient) -> None:
    """The worker may not have read yet that the test before thawed the agent."""
    number = 0
    async with asyncio.timeout(60):
        while True:
            call: dict[str, Any] = {"tool_name": READ, "parameters": {}, "session_id": "thawed"}
            if (await gate.await_verdict(**call, action_id=f"a-{number}")).allowed:
                return
            number += 1


@pytest.mark.usefixtures("worker")
async def test_a_tool_that_runs_is_cancelled_and_its_outcome_says_so(installation: TestInstallation) -> None:
    began, ended = asyncio.Event(), asyncio.Event()
    async with client_of(installation, follow(installation)) as gate:
        await wait_until_thawed(gate)

        @gate.guard(READ, rows_before=10)
        async def read() -> None:
            began.set()
            try:
                await asyncio.sleep(300)
            finally:
                ended.set()

        async def call() -> None:
            with in_session("runs"):
                await read()

        running = asyncio.create_task(call())
        beginning = asyncio.create_task(began.wait())
        await asyncio.wait([running, beginning], timeout=60, return_when=asyncio.FIRST_COMPLETED)
        assert began.is_set(), running
        await change(installation, "freeze", "session", "runs")
        with pytest.raises(ActionStopped, match="frozen_session: incident 7"):
            await running
        assert ended.is_set()
    assert await asyncio.to_thread(list_outcomes, installation, "runs") == [(10, "ActionStopped")]


def test_a_tenant_goes_on_by_two_people_and_by_stages(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    session, why = "tenant", ("--reason", "incident 7")
    both = (OWNER, REVIEWER)
    assert verdict_on(installation, worker, session, 1)["verdict"] == "allowed"
    assert sluice(installation, "freeze", "tenant", TENANT, *why)[0] == 0
    number = 2
    while verdict_on(installation, worker, session, number)["blockReason"] != "frozen_tenant: incident 7":
        number += 1
    for words in (("thaw",), ("freeze", "--stage", "ask")):
        code, told = sluice(installation, words[0], "tenant", TENANT, *words[1:], *why)
        assert (code, "second_approver_missing" in told) == (1, True), told
    number += 1
    assert verdict_on(installation, worker, session, number)["verdict"] == "denied"
    code, told = sluice(installation, "freeze", "tenant", TENANT, "--stage", "ask", *why, people=both)
    assert code == 0, told
    while verdict_on(installation, worker, session, number := number + 1)["verdict"] == "denied":
        pass
    last = verdict_on(installation, worker, session, number := number + 1)
    assert (last["verdict"], last["blockReason"]) == ("needs_human", "recovering_tenant: incident 7")
    signed = str(tmp_path / "thaw.signed")
    assert sluice(installation, "thaw", "tenant", TENANT, *why, "--out", signed)[0] == 0
    code, told = sluice(installation, "registry", "publish", signed, people=())
    assert (code, "second_approver_missing" in told) == (1, True), told
    assert sluice(installation, "registry", "cosign", signed, people=(REVIEWER,))[0] == 0
    assert sluice(installation, "registry", "publish", signed, people=())[0] == 0
    while verdict_on(installation, worker, session, number := number + 1)["verdict"] != "allowed":
        pass


def test_an_action_that_comes_again_after_a_freeze_is_denied(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    session = "again"
    publish(installation, [action(session, "a")])
    (first,) = wait_for(installation, VERDICTS, session, 1, worker)
    assert sluice(installation, "freeze", "session", session, "--reason", "incident 7")[0] == 0
    verdicts = [first]

    def is_denied() -> bool:
        publish(installation, [action(session, "a")])
        verdicts[:] = wait_for(installation, VERDICTS, session, len(verdicts) + 1, worker)
        return bool(verdicts[-1]["verdict"] == "denied")

    wait_until(is_denied, worker)
    assert verdicts[-1]["duplicate_of"] == first["verdict_id"]
    assert verdicts[-1]["blockReason"] == "frozen_session: incident 7"


async def test_the_proxy_cancels_a_call_that_runs(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    """The server was asked, and neither its answer nor another call comes through under the freeze."""
    place = Place(installation, tmp_path, "proxied")
    options = tmp_path / "mcp.toml"
    options.write_text("follow_freezes = true\n")
    async with place.agent("--config", options) as client:
        running = asyncio.create_task(client.call_tool("read", {"text": "sleep"}))
        await asyncio.to_thread(wait_until, lambda: bool(place.calls), worker)
        await change(installation, "freeze", "session", "proxied")
        async with asyncio.timeout(60):
            stopped = await running
        later = await client.call_tool("read", {"text": "a text"})
    assert (stopped.is_error, later.is_error) == (True, True)
    assert "frozen_session: incident 7" in stopped.content[0].text
    assert later.structured_content["verdict"] == "denied"
    assert place.calls == [["read", {"text": "sleep"}]]
    outcomes = await asyncio.to_thread(list_outcomes, installation, "proxied")
    assert outcomes[0] == (100, "ActionStopped")  # as reserved: nobody knows how far it came
