"""AGENT-HOOKS 0.1: the interceptor in the SDK's own host and in Agent Framework, and the SDK's vectors."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest
from agent_framework import Agent as AgentOfFramework
from agent_framework import (
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    create_agent_hooks_middleware,
)
from agent_hooks import AgentContextBuilder, InterceptionBlocked, InterceptionEmitter

from sluice.client.frameworks.agent_hooks import GateInterceptor
from sluice.client.frameworks.tool_calls import ToolCallGate
from tests.frameworks.scenario import PlannedCall, RecordedTools, recount, run_calls
from tests.frameworks.scripted_gate import RUNS, TOOL, Scenario, ScriptedCall, ToolFailed, raise_fault

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.client import AsyncGateClient
    from tests.frameworks.gate import RemoteGate

SESSION = "scripted"


def test_the_sdk_passes_its_conformance_vectors(agent_hooks_assert: None) -> None:
    """The fixture runs the vectors of the wheel, each a test."""


async def make_call(gate: ToolCallGate, session: str, call: Any, tool: Any, *, timeout_s: float = 90) -> Any:
    """As a host of the contract does: ask, run what is left of the target, tell the result."""
    interceptor = GateInterceptor(gate)
    emitter = InterceptionEmitter(resolver=interceptor, timeout=timeout_s).register(interceptor)
    builder = AgentContextBuilder(agent_id="host", framework="host", session_id=session)
    context = builder.pre_tool_call(call_id=call.call_id, name=tool.__name__, args=dict(call.arguments))
    told = {"call_id": call.call_id, "name": tool.__name__, "args": call.arguments}
    try:
        arguments = (await emitter.emit(context)).target
    except InterceptionBlocked as blocked:
        return blocked
    try:
        value = tool(**arguments)
    except ToolFailed as error:
        name = type(error).__name__
        await emitter.emit(builder.post_tool_call(**told, value=name, is_error=True))
        return name
    await emitter.emit(builder.post_tool_call(**told, value=value))
    return value


async def test_200_calls_run_what_is_allowed_once_and_as_it_was_judged(
    gate: RemoteGate, tmp_path: Path
) -> None:
    tools = RecordedTools(tmp_path)

    async def run(client: AsyncGateClient, call: PlannedCall) -> Any:
        calls = ToolCallGate(client, approval_timeout_s=60)
        return await make_call(calls, call.session, call, getattr(tools, call.tool))

    ended = await run_calls(gate, run, tmp_path)
    print("agent-hooks-sdk", version("agent-hooks-sdk"), dict(recount(gate, tools)), file=sys.stderr)
    assert ended[0] == "read_records has run"
    assert ended[95].result.verdict.message.startswith("denied by rules: rule_failed: no-payroll")


async def test_a_restarted_process_resumes_held_calls_and_repeats_none(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path)

    async def run(call: ScriptedCall) -> Any:
        running = asyncio.ensure_future(make_call(scenario.gate, SESSION, call, scenario.move_records))
        if call.kind != "cancelled":
            return await running
        await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return None

    for call in scenario.calls:
        allowed = call.kind in RUNS - {"approved"} or call.kind == "cancelled"
        assert isinstance(await run(call), InterceptionBlocked) != allowed
    scenario.check(RUNS - {"approved"})
    await scenario.restart()
    scenario.answer_as_people()
    for _ in range(2):
        for call in scenario.calls:
            await run(call)
    scenario.check(RUNS | {"killed"})
    assert scenario.move_records.__name__ == TOOL
    await scenario.client.close()


async def test_a_fault_of_the_adapters_own_and_a_gate_that_is_too_slow_run_nothing(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path)
    gates = (replace(scenario.gate, describe=raise_fault), scenario.gate)
    for gate, kind, reason in zip(gates, ("allowed", "cancelled"), ("failed", "timeout"), strict=True):
        call = next(one for one in scenario.calls if one.kind == kind)
        ended = await make_call(gate, SESSION, call, scenario.move_records, timeout_s=0.1)
        assert ended.result.verdict.reason == f"host_error:interceptor_{reason}"
    assert scenario.ran == []


class ScriptedChat(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Makes one call, then ends."""

    def __init__(self, call: ScriptedCall) -> None:
        super().__init__()
        self._call = call

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any) -> Any:
        async def answer() -> ChatResponse:
            if any(one.type == "function_result" for message in messages for one in message.contents):
                return ChatResponse(messages=[Message("assistant", [Content.from_text("done")])])
            call = Content.from_function_call(self._call.call_id, TOOL, arguments=self._call.arguments)
            return ChatResponse(messages=[Message("assistant", [call])])

        return answer()


async def test_agent_framework_runs_what_the_interceptor_allows(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path)
    interceptor = GateInterceptor(replace(scenario.gate, session_id=None))
    for call in scenario.calls[:10]:
        if call.kind != "cancelled":
            guard = create_agent_hooks_middleware([interceptor], resolver=interceptor)
            tools = [scenario.move_records]
            agent = AgentOfFramework(ScriptedChat(call), name="mover", tools=tools, middleware=[guard])
            await agent.run("go")
    assert {one["kind"] for one in scenario.ran} == RUNS - {"approved"}
    errors = {one["action_id"]: one.get("error") for one in scenario.exchange.outcomes.values()}
    assert sorted(map(str, errors.values())) == ["None", "None", "ToolFailed"]
