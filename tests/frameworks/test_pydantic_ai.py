"""Pydantic AI: 200 calls of a scripted model through the capability."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import sys
from contextlib import nullcontext
from dataclasses import replace
from importlib.metadata import version
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelRetry
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import FunctionModel

from sluice.client.frameworks.pydantic_ai import GateCapability
from sluice.client.frameworks.tool_calls import ToolCallGate
from tests.frameworks.scenario import PlannedCall, RecordedTools, recount, run_calls
from tests.frameworks.scripted_gate import (
    RUNS,
    TOOL,
    AdapterFault,
    Scenario,
    ScriptedCall,
    ToolFailed,
    raise_fault,
)

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.client import AsyncGateClient
    from tests.frameworks.gate import RemoteGate

HELD = {"approved", "refused", "waiting"}


def script(name: str, call_id: str, arguments: dict[str, Any]) -> FunctionModel:
    """A model that makes this call, then ends."""

    def answer(messages: list[Any], _: Any) -> ModelResponse:
        if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart(name, arguments, call_id)])

    return FunctionModel(answer)


def make_agent(model: FunctionModel, gate: ToolCallGate, *tools: Any) -> Any:
    return Agent(
        model, tools=tools, output_type=[str, DeferredToolRequests], capabilities=[GateCapability(gate)]
    )


def make_mover(scenario: Scenario, call: ScriptedCall) -> Any:
    model = script(TOOL, call.call_id, call.arguments)
    return make_agent(model, scenario.gate, scenario.move_records)


async def run_call(scenario: Scenario, call: ScriptedCall) -> Any:
    running = asyncio.ensure_future(make_mover(scenario, call).run("go"))
    if call.kind == "cancelled":
        await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return None
    if call.kind == "fails":
        with nullcontext() if scenario.exchange.people_answer else pytest.raises(ToolFailed):
            await running
        return None
    return await running


async def resume(scenario: Scenario, call: ScriptedCall, kept: bytes) -> Any:
    """In a process that knows nothing but the text of the messages."""
    return await make_mover(scenario, call).run(
        message_history=ModelMessagesTypeAdapter.validate_json(kept),
        deferred_tool_results=DeferredToolResults(approvals={call.call_id: True}),
    )


def read_output(result: Any) -> str:
    (part,) = [one for each in result.all_messages() for one in each.parts if isinstance(one, ToolReturnPart)]
    return str(part.content)


async def test_200_calls_run_what_is_allowed_once_and_as_it_was_judged(
    gate: RemoteGate, tmp_path: Path
) -> None:
    tools = RecordedTools(tmp_path)
    parked = set()

    async def run(client: AsyncGateClient, call: PlannedCall) -> str:
        model = script(call.tool, call.call_id, call.arguments)
        calls = ToolCallGate(client, call.session)
        agent = make_agent(model, calls, tools.read_records, tools.read_slowly, tools.pay)
        ended = await agent.run("go on")
        while isinstance(ended.output, DeferredToolRequests):
            parked.add(call.number)
            results = DeferredToolResults(approvals={call.call_id: True})
            ended = await agent.run(message_history=ended.all_messages(), deferred_tool_results=results)
        return read_output(ended)

    ended = await run_calls(gate, run, tmp_path)
    print("pydantic-ai", version("pydantic-ai-slim"), dict(recount(gate, tools)), file=sys.stderr)
    assert len(parked) == 25
    assert ended[0] == "read_records has run"
    assert ended[95].startswith("denied by rules: rule_failed: no-payroll")


def test_a_restarted_process_resumes_held_calls_and_repeats_none(tmp_path: Path) -> None:
    asyncio.run(_run_all(Scenario(tmp_path)))


async def _run_all(scenario: Scenario) -> None:
    kept = {}
    for call in scenario.calls:
        result = await run_call(scenario, call)
        if result is not None:
            assert isinstance(result.output, DeferredToolRequests) == (call.kind in HELD), call
            if call.kind in HELD:
                assert result.output.metadata[call.call_id]["escalation_id"]
                kept[call.call_id] = result.all_messages_json()
            elif call.kind not in RUNS:
                assert "The tool did not run" in read_output(result)
    scenario.check(RUNS - {"approved"})
    held = [one for one in scenario.calls if one.call_id in kept]
    await scenario.restart()
    for call in held:  # the program alone approves, and the gate does not
        assert isinstance((await resume(scenario, call, kept[call.call_id])).output, DeferredToolRequests)
    scenario.check(RUNS - {"approved"})
    scenario.answer_as_people()
    for call in held:
        result = await resume(scenario, call, kept[call.call_id])
        assert isinstance(result.output, DeferredToolRequests) == (call.kind == "waiting")
    scenario.check()
    for call in scenario.calls:
        if call.kind != "cancelled":
            await run_call(scenario, call)
    scenario.check(RUNS | {"killed"})
    await scenario.client.close()


def test_a_retry_of_the_tools_own_is_reported_and_a_date_runs_as_it_was_judged(tmp_path: Path) -> None:
    async def run() -> None:
        scenario = Scenario(tmp_path)
        ran: list[Any] = []

        def plan(day: dt.date) -> str:
            ran.append(day)
            raise ModelRetry("later")

        def answer(messages: list[Any], _: Any) -> ModelResponse:
            return ModelResponse(
                [
                    ToolCallPart("plan", {"day": "2026-11-27"}, "c-1")
                    if len(messages) == 1
                    else TextPart("done")
                ]
            )

        scenario.exchange._decide = lambda record: scenario.exchange.answer(record, "allowed")  # type: ignore[method-assign] # noqa: SLF001
        agent = Agent(FunctionModel(answer), tools=[plan], capabilities=[GateCapability(scenario.gate)])
        await agent.run("go")
        assert ran == [dt.date(2026, 11, 27)]
        assert [one["error"] for one in scenario.exchange.outcomes.values()] == ["ModelRetry"]

    asyncio.run(run())


async def test_a_fault_of_the_adapters_own_runs_nothing(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path)
    gate = replace(scenario.gate, describe=raise_fault)
    call = scenario.calls[0]
    agent = make_agent(script(TOOL, call.call_id, call.arguments), gate, scenario.move_records)
    with pytest.raises(AdapterFault):
        await agent.run("go")
    assert scenario.ran == []


async def test_tools_that_the_provider_runs_are_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parameters = SimpleNamespace(native_tools=[SimpleNamespace(kind="web_search")])
    capability = GateCapability(Scenario(tmp_path).gate)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            request: Any = SimpleNamespace(model_request_parameters=parameters)
            assert await capability.before_model_request(Any, request) is request
    assert caplog.text.count("web_search") == 1
