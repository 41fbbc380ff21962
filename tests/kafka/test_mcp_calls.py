"""MCP: 200 calls of a scripted client through the proxy, and an approval that takes two hours."""

from __future__ import annotations

import sys
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest
from mcp import MCPError
from mcp.server import Server
from mcp_types import CallToolResult, InputRequiredResult, ListToolsResult, TextContent, Tool

from sluice.adapters.mcp.proxy_file import Parking, ProxyOptions
from sluice.client import AsyncGateClient
from tests.adapters.mcp_in_memory import NEW, OLD, HandshakeOnly, behind_proxy
from tests.frameworks.gate import RemoteGate, open_gate, pass_two_hours
from tests.frameworks.scenario import PlannedCall, RecordedTools, recount, run_calls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from mcp import Client

pytestmark = pytest.mark.kafka
NAMES = ("read_records", "read_slowly", "pay")
PARKING = Parking(bytes(range(32)), "agent", 24 * 3600.0)
AT_ONCE_S, PATIENT_S = 0.1, 20.0
"""How long a proxy waits for an approver: so briefly that the call is parked, or until the answer."""


@pytest.fixture(scope="module")
def gate(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteGate]:
    """A worker on the broker that all tests share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAFKA_BOOTSTRAP_SERVERS", kafka)
        with open_gate(tmp_path_factory.mktemp("mcp_gate")) as opened:
            yield opened


def make_server(tools: RecordedTools) -> Server[Any]:
    async def list_tools(_: Any, __: Any) -> ListToolsResult:
        schema = {"type": "object"}
        return ListToolsResult(
            tools=[Tool(name=name, description=f"To {name}.", input_schema=schema) for name in NAMES]
        )

    async def call_tool(_: Any, params: Any) -> CallToolResult:
        said = getattr(tools, params.name)(**params.arguments)
        return CallToolResult(content=[TextContent(type="text", text=said)])

    return Server("records", on_list_tools=list_tools, on_call_tool=call_tool)


@asynccontextmanager
async def in_session(
    gate: AsyncGateClient,
    tools: RecordedTools,
    folder: Path,
    session: str,
    versions: tuple[str, str] = (NEW, NEW),
    **more: Any,
) -> AsyncIterator[Client]:
    """A client behind a proxy of its own; `versions`: the client's and the server's."""
    server: Any = make_server(tools)
    options = ProxyOptions(
        "records",
        session,
        {name: name for name in NAMES},
        **{"approval_s": AT_ONCE_S, "parking": PARKING, **more},
    )
    upstream = server if versions[1] == NEW else HandshakeOnly(server)
    async with behind_proxy(gate, upstream, folder, versions[0], options) as client:
        yield client


async def call(client: Client, tool: str, arguments: dict[str, Any], state: str | None = None) -> Any:
    return await client.session.call_tool(tool, arguments, request_state=state, allow_input_required=True)


async def test_200_calls_run_what_is_allowed_once_and_as_it_was_judged(
    gate: RemoteGate, tmp_path: Path
) -> None:
    tools = RecordedTools(tmp_path)
    parked = set()

    async def run(gate_client: AsyncGateClient, planned: PlannedCall) -> str:
        versions = [(client, server) for client in (NEW, OLD) for server in (NEW, OLD)][planned.number % 4]
        arguments, state = planned.arguments, None
        while True:
            at_once = state is None and versions[0] == NEW
            wait_s = AT_ONCE_S if at_once else PATIENT_S
            async with in_session(
                gate_client, tools, tmp_path, planned.session, versions, approval_s=wait_s
            ) as client:
                ended = await call(client, planned.tool, arguments, state)
            if not isinstance(ended, InputRequiredResult):
                return str(ended.content[0].text)
            parked.add(planned.number)  # it goes on at another proxy
            state = ended.request_state

    began = time.monotonic()
    ended = await run_calls(gate, run, tmp_path)
    counts, took_s = dict(recount(gate, tools)), round(time.monotonic() - began)
    print("mcp", version("mcp"), counts, f"{took_s} s", file=sys.stderr)  # noqa: T201 - a figure of the docs
    assert parked, "nobody waited longer than the proxy"
    assert ended[0] == "read_records has run"
    assert "denied by rules: rule_failed: no-payroll" in ended[95]


async def test_an_approval_of_two_hours_and_a_restart_of_everything_resumes(
    gate: RemoteGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Client, proxy and worker are new, and the clock of the proxy's host is two hours later."""
    tools = RecordedTools(tmp_path)
    arguments = {"customer": "bob", "amount": 3, "number": 1001}

    @asynccontextmanager
    async def again(parking: Parking = PARKING, wait_s: float = 1.0) -> AsyncIterator[Client]:
        options = gate.make_options(tmp_path / "journal")
        async with (
            AsyncGateClient(gate.servers, gate.agent, options) as gate_client,
            in_session(
                gate_client, tools, tmp_path, "two-hours", parking=parking, approval_s=wait_s
            ) as client,
        ):
            yield client

    async with again() as client:
        parked = await call(client, "pay", arguments)
        still = await call(client, "pay", arguments, parked.request_state)
    async with again(replace(PARKING, longest_s=3600.0)) as client:
        short = await call(client, "pay", arguments, still.request_state)
    assert isinstance(short, InputRequiredResult)
    gate.do("stop")
    gate.do("start")
    assert gate.do("answer_escalations", approve=True) == 1
    pass_two_hours(monkeypatch)
    other = replace(PARKING, agent_id="other")
    for state, parking in ((still.request_state, other), (short.request_state, PARKING)):
        async with again(parking) as client:
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await call(client, "pay", arguments, state)
    assert tools.list_runs() == []
    async with again(wait_s=PATIENT_S) as client:
        ended = await call(client, "pay", arguments, still.request_state)
        repeated = await call(client, "pay", arguments, still.request_state)
    assert ended.content[0].text == "pay has run"
    assert repeated.is_error
    assert "does not run again" in repeated.content[0].text
    assert tools.list_runs() == [{"tool": "pay", "parameters": arguments}]
