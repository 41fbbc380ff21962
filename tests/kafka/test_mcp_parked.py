"""A call that waits for a person is parked with the client, and goes on after everything was restarted."""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from mcp import MCPError
from mcp_types import CallToolResult, InputRequiredResult

from sluice_topics.catalog import ACTIONS, ESCALATIONS, OUTCOMES, REVIEWS
from tests.kafka.installation import publish, records, run_worker, wait_for
from tests.kafka.mcp_place import Place, answer, make_installation

if TYPE_CHECKING:
    from pathlib import Path

    from mcp import Client

    from load.installations.installation import TestInstallation

pytestmark = pytest.mark.kafka
run = contextmanager(run_worker)


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    return make_installation(kafka, tmp_path_factory.mktemp("mcp_parked"), module_prefix)


@pytest.fixture
def place(installation: TestInstallation, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    place = Place(installation, tmp_path, request.node.name)
    (tmp_path / "mcp.toml").write_text(
        f'approval_s = 3\njournal = "{tmp_path}/journal"\nparking_key = "{tmp_path}/parking.key"\n'
    )
    place.options += ["--config", tmp_path / "mcp.toml"]
    return place


async def call(client: Client, name: str, arguments: dict[str, Any], state: str | None = None) -> Any:
    return await client.session.call_tool(name, arguments, request_state=state, allow_input_required=True)


async def park(place: Place, *calls: dict[str, Any]) -> list[str]:
    """Make calls that wait, and return their states; agent and proxy have ended then."""
    async with place.agent() as client:
        parked = [await call(client, "refund", one) for one in calls]
    assert all(isinstance(one, InputRequiredResult) for one in parked)
    return [one.request_state for one in parked]


async def test_a_parked_call_goes_on_after_a_restart_of_everything_and_runs_once(place: Place) -> None:
    with run(place.installation, "before") as worker:
        agreed, refused, waiting = await park(place, {"text": "1"}, {"text": "2"}, {"text": "3"})
        asked = await asyncio.to_thread(wait_for, place.installation, ESCALATIONS, place.session, 3, worker)
        reviews = [
            answer(place.installation, one, decision, narrowed)
            for one, decision, narrowed in zip(
                asked, ("approve", "deny"), ({"text": "0"}, None), strict=False
            )
        ]
        await asyncio.to_thread(publish, place.installation, reviews, REVIEWS)
    assert place.calls == []
    with run(place.installation, "after") as worker:
        await asyncio.to_thread(wait_for, place.installation, ESCALATIONS, place.session, 5, worker)
        async with place.agent() as client:
            done = await call(client, "refund", {"text": "1"}, agreed)
            denied = await call(client, "refund", {"text": "2"}, refused)
            again = await call(client, "refund", {"text": "1"}, agreed)
            still = await call(client, "refund", {"text": "3"}, waiting)
        async with place.agent() as client:
            later = await call(client, "refund", {"text": "1"}, agreed)
        assert isinstance(done, CallToolResult)
        assert place.calls, done
        told = await asyncio.to_thread(wait_for, place.installation, OUTCOMES, place.session, 1, worker)
    assert [one.text for one in done.content][1:] == ["0"]
    assert "approval_denied: ann" in denied.content[0].text
    for one in (again, later):
        assert one.is_error
        assert "does not run again" in one.content[0].text
    assert isinstance(still, InputRequiredResult)
    assert place.calls == [["refund", {"text": "0"}]]
    assert len(told) == 1
    proposed = await asyncio.to_thread(records, place.installation, ACTIONS, place.session)
    assert len(proposed) == 3, "a call that goes on is the action that it was"


async def test_a_state_counts_for_its_agent_session_and_call_alone(place: Place) -> None:
    with run(place.installation, "worker"):
        (state,) = await park(place, {"text": "1"})
        async with place.agent() as client:
            for name, arguments, given in (
                ("refund", {"text": "2"}, state),
                ("read", {"text": "1"}, state),
                ("refund", {"text": "1"}, state[:-2] + ("AA" if state[-2:] != "AA" else "BB")),
                ("refund", {"text": "1"}, json.dumps({"action_id": "a", "asked": "", "until_s": 9e9})),
            ):
                with pytest.raises(MCPError, match="Invalid or expired requestState"):
                    await call(client, name, arguments, given)
        session = place.options.index(place.session)
        place.options[session] = "another"
        async with place.agent() as client:
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await call(client, "refund", {"text": "1"}, state)
        place.options[session] = place.session
        (place.folder / "journal").unlink()
        async with place.agent() as client:
            lost = await call(client, "refund", {"text": "1"}, state)
        assert "does not have the action" in lost.content[0].text
    assert place.calls == []


async def test_those_who_come_back_with_one_state_at_the_same_time_run_the_tool_once(place: Place) -> None:
    with run(place.installation, "worker") as worker:
        (state,) = await park(place, {"text": "1"})
        (asked,) = await asyncio.to_thread(
            wait_for, place.installation, ESCALATIONS, place.session, 1, worker
        )
        await asyncio.to_thread(
            publish, place.installation, [answer(place.installation, asked, "approve")], REVIEWS
        )
        async with place.agent() as client:
            ended = await asyncio.gather(*(call(client, "refund", {"text": "1"}, state) for _ in range(5)))
    assert place.calls == [["refund", {"text": "1"}]]
    ran = [one for one in ended if isinstance(one, CallToolResult) and not one.is_error]
    assert [one.content[0].text for one in ran] == ["1"]


async def test_a_client_of_an_older_version_gets_an_error_and_no_state(place: Place) -> None:
    with run(place.installation, "worker"):
        async with place.agent(mode="legacy") as client:
            assert (await client.call_tool("refund", {"text": "1"})).is_error


def test_a_key_without_a_journal_or_a_session_that_stays_is_refused(place: Place) -> None:
    file = place.folder / "mcp.toml"
    for text, options in (
        ('parking_key = "key"\n', place.options),
        ('parking_key = "key"\njournal = "j"\n', ["--agent", "a", "--server", "load", "--config", file]),
    ):
        file.write_text(text)
        ran = place.sluice(*options, "--", "true")
        assert ran.returncode == 2
        assert "parking_key needs" in ran.stderr
