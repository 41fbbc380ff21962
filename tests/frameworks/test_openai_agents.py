"""OpenAI Agents SDK: 200 calls of a scripted model through the guarded agent."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, RunConfig, Runner, RunState, UserError, WebSearchTool, function_tool, handoff
from agents.testing import ScriptedModel
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from sluice.client import AsyncGateClient, ClientError
from sluice.client.frameworks.openai_agents import guard_agent, settle_interruptions
from sluice.client.frameworks.tool_calls import ToolCallGate
from tests.frameworks.scenario import PlannedCall, RecordedTools, recount, run_calls
from tests.frameworks.scripted_gate import RUNS, TOOL, Scenario, ScriptedCall, ScriptedClient, raise_fault

if TYPE_CHECKING:
    from pathlib import Path

    from tests.frameworks.gate import RemoteGate

QUIET = RunConfig(tracing_disabled=True)


def say(call: ScriptedCall | None, name: str = TOOL) -> list[Any]:
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


def make_agent(scenario: Scenario, call: ScriptedCall) -> Agent[Any]:
    tool = function_tool(scenario.move_records)
    return Agent("mover", model=ScriptedModel([say(call), say(None)]), tools=[tool])


async def run_call(scenario: Scenario, call: ScriptedCall) -> Any:
    guarded = guard_agent(make_agent(scenario, call), scenario.gate)
    running = asyncio.ensure_future(Runner.run(guarded, "go", run_config=QUIET))
    if call.kind == "cancelled":
        await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return None
    return await running


async def resume(scenario: Scenario, call: ScriptedCall, kept: str) -> Any:
    """In a process that knows nothing but the text of the state."""
    agent = Agent("mover", model=ScriptedModel([say(None)]), tools=[function_tool(scenario.move_records)])
    guarded = guard_agent(agent, scenario.gate)
    state = await RunState.from_string(guarded, kept)
    first = await Runner.run(guarded, state, run_config=QUIET)  # nobody has settled it: it is held again
    assert first.interruptions
    settled = await settle_interruptions(first, scenario.gate)
    return await Runner.run(guarded, settled, run_config=QUIET)


def read_output(result: Any) -> str:
    (output,) = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    return str(output)


async def test_200_calls_run_what_is_allowed_once_and_as_it_was_judged(
    gate: RemoteGate, tmp_path: Path
) -> None:
    tools = RecordedTools(tmp_path)
    parked = set()

    async def run(client: AsyncGateClient, call: PlannedCall) -> str:
        calls = ToolCallGate(client, call.session)
        model = ScriptedModel(
            [say(ScriptedCall(call.call_id, call.kind, call.arguments), call.tool), say(None)]
        )
        offered = [function_tool(one) for one in (tools.read_records, tools.read_slowly, tools.pay)]
        agent = guard_agent(Agent("reader", model=model, tools=offered), calls)
        ended = await Runner.run(agent, "go on", run_config=QUIET)
        while ended.interruptions:
            parked.add(call.number)
            ended = await Runner.run(agent, await settle_interruptions(ended, calls), run_config=QUIET)
        return read_output(ended)

    ended = await run_calls(gate, run, tmp_path)
    print("openai-agents", version("openai-agents"), dict(recount(gate, tools)), file=sys.stderr)
    assert len(parked) == 25
    assert ended[0] == "read_records has run"
    assert ended[95].startswith("denied by rules: rule_failed: no-payroll")


def test_a_restarted_process_resumes_held_calls_and_repeats_none(tmp_path: Path) -> None:
    asyncio.run(_run_all(Scenario(tmp_path)))


async def _run_all(scenario: Scenario) -> None:
    kept = {}
    for call in scenario.calls:
        result = await run_call(scenario, call)
        held = call.kind in {"approved", "refused", "waiting"}
        if result is not None:
            assert bool(result.interruptions) == held, call
            if held:
                kept[call.call_id] = result.to_state().to_string()
            elif call.kind not in RUNS:
                assert "The tool did not run" in read_output(result)
    scenario.check(RUNS - {"approved"})
    scenario.answer_as_people()
    await scenario.restart()
    for call in [one for one in scenario.calls if one.call_id in kept]:
        result = await resume(scenario, call, kept[call.call_id])
        assert bool(result.interruptions) == (call.kind == "waiting")
    scenario.check()
    for call in scenario.calls:
        if call.kind not in {"cancelled", "waiting"}:
            await run_call(scenario, call)
    scenario.check(RUNS | {"killed"})
    await scenario.client.close()


def test_an_approval_of_the_program_alone_runs_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        scenario = Scenario(tmp_path)
        call = next(one for one in scenario.calls if one.kind == "waiting")
        guarded = guard_agent(make_agent(scenario, call), scenario.gate)
        state = (await Runner.run(guarded, "go", run_config=QUIET)).to_state()
        for item in state.get_interruptions():
            state.approve(item)
        result = await Runner.run(guarded, state, run_config=QUIET)
        assert "a person must agree first" in read_output(result)
        assert scenario.ran == []

    asyncio.run(run())


def test_an_agent_that_takes_over_is_guarded_and_acts_as_its_own_registered_agent(tmp_path: Path) -> None:
    async def run() -> None:
        scenario = Scenario(tmp_path)
        call = scenario.calls[0]
        second = make_agent(scenario, call)
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
        await Runner.run(guard_agent(first, gate), "go", run_config=QUIET)
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
        guarded = guard_agent(make_agent(scenario, scenario.calls[0]), gate)
        with pytest.raises(UserError):
            await Runner.run(guarded, "go", run_config=QUIET)
        assert scenario.ran == []

    asyncio.run(run())
