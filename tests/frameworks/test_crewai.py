"""CrewAI: 200 calls of a scripted model through the guard's hooks, by function calls and in text."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import threading
from contextlib import ExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "OTEL_SDK_DISABLED": "true",
    "CREWAI_TRACING_ENABLED": "false",
}

import pytest
from crewai import Agent, Crew, Task
from crewai.hooks import InterceptionPoint, register_hook, unregister_hook
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool as as_tool

from sluice.client import GateClient, in_session
from sluice.client.frameworks.crewai import CrewGuard
from tests.frameworks.framework_checks import (
    InstantClient,
    answer_soon,
    check_200_calls,
    check_overhead,
    check_two_hours,
)
from tests.frameworks.scenario import RecordedTools
from tests.frameworks.scripted_gate import TOOL, Scenario, ScriptedCall, raise_fault
from tests.frameworks.snippets import read_snippet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sluice.client import AsyncGateClient, ClientOptions
    from sluice.client.frameworks.tool_calls import ToolCallGate
    from tests.frameworks.gate import RemoteGate

offer = functools.cache(as_tool)
"""One tool for each function, as crews share it."""


class ScriptedLLM(BaseLLM):
    """Makes one call, then says what it read. `in_text`: a model without function calls."""

    tool: str
    arguments: dict[str, Any]
    in_text: bool = False

    def supports_function_calling(self) -> bool:
        return not self.in_text

    def call(self, messages: Any, *_: Any, **more: Any) -> Any:
        if self.in_text:
            texts = [str(one["content"]) for one in messages if one["role"] == "assistant"]
            read = [text.split("Observation: ", 1)[1] for text in texts if "Observation: " in text]
            if read:
                return f"Thought: I now know the final answer\nFinal Answer: {read[0]}"
            return f"Thought: go on\nAction: {self.tool}\nAction Input: {json.dumps(self.arguments)}"
        answers = [one for one in messages if one.get("role") == "tool"]
        if answers:
            return f"read: {answers[-1]['content']}"
        called = {"name": self.tool, "arguments": json.dumps(self.arguments)}
        return [{"id": "call-1", "type": "function", "function": called}]


def make_crew(*tools: Any, name: str, arguments: dict[str, Any], in_text: bool = False) -> Crew:
    model = ScriptedLLM(model="scripted", tool=name, arguments=arguments, in_text=in_text)
    agent = Agent(role="mover", goal="go on", backstory="none", llm=model, tools=[*tools], max_iter=3)
    task = Task(description="go on", expected_output="what it read", agent=agent)
    return Crew(agents=[agent], tasks=[task], cache=False)


class CrewAI:
    """Crews in threads, each behind the guard of the client that makes the call; every second one's model
    calls its tool in text."""

    package = "crewai"

    def __init__(self) -> None:
        self._clients: dict[AsyncGateClient, GateClient] = {}
        self._entered = ExitStack()
        self._guard: tuple[AsyncGateClient, CrewGuard] | None = None

    @asynccontextmanager
    async def connect(self, gate: RemoteGate, options: ClientOptions) -> AsyncIterator[AsyncGateClient]:
        with GateClient(gate.servers, gate.agent, options) as client, self._entered:
            self._clients[client.asynchronous] = client
            yield client.asynchronous

    async def begin(self, gate: ToolCallGate, call: Any, tools: Any) -> Any:
        guard = self._guard_by(gate)
        offered = [offer(one) for one in tools]
        crew = make_crew(*offered, name=call.tool, arguments=call.arguments, in_text=call.number % 2 == 1)
        with in_session(str(gate.session_id)):
            try:
                return await crew.kickoff_async()
            except asyncio.CancelledError:
                guard.end_session(str(gate.session_id))
                raise

    def read(self, result: Any) -> str:
        return str(result)

    def _guard_by(self, gate: ToolCallGate) -> CrewGuard:
        """One at a time, since a call must pass all guards of the process."""
        if self._guard is None or self._guard[0] is not gate.client:
            self._entered.close()
            made = CrewGuard(self._clients[gate.client], approval_timeout_s=gate.approval_timeout_s)
            self._guard = gate.client, self._entered.enter_context(made)
        return self._guard[1]


async def test_200_calls_run_what_is_allowed_once_and_as_it_was_judged(
    gate: RemoteGate, tmp_path: Path
) -> None:
    await check_200_calls(CrewAI(), gate, tmp_path, parks=False)


async def test_an_approval_of_two_hours_is_told_to_the_model_and_runs_in_a_new_crew_of_the_session(
    gate: RemoteGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await check_two_hours(CrewAI(), gate, tmp_path, monkeypatch, parks=False)


class InstantThread(GateClient):
    """An InstantClient on a thread of its own."""

    def __init__(self) -> None:
        super().__init__("nowhere:1", InstantClient.agent_id)

    async def _make_client(self, *_: Any) -> AsyncGateClient:
        return InstantClient()


async def test_the_adapter_costs_less_than_a_millisecond_over_the_client(tmp_path: Path) -> None:
    tool, bare = (as_tool(RecordedTools(tmp_path).count) for _ in range(2))
    seen, agent = tool.to_structured_tool(), SimpleNamespace(role="mover")
    with InstantThread() as client, CrewGuard(client, "fast") as guard:

        async def run(call_id: str) -> None:
            given = {"number": int(call_id.split("-")[1])}
            context = SimpleNamespace(tool_name="count", tool_input=given, tool=seen, agent=agent)
            guard.check_call(context)
            assert tool.run(**given) == given["number"]
            assert guard.close_call(context) is None

        async def run_bare(call_id: str) -> None:
            with client.action("count", {"number": int(call_id.split("-")[1])}, session_id="fast") as permit:
                bare.run(**permit.parameters)

        await check_overhead("crewai", run, run_bare)


def test_the_guide_s_program_guards_a_crew_and_waits_for_its_approver(
    gate: RemoteGate, tmp_path: Path
) -> None:
    tools = RecordedTools(tmp_path)
    crew = make_crew(
        as_tool(tools.pay), name="pay", arguments={"customer": "ada", "amount": 2, "number": 1004}
    )
    names = {"servers": gate.servers, "options": gate.make_options(), "agents": crew.agents}
    answered = threading.Thread(target=lambda: asyncio.run(answer_soon(gate)))
    answered.start()
    exec(read_snippet("CrewAI"), names | {"tasks": crew.tasks})  # noqa: S102 - the documents are ours
    answered.join()
    assert len(tools.list_runs()) == 1


@pytest.mark.parametrize("in_text", [False, True])
def test_calls_by_functions_and_in_text_run_once_and_say_why_they_did_not(
    tmp_path: Path, in_text: bool
) -> None:
    scenario = Scenario(tmp_path)
    tool = as_tool(scenario.move_records)

    def run(call: ScriptedCall) -> str:
        crew = make_crew(tool, name=TOOL, arguments=call.arguments, in_text=in_text)
        return str(crew.kickoff())

    calls = [call for call in scenario.calls[:30] if call.kind != "cancelled"]
    scenario.calls = [call if call in calls else call._replace(kind="out") for call in scenario.calls]
    with scenario.open_thread() as client, CrewGuard(client, "scripted", approval_timeout_s=0.01):
        said = {call.kind: run(call) for call in calls}
        assert "moved" in said["allowed"]
        assert "scripted: denied" in said["denied"]
        assert "a person must agree first" in said["waiting"]
        scenario.check(frozenset(("allowed", "slow", "fails")))
        scenario.answer_as_people()
        for call in calls:
            if call.kind in {"approved", "waiting", "killed"}:
                run(call)
    scenario.check(frozenset(("allowed", "approved", "slow", "fails", "killed")))


def test_an_error_of_the_guard_s_own_and_a_later_hook_s_change_run_nothing(
    tmp_path: Path,
) -> None:
    scenario = Scenario(tmp_path)
    crew = make_crew(as_tool(scenario.move_records), name=TOOL, arguments=scenario.calls[0].arguments)
    with scenario.open_thread() as client, CrewGuard(client, "scripted", describe=raise_fault):
        assert "AdapterFault" in str(crew.kickoff())

    def change(context: Any) -> None:
        context.tool_input["place"] = 77

    with scenario.open_thread() as client, CrewGuard(client, "scripted"):
        register_hook(InterceptionPoint.PRE_TOOL_CALL, change)
        try:
            assert "has not allowed this run" in str(crew.kickoff())
        finally:
            unregister_hook(InterceptionPoint.PRE_TOOL_CALL, change)
    assert scenario.ran == []
