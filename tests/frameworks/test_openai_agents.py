"""OpenAI Agents SDK: 200 calls of a scripted model through the guarded agent."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from agents import (
    Agent,
    Runner,
    RunState,
    UserError,
    WebSearchTool,
    function_tool,
    handoff,
    set_tracing_disabled,
)
from agents.testing import ScriptedModel
from agents.tool_context import ToolContext
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from sluice.client import ClientError
from sluice.client.frameworks.openai_agents import guard_agent, settle_interruptions
from sluice.client.frameworks.tool_calls import ToolCallGate
from tests.frameworks.framework_checks import (
    InstantClient,
    answer_soon,
    check_200_calls,
    check_overhead,
    check_restart,
    check_two_hours,
)
from tests.frameworks.scenario import PlannedCall, RecordedTools
from tests.frameworks.scripted_gate import TOOL, Scenario, ScriptedCall, ScriptedClient, raise_fault
from tests.frameworks.snippets import run_snippet

if TYPE_CHECKING:
    from pathlib import Path

    from tests.frameworks.gate import RemoteGate

set_tracing_disabled(True)


def say(call: Any, name: str = TOOL) -> list[Any]:
    """What the model answers: a call, or that it is done."""
    if call is None:
        text = ResponseOutputText(text="done", type="output_text", annotations=[])
        return [
            ResponseOutputMessage(
                id="m", content=[text], role="assistant", status="completed", type="message"
            )
        ]
    return [
        ResponseFunctionToolCall(
            name=name, call_id=call.call_id, arguments=json.dumps(call.arguments), type="function_call"
        )
    ]


def make_agent(call: Any, *tools: Any) -> Agent[Any]:
    """`call` None: the model goes on after one."""
    script = [say(None)] if call is None else [say(call, call.tool), say(None)]
    return Agent("mover", model=ScriptedModel(script), tools=[function_tool(one) for one in tools])


def read_output(result: Any) -> str:
    (output,) = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    return str(output)


class OpenAIAgents:
    """Runs that are kept as the text of their state."""

    package = "openai-agents"

    async def begin(self, gate: ToolCallGate, call: Any, tools: Any) -> Any:
        return await Runner.run(guard_agent(make_agent(call, *tools), gate), "go")

    def read(self, result: Any) -> str:
        return read_output(result)

    def keep(self, result: Any) -> Any:
        return result.to_state().to_string() if result.interruptions else None

    async def resume(self, gate: ToolCallGate, call: Any, tools: Any, kept: str) -> Any:
        guarded = guard_agent(make_agent(None, *tools), gate)
        first = await Runner.run(guarded, await RunState.from_string(guarded, kept))
        assert first.interruptions  # nobody has settled it: it is held again
        return await Runner.run(guarded, await settle_interruptions(first, gate))


async def test_200_calls_run_what_is_allowed_once_and_as_it_was_judged(
    gate: RemoteGate, tmp_path: Path
) -> None:
    await check_200_calls(OpenAIAgents(), gate, tmp_path, parks=True)


async def test_a_restarted_process_resumes_held_calls_and_repeats_none(tmp_path: Path) -> None:
    await check_restart(OpenAIAgents(), tmp_path, parks=True)


async def test_an_approval_of_two_hours_and_a_restart_of_everything_resumes(
    gate: RemoteGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await check_two_hours(OpenAIAgents(), gate, tmp_path, monkeypatch, parks=True)


async def test_the_adapter_costs_less_than_a_millisecond_over_the_client(tmp_path: Path) -> None:
    bare = function_tool(RecordedTools(tmp_path).count)
    (guarded,) = guard_agent(Agent("a", tools=[bare]), ToolCallGate(InstantClient(), "fast")).tools
    text = json.dumps({"number": 1})

    def make_context(call_id: str) -> Any:
        return ToolContext(None, tool_name="count", tool_call_id=call_id, tool_arguments=text)

    async def run(call_id: str) -> None:
        context = make_context(call_id)
        assert not await guarded.needs_approval(context, {"number": 1}, call_id)
        assert await guarded.on_invoke_tool(context, text) == 1

    async def run_bare(call_id: str) -> None:
        await bare.on_invoke_tool(make_context(call_id), text)

    await check_overhead("openai-agents", run, run_bare)


async def test_the_guide_s_program_guards_an_agent_and_settles_what_is_held(
    gate: RemoteGate, tmp_path: Path
) -> None:
    tools = RecordedTools(tmp_path)
    call = PlannedCall(1002, "approved", "pay", {"customer": "ada", "amount": 2, "number": 1002})
    answered = asyncio.create_task(answer_soon(gate))
    names = {"servers": gate.servers, "options": gate.make_options(), "agent": make_agent(call, tools.pay)}
    left = await run_snippet("OpenAI Agents", **names)
    await answered
    assert read_output(left["said"]) == "pay has run"
    assert len(tools.list_runs()) == 1


def test_an_approval_of_the_program_alone_runs_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        scenario = Scenario(tmp_path)
        call = next(one for one in scenario.calls if one.kind == "waiting")
        guarded = guard_agent(make_agent(call, scenario.move_records), scenario.gate)
        state = (await Runner.run(guarded, "go")).to_state()
        for item in state.get_interruptions():
            state.approve(item)
        result = await Runner.run(guarded, state)
        assert "a person must agree first" in read_output(result)
        assert scenario.ran == []

    asyncio.run(run())


def test_an_agent_that_takes_over_is_guarded_and_acts_as_its_own_registered_agent(tmp_path: Path) -> None:
    async def run() -> None:
        scenario = Scenario(tmp_path)
        call = scenario.calls[0]
        second = make_agent(call, scenario.move_records)
        second.handoff_description = "moves"
        first = Agent(
            "front",
            model=ScriptedModel([say(ScriptedCall("h", "", {}), "transfer_to_mover")]),
            handoffs=[handoff(second)],
        )
        second.handoffs = [first]
        delegate = ScriptedClient(scenario.exchange, tmp_path / "second", "scripted-mover")
        asked: list[dict[str, Any]] = []
        ask = scenario.exchange.ask

        async def note(sent: Any, *more: Any) -> Any:
            asked.append(json.loads(sent.value))
            return await ask(sent, *more)

        scenario.exchange.ask = note  # type: ignore[assignment, method-assign]
        gate = replace(scenario.gate, delegates={"mover": delegate})
        await Runner.run(guard_agent(first, gate), "go")
        assert [one["place"] for one in scenario.ran] == [call.arguments["place"]]
        assert [one["agent_id"] for one in asked] == ["scripted-mover"]
        assert asked[0]["governanceContext"]["parentAgentId"] == "scripted-agent"

    asyncio.run(run())


def test_what_the_gate_cannot_see_is_refused_or_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scenario = Scenario(tmp_path)
    with caplog.at_level(logging.WARNING):
        guard_agent(Agent("a", tools=[WebSearchTool()]), scenario.gate)
    assert "web_search" in caplog.text
    inner = Agent("inner").as_tool("ask_inner", "asks")
    own = function_tool(scenario.move_records, needs_approval=True)
    for tool, words in ((inner, "agent without a guard"), (own, "needs_approval")):
        with pytest.raises(ClientError, match=words):
            guard_agent(Agent("a", tools=[tool]), scenario.gate)


def test_an_error_of_the_adapters_own_fails_the_call(tmp_path: Path) -> None:
    async def run() -> None:
        scenario = Scenario(tmp_path)
        gate = replace(scenario.gate, describe=raise_fault)
        guarded = guard_agent(make_agent(scenario.calls[0], scenario.move_records), gate)
        with pytest.raises(UserError):
            await Runner.run(guarded, "go")
        assert scenario.ran == []

    asyncio.run(run())
