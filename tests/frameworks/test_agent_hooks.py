"""AGENT-HOOKS 0.1: the interceptor in the SDK's own host, and the SDK's vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_hooks import AgentContextBuilder, Decision, InterceptionBlocked, InterceptionEmitter

from sluice.client.frameworks.agent_hooks import GateInterceptor
from sluice.client.frameworks.tool_calls import ToolCallGate
from tests.frameworks.framework_checks import (
    InstantClient,
    check_200_calls,
    check_overhead,
    check_restart,
    check_two_hours,
)
from tests.frameworks.scripted_gate import Scenario, ToolFailed, raise_fault

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

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


class AgentHooks:
    """The SDK's own host, whose session the calls are in."""

    package = "agent-hooks-sdk"

    async def begin(self, gate: ToolCallGate, call: Any, tools: Any) -> Any:
        (tool,) = [one for one in tools if one.__name__ == call.tool]
        return await make_call(replace(gate, session_id=None), str(gate.session_id), call, tool)

    def read(self, result: Any) -> str:
        return str(result.result.verdict.message if isinstance(result, InterceptionBlocked) else result)


async def test_200_calls_run_what_is_allowed_once_and_as_it_was_judged(
    gate: RemoteGate, tmp_path: Path
) -> None:
    await check_200_calls(AgentHooks(), gate, tmp_path, parks=False)


async def test_a_restarted_process_repeats_no_call(tmp_path: Path) -> None:
    await check_restart(AgentHooks(), tmp_path, parks=False)


async def test_an_approval_of_two_hours_is_told_to_the_model_and_runs_when_the_call_is_made_again(
    gate: RemoteGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await check_two_hours(AgentHooks(), gate, tmp_path, monkeypatch, parks=False)


async def test_the_adapter_costs_less_than_a_millisecond_over_the_client() -> None:
    interceptor = GateInterceptor(ToolCallGate(InstantClient()))
    builder = AgentContextBuilder(agent_id="host", framework="host", session_id=SESSION)

    async def run(call_id: str) -> None:
        called: Any = {"call_id": call_id, "name": "count", "args": {"number": 1}}
        assert (await interceptor.intercept(builder.pre_tool_call(**called))).decision == Decision.ALLOW
        await interceptor.intercept(builder.post_tool_call(**called, value=1))

    async def run_bare(call_id: str) -> None:
        called: Any = {"call_id": call_id, "name": "count", "args": {"number": 1}}
        builder.pre_tool_call(**called)
        builder.post_tool_call(**called, value=1)

    await check_overhead("agent-hooks-sdk", run, run_bare)


async def test_a_fault_of_the_adapters_own_and_a_gate_that_is_too_slow_run_nothing(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path)
    gates = (replace(scenario.gate, describe=raise_fault), scenario.gate)
    for gate, kind, reason in zip(gates, ("allowed", "cancelled"), ("failed", "timeout"), strict=True):
        call = next(one for one in scenario.calls if one.kind == kind)
        ended = await make_call(gate, SESSION, call, scenario.move_records, timeout_s=0.1)
        assert ended.result.verdict.reason == f"host_error:interceptor_{reason}"
    assert scenario.ran == []
