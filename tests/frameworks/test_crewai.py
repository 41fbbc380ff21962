"""CrewAI: 200 calls of a scripted model through the guard's hooks, by function calls and in text."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from importlib.metadata import version
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
from tests.frameworks.scenario import HASTY_S, PATIENT_S, PlannedCall, RecordedTools, recount, run_calls
from tests.frameworks.scripted_gate import TOOL, Scenario, ScriptedCall, ScriptedThread, raise_fault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sluice.client import AsyncGateClient
    from tests.frameworks.gate import RemoteGate

HASTY = ("too_slow", "away")


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


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return Scenario(tmp_path)


@pytest.fixture
def client(scenario: Scenario) -> Iterator[ScriptedThread]:
    with ScriptedThread(scenario.exchange, scenario.folder / "thread") as started:
        yield started


async def test_200_calls_run_what_is_allowed_once_and_as_it_was_judged(
    gate: RemoteGate, tmp_path: Path
) -> None:
    tools = RecordedTools(tmp_path)
    offered = [as_tool(one) for one in (tools.read_records, tools.read_slowly, tools.pay)]
    clients = {
        wait_s: GateClient(gate.servers, gate.agent, gate.make_options(tmp_path / f"{wait_s}.db", wait_s))
        for wait_s in (PATIENT_S, HASTY_S)
    }
    guards: list[tuple[float, CrewGuard]] = []
    for client in clients.values():
        await asyncio.to_thread(client.start)

    def choose(wait_s: float) -> CrewGuard:
        """That of the client for a kind of calls; those of the kind before have all ended."""
        if not guards or guards[-1][0] != wait_s:
            for _, guard in guards[-1:]:
                guard.__exit__()
            guards.append((wait_s, CrewGuard(clients[wait_s], approval_timeout_s=60).__enter__()))
        return guards[-1][1]

    async def run(_: AsyncGateClient, call: PlannedCall) -> str:
        guard = choose(HASTY_S if call.kind in HASTY else PATIENT_S)
        crew = make_crew(*offered, name=call.tool, arguments=call.arguments)
        with in_session(call.session):
            try:
                return str(await crew.kickoff_async())
            except asyncio.CancelledError:
                guard.end_session(call.session)
                raise

    ended = await run_calls(gate, run, tmp_path)
    guards[-1][1].__exit__()
    for client in clients.values():
        await asyncio.to_thread(client.close)
    runs = {one["parameters"]["number"] for one in tools.list_runs()}
    print({number: str(text)[-200:] for number, text in ended.items() if number not in runs}, file=sys.stderr)
    print("crewai", version("crewai"), dict(recount(gate, tools)), file=sys.stderr)
    assert "read_records has run" in ended[0]
    assert "denied by rules: rule_failed: no-payroll" in ended[95]


@pytest.mark.parametrize("in_text", [False, True])
def test_calls_by_functions_and_in_text_run_once_and_say_why_they_did_not(
    scenario: Scenario, client: ScriptedThread, in_text: bool
) -> None:
    tool = as_tool(scenario.move_records)

    def run(call: ScriptedCall) -> str:
        crew = make_crew(tool, name=TOOL, arguments=call.arguments, in_text=in_text)
        return str(crew.kickoff())

    calls = [call for call in scenario.calls[:30] if call.kind != "cancelled"]
    scenario.calls = [call if call in calls else call._replace(kind="out") for call in scenario.calls]
    with CrewGuard(client, "scripted", approval_timeout_s=0.01):
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
    scenario: Scenario, client: ScriptedThread
) -> None:
    crew = make_crew(as_tool(scenario.move_records), name=TOOL, arguments=scenario.calls[0].arguments)
    with CrewGuard(client, "scripted", describe=raise_fault):
        assert "AdapterFault" in str(crew.kickoff())

    def change(context: Any) -> None:
        context.tool_input["place"] = 77

    with CrewGuard(client, "scripted"):
        register_hook(InterceptionPoint.PRE_TOOL_CALL, change)
        try:
            assert "has not allowed this run" in str(crew.kickoff())
        finally:
            unregister_hook(InterceptionPoint.PRE_TOOL_CALL, change)
    assert scenario.ran == []
