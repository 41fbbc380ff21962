"""LangChain's agent, on LangGraph, behind the gate."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from sluice.client.frameworks.langchain import GateMiddleware
from tests.frameworks.scenario import RecordedTools, recount, run_calls

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.client import AsyncGateClient
    from tests.frameworks.gate import RemoteGate
    from tests.frameworks.scenario import PlannedCall


class ScriptedModel(BaseChatModel):
    """Calls one tool, then ends. LangChain's own fake model raises on `bind_tools`."""

    call: dict[str, Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **more: Any) -> ScriptedModel:
        """The script knows its tools."""
        return self

    def _generate(self, messages: list[Any], *args: Any, **more: Any) -> ChatResult:
        done = isinstance(messages[-1], ToolMessage)
        said = AIMessage("done") if done else AIMessage("", tool_calls=[self.call])
        return ChatResult(generations=[ChatGeneration(message=said)])


def script(name: str, call_id: str, arguments: dict[str, Any]) -> ScriptedModel:
    """A model that makes this call."""
    return ScriptedModel(call={"name": name, "id": call_id, "args": arguments, "type": "tool_call"})


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
