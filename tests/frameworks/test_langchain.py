"""LangChain's agent, on LangGraph, behind the gate."""

from __future__ import annotations

import asyncio
import logging
import statistics
import sys
import time
from contextlib import asynccontextmanager
from importlib.metadata import version
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command
from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator

from sluice.client import AsyncGateClient, GateClient, in_session
from sluice.client.frameworks.langchain import GateMiddleware
from tests.frameworks.gate import pass_two_hours
from tests.frameworks.scenario import ACTIONS, OUTCOMES, RecordedTools, recount, run_calls
from tests.frameworks.snippets import run_snippet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

    from tests.frameworks.gate import RemoteGate
    from tests.frameworks.scenario import PlannedCall


class ScriptedModel(BaseChatModel):
    """Calls tools, then ends. LangChain's own fake model raises on `bind_tools`."""

    calls: list[dict[str, Any]]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **more: Any) -> ScriptedModel:
        """The script knows its tools."""
        return self

    def _generate(self, messages: list[Any], *args: Any, **more: Any) -> ChatResult:
        done = isinstance(messages[-1], ToolMessage)
        said = AIMessage("done") if done else AIMessage("", tool_calls=self.calls)
        return ChatResult(generations=[ChatGeneration(message=said)])


def script(name: str, call_id: str, arguments: dict[str, Any]) -> ScriptedModel:
    """A model that makes this call."""
    return ScriptedModel(calls=[{"name": name, "id": call_id, "args": arguments}])


async def test_200_calls_run_what_is_allowed_once_and_as_it_was_judged(
    gate: RemoteGate, tmp_path: Path
) -> None:
    tools = RecordedTools(tmp_path)
    kept = InMemorySaver()
    parked = []

    async def run(client: AsyncGateClient, call: PlannedCall) -> str:
        agent = create_agent(
            script(call.tool, call.call_id, call.arguments),
            [tools.read_records, tools.read_slowly, tools.pay],
            middleware=[GateMiddleware(client)],
            checkpointer=kept,
        )
        config: Any = {"configurable": {"thread_id": call.session}}
        ended = await agent.ainvoke({"messages": [HumanMessage("go on")]}, config)
        while ended.get("__interrupt__"):
            parked.append(call.number)
            ended = await agent.ainvoke(Command(resume="whatever it says"), config)
        (answer,) = [one for one in ended["messages"] if isinstance(one, ToolMessage)]
        return str(answer.content)

    ended = await run_calls(gate, run, tmp_path)
    counts = recount(gate, tools)
    print("langchain", version("langchain"), "langgraph", version("langgraph"), dict(counts), file=sys.stderr)
    assert len(set(parked)) == 25
    by_kind = {number: str(text) for number, text in ended.items()}
    assert by_kind[0] == "read_records has run"
    assert by_kind[95].startswith("denied by rules: rule_failed: no-payroll")


async def test_an_approval_of_two_hours_and_a_restart_of_everything_resumes(
    gate: RemoteGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's process, the worker and the broker are new; the clock of the agent is two hours later."""
    tools = RecordedTools(tmp_path)
    arguments = {"customer": "bob", "amount": 3, "number": 1001}
    config: Any = {"configurable": {"thread_id": "two-hours"}}
    options = gate.make_options(tmp_path / "journal")

    async def go_on(given: Any) -> dict[str, Any]:
        async with (
            AsyncSqliteSaver.from_conn_string(str(tmp_path / "graph.db")) as saver,
            AsyncGateClient(gate.servers, gate.agent, options) as client,
        ):
            middleware = [GateMiddleware(client, resume_wait_s=1)]
            model = script("pay", "call-1001", arguments)
            agent = create_agent(model, [tools.pay], middleware=middleware, checkpointer=saver)
            return await agent.ainvoke(given, config)

    parked = await go_on({"messages": [HumanMessage("pay him")]})
    told = parked["__interrupt__"][0].value
    assert (told["tool"], told["parameters"]) == ("pay", arguments)
    still = await go_on(Command(resume="approved"))
    assert still["__interrupt__"][0].value["escalation_id"] == told["escalation_id"]
    gate.do("restart")
    assert gate.do("answer_escalations", approve=True) == 1
    pass_two_hours(monkeypatch)
    ended = await go_on(Command(resume="denied"))
    assert ended["messages"][-2].content == "pay has run"
    assert tools.list_runs() == [{"tool": "pay", "parameters": arguments}]


async def test_what_runs_is_coerced_and_completed_before_it_is_judged(
    gate: RemoteGate, tmp_path: Path
) -> None:
    ran = []

    def read_records(table: str, number: int, part: int = 3) -> str:
        """Read the records of a table."""
        ran.append((table, number, part))
        return "read"

    async with AsyncGateClient(gate.servers, gate.agent, gate.make_options()) as client:
        for number, strange in (("2001", {"nobody": 1}), ("two", {})):
            model = script("read_records", f"call-{number}", {"table": "orders", "number": number, **strange})
            agent = create_agent(model, [read_records], middleware=[GateMiddleware(client)])
            with in_session("coerced"):
                ended = await agent.ainvoke({"messages": [HumanMessage("read")]})
    assert ran == [("orders", 2001, 3)]
    assert "The tool did not run" in ended["messages"][-2].content
    sent = [one["parameters"] for one in gate.do("read", topic=ACTIONS) if one["session_id"] == "coerced"]
    assert sent == [{"table": "orders", "number": 2001, "part": 3}]


async def test_no_argument_runs_as_a_default_because_its_tool_reads_it_under_another_name(
    gate: RemoteGate,
) -> None:
    class Written(BaseModel):
        dry_run: bool = Field(False, alias="dryRun")

    class WrittenByName(Written):
        model_config = ConfigDict(validate_by_name=True)

    ran = []

    def read_records(dry_run: bool = False) -> str:
        ran.append(dry_run)
        return "read"

    async with AsyncGateClient(gate.servers, gate.agent, gate.make_options()) as client:
        for number, schema in enumerate((Written, WrittenByName)):
            tool = StructuredTool.from_function(
                read_records, description="Read the records.", args_schema=schema
            )
            model = script("read_records", f"aliased-{number}", {"dry_run": True})
            agent = create_agent(model, [tool], middleware=[GateMiddleware(client)])
            with in_session("aliased"):
                await agent.ainvoke({"messages": [HumanMessage("read")]})
    assert ran == [True], "what was judged as a dry run ran as none, or the honest tool did not run"


async def test_a_tool_that_reads_what_was_judged_as_something_else_does_not_run(gate: RemoteGate) -> None:
    class Place(BaseModel):
        path: str = Field("/", alias="p")

    class PlaceByName(Place):
        model_config = ConfigDict(validate_by_name=True)

    class Shortened(BaseModel):
        path: str

        @field_validator("path")
        @classmethod
        def shorten(cls, path: str) -> str:
            return path.removeprefix("/srv")

    ran: list[Any] = []
    cases: list[tuple[type[BaseModel], dict[str, str]]] = [
        (Place, {"p": "/srv/a"}),
        (Shortened, {"path": "/srv/srv/etc"}),
        (PlaceByName, {"p": "/srv/b"}),
        (Shortened, {"path": "/var"}),
    ]

    def read_records(place: Any) -> str:
        ran.append(place.path)
        return "read"

    async with AsyncGateClient(gate.servers, gate.agent, gate.make_options()) as client:
        for number, (kind, given) in enumerate(cases):
            schema = create_model("Given", place=(kind, ...))
            tool = StructuredTool.from_function(
                read_records, description="Read the records.", args_schema=schema
            )
            model = script("read_records", f"read-again-{number}", {"place": given})
            agent = create_agent(model, [tool], middleware=[GateMiddleware(client)])
            with in_session("read-again"):
                await agent.ainvoke({"messages": [HumanMessage("read")]})
    assert ran == ["/srv/b", "/var"], "what ran is not what was judged, or an honest call did not run"


def test_the_same_without_an_event_loop_and_a_warning_of_hosted_tools(
    gate: RemoteGate, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tools = RecordedTools(tmp_path)
    config: Any = {"configurable": {"thread_id": "in-threads"}}
    arguments = {"customer": "cyd", "amount": 4, "number": 1002}
    with GateClient(gate.servers, gate.agent, gate.make_options()) as client:
        agent = create_agent(
            script("pay", "call-1002", arguments),
            [tools.pay, {"type": "web_search"}],
            middleware=[GateMiddleware(client)],
            checkpointer=InMemorySaver(),
        )
        with caplog.at_level(logging.WARNING):
            parked = agent.invoke({"messages": [HumanMessage("pay")]}, config)
        assert parked["__interrupt__"]
        gate.do("answer_escalations", approve=True)
        ended = agent.invoke(Command(resume=True), config)
    assert caplog.text.count("the gate sees no call: web_search") == 1
    assert ended["messages"][-2].content == "pay has run"
    assert len(tools.list_runs()) == 1


async def test_a_retry_of_a_call_does_not_run_its_tool_again(gate: RemoteGate) -> None:
    ran = []

    def read_records(table: str, number: int) -> str:
        """Read the records of a table."""
        ran.append(number)
        raise ConnectionError(table)

    model = script("read_records", "call-1003", {"table": "orders", "number": 1003})
    async with AsyncGateClient(gate.servers, gate.agent, gate.make_options()) as client:
        retried = ToolRetryMiddleware(max_retries=2, initial_delay=0)
        agent = create_agent(model, [read_records], middleware=[retried, GateMiddleware(client)])
        with in_session("retried"):
            ended = await agent.ainvoke({"messages": [HumanMessage("read")]})
    assert ran == [1003]
    assert "was started before" in ended["messages"][-2].content
    told = [one for one in gate.do("read", topic=OUTCOMES) if one["session_id"] == "retried"]
    assert [one["error"] for one in told] == ["ConnectionError"]


async def test_the_guide_s_program_guards_an_agent(gate: RemoteGate, tmp_path: Path) -> None:
    tools = RecordedTools(tmp_path)
    left = await run_snippet(
        "LangChain",
        servers=gate.servers,
        options=gate.make_options(),
        model=script("read_records", "call-1004", {"table": "payroll", "number": 1004}),
        tools=[tools.read_records],
        saver=InMemorySaver(),
    )
    assert left["said"]["messages"][-2].content.startswith("denied by rules")
    assert tools.list_runs() == []


class InstantGate(AsyncGateClient):
    """Allows everything at once."""

    def __init__(self) -> None:
        pass

    @asynccontextmanager
    async def action(self, tool_name: str, parameters: Any, **more: Any) -> AsyncIterator[Any]:
        """Nobody is asked."""
        yield SimpleNamespace(parameters=parameters)


async def test_the_middleware_costs_less_than_a_millisecond_over_the_client(tmp_path: Path) -> None:
    middleware = GateMiddleware(InstantGate())
    read = StructuredTool.from_function(RecordedTools(tmp_path).read_records)
    runtime: Any = SimpleNamespace(config={"configurable": {"thread_id": "fast"}})
    took = []

    async def run(request: ToolCallRequest) -> ToolMessage:
        return ToolMessage("read", tool_call_id=str(request.tool_call["id"]))

    for number in range(300):
        called: Any = {"name": "read_records", "id": f"c-{number}", "type": "tool_call"}
        called["args"] = {"table": "orders", "number": number}
        began = time.thread_time()
        await middleware.awrap_tool_call(ToolCallRequest(called, read, {}, runtime), run)
        took.append(time.thread_time() - began)
    p50_ms = 1000 * statistics.median(took)
    print(f"GateMiddleware: {p50_ms:.2f} ms a call over the client", file=sys.stderr)
    assert p50_ms < 1


async def test_calls_of_one_message_park_and_resume_each_for_itself(gate: RemoteGate, tmp_path: Path) -> None:
    tools = RecordedTools(tmp_path)
    kept = InMemorySaver()
    calls = [
        {"name": "pay", "id": f"call-{n}", "args": {"customer": "eve", "amount": n, "number": n}}
        for n in (1101, 1102)
    ]
    read = {"name": "read_records", "id": "call-1103", "args": {"table": "orders", "number": 1103}}
    config: Any = {"configurable": {"thread_id": "several"}}
    async with AsyncGateClient(gate.servers, gate.agent, gate.make_options()) as client:
        agent = create_agent(
            ScriptedModel(calls=[*calls, read]),
            [tools.pay, tools.read_records],
            middleware=[GateMiddleware(client)],
            checkpointer=kept,
        )
        parked = await agent.ainvoke({"messages": [HumanMessage("pay both")]}, config)
        waiting = {one.id: one.value["parameters"]["number"] for one in parked["__interrupt__"]}
        assert sorted(waiting.values()) == [1101, 1102]
        await asyncio.to_thread(gate.do, "answer_escalations", approve=True)
        ended = await agent.ainvoke(Command(resume=dict.fromkeys(waiting, True)), config)
    assert ended["messages"][-1].content == "done"
    assert sorted(one["parameters"]["number"] for one in tools.list_runs()) == [1101, 1102, 1103]


async def test_a_tool_node_of_one_s_own_graph_asks_as_well(gate: RemoteGate, tmp_path: Path) -> None:
    tools = RecordedTools(tmp_path)
    calls = [
        {"name": "read_records", "id": f"call-{n}", "args": {"table": table, "number": n}}
        for n, table in ((1104, "orders"), (1105, "payroll"))
    ]
    async with AsyncGateClient(gate.servers, gate.agent, gate.make_options()) as client:
        node = ToolNode([tools.read_records], awrap_tool_call=GateMiddleware(client).awrap_tool_call)
        graph: Any = StateGraph(MessagesState)
        graph.add_node("tools", node)
        graph.add_edge(START, "tools")
        graph.set_finish_point("tools")
        config: Any = {"configurable": {"thread_id": "own-graph"}}
        ended = await graph.compile().ainvoke({"messages": [AIMessage("", tool_calls=calls)]}, config)
    said = {one.tool_call_id: one.content for one in ended["messages"][1:]}
    assert said["call-1104"] == "read_records has run"
    assert said["call-1105"].startswith("denied by rules")
    assert len(tools.list_runs()) == 1
