"""What `sluice mcp` does when its server dies, or its caller goes away: the outcome is told all the same."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from mcp import MCPError

from sluice_topics.catalog import OUTCOMES, VERDICTS
from tests.kafka.installation import make_small_installation, records, run_worker, wait_for
from tests.kafka.mcp_place import SERVER, Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
SOON_S = 3.0


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    return make_small_installation(kafka, tmp_path_factory.mktemp("mcp_faults"), module_prefix.rstrip("."))


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


@pytest.fixture
def place(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path, request: pytest.FixtureRequest
) -> Place:
    return Place(installation, tmp_path, request.node.name)


async def outcome(place: Place, worker: WorkerProcess) -> dict[str, Any]:
    (told,) = await asyncio.to_thread(wait_for, place.installation, OUTCOMES, place.session, 1, worker)
    return told


async def test_a_server_that_dies_in_a_call_leaves_an_outcome_and_no_later_call_is_proposed(
    place: Place, worker: WorkerProcess
) -> None:
    async with place.agent() as client:
        with pytest.raises(MCPError):
            await client.call_tool("read", {"text": "die"})
        with pytest.raises(MCPError):
            await client.call_tool("read", {"text": "x"})
    assert (await outcome(place, worker))["error"] == "MCPError"
    assert len(await asyncio.to_thread(records, place.installation, VERDICTS, place.session)) == 1
    assert place.calls == [["read", {"text": "die"}]]


async def test_a_caller_that_gives_a_call_up_leaves_an_outcome(place: Place, worker: WorkerProcess) -> None:
    async with place.agent() as client:
        with pytest.raises(MCPError):
            await client.call_tool("read", {"text": "sleep"}, read_timeout_seconds=SOON_S)
        assert (await outcome(place, worker))["error"] == "CancelledError"
        assert not (await client.call_tool("read", {"text": "x"})).is_error


async def test_a_caller_that_goes_away_in_a_call_leaves_an_outcome(
    place: Place, worker: WorkerProcess
) -> None:
    async with place.agent() as client:
        calling = asyncio.ensure_future(client.call_tool("read", {"text": "sleep"}))
        async with asyncio.timeout(60):
            while not place.calls:
                await asyncio.wait([calling], timeout=0.05)
    await asyncio.gather(calling, return_exceptions=True)
    assert (await outcome(place, worker))["error"] == "CancelledError"


NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        (["--url", f"http://{NOWHERE}/mcp"], {}),
        (["--", "false"], {}),
        (["--", "/no/such/command"], {}),
        (["--config", "FILE.toml", "--", *SERVER, "FILE"], {}),
        (["--", *SERVER, "FILE"], {"SLUICE_KAFKA__BOOTSTRAP_SERVERS": NOWHERE}),
        (["--env", "NOT_THERE", "--", *SERVER, "FILE"], {}),
        (["--env", "SLUICE_KAFKA__BOOTSTRAP_SERVERS", "--", *SERVER, "FILE"], {}),
    ],
    ids=["no address", "no server", "no command", "no journal", "no broker", "no variable", "our variable"],
)
def test_where_it_cannot_begin_it_says_why_and_serves_nothing(
    place: Place, words: list[str], settings: dict[str, str]
) -> None:
    place.environment |= settings
    place.file.with_suffix(".json.toml").write_text('journal = "/no/such/folder/journal"\n')
    ran = place.sluice(*place.options, *(one.replace("FILE", str(place.file)) for one in words))
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr, ran.stderr
    assert "sluice:" in ran.stderr
    assert ran.stdout == ""
