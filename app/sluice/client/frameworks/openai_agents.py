"""OpenAI Agents SDK (`openai-agents`): function tools behind the gate, held calls as its interruptions."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agents import Agent, FunctionTool, Handoff
from agents.tool import (
    ApplyPatchTool,
    ComputerTool,
    CustomTool,
    LocalShellTool,
    ShellTool,
    maybe_invoke_function_tool_failure_error_function,
    set_function_tool_failure_error_function,
)

from sluice.client.answers import ClientError, NeedsHuman, make_refusal
from sluice.client.frameworks.tool_calls import ToolCall, ToolCallGate, read_arguments, warn_of_hosted

if TYPE_CHECKING:
    from agents import RunContextWrapper
    from agents.result import RunResultBase
    from agents.run_state import RunState
    from agents.tool_context import ToolContext

_LOCAL = (ApplyPatchTool, ComputerTool, CustomTool, LocalShellTool, ShellTool)
_GUARDED = "_guarded_by_sluice"


def guard_agent(agent: Agent[Any], gate: ToolCallGate) -> Agent[Any]:
    """A copy of the agent whose function tools run only if the gate allows the call, and of the agents that
    it hands off to. Tools that the model's provider runs are warned of.

    Raises ClientError for what runs here and would pass by the gate: MCP servers, tools of a shell or a
    computer, and an agent as a tool that is not guarded itself."""
    return _guard_agent(agent, gate, {})


async def settle_interruptions(result: RunResultBase, gate: ToolCallGate) -> RunState[Any, Any]:
    """The state to resume a run whose calls were held. Each waits for its person, `approval_timeout_s`; then
    it is approved, or rejected with the gate's reason. What still waits is interrupted again on resume."""
    state = result.to_state()
    for item in state.get_interruptions():
        raw = item.raw_item
        read = raw.get if isinstance(raw, dict) else lambda name, raw=raw: getattr(raw, name, None)
        try:
            call = ToolCall(
                item.name, read_arguments(read("arguments")), str(read("call_id") or ""), item.agent.name
            )
            verdict = await gate.await_verdict(call, wait=True)
        except NeedsHuman:
            continue
        except ClientError as error:
            state.reject(item, rejection_message=error.for_model)
            continue
        if verdict.allowed:
            state.approve(item)
        else:
            state.reject(item, rejection_message=make_refusal(verdict).for_model)
    return state


def _guard_agent(agent: Agent[Any], gate: ToolCallGate, made: dict[int, Agent[Any]]) -> Agent[Any]:
    """`made`: the copies by the ids of their originals, since agents hand off to each other."""
    if hasattr(agent, _GUARDED):
        return agent
    if id(agent) in made:
        return made[id(agent)]
    if agent.mcp_servers:
        raise ClientError(
            f"{agent.name} has mcp_servers", "Reach them through `sluice mcp`, and leave them out here"
        )
    warn_of_hosted(tool.name for tool in agent.tools if not isinstance(tool, (FunctionTool, *_LOCAL)))
    tools = [_guard_tool(tool, agent.name, gate) for tool in agent.tools]
    made[id(agent)] = guarded = agent.clone(tools=tools, handoffs=[])
    setattr(guarded, _GUARDED, agent)  # keeps the original, so that no other object gets its id
    guarded.handoffs = [_guard_handoff(target, gate, made) for target in agent.handoffs]
    return guarded


def _guard_handoff(target: Any, gate: ToolCallGate, made: dict[int, Agent[Any]]) -> Any:
    if isinstance(target, Agent):
        return _guard_agent(target, gate, made)
    if not isinstance(target, Handoff):
        raise ClientError(f"{target!r} is no handoff that can be guarded", "Hand off to an Agent")
    enter = target.on_invoke_handoff

    async def enter_guarded(context: RunContextWrapper[Any], text: str) -> Agent[Any]:
        return _guard_agent(await enter(context, text), gate, made)

    return replace(target, on_invoke_handoff=enter_guarded)


def _guard_tool(tool: Any, agent: str, gate: ToolCallGate) -> Any:
    if isinstance(tool, _LOCAL):
        raise ClientError(
            f"{agent}: {tool.name} runs here and cannot be guarded", "Offer it as a function tool"
        )
    if not isinstance(tool, FunctionTool):
        return tool
    inner = getattr(tool, "_agent_instance", None)
    if inner is not None and not hasattr(inner, _GUARDED):
        raise ClientError(f"{agent}: {tool.name} is an agent without a guard", "guard_agent(…).as_tool(…)")
    if inner is not None:
        return tool  # its own tools ask; it ends only when those that are held have ended
    if tool.needs_approval is not False:
        raise ClientError(
            f"{agent}: {tool.name} has needs_approval", "Leave it out: the gate says what is held"
        )
    call = _GuardedCall(tool, agent, gate)
    guarded = copy.copy(tool)
    guarded.on_invoke_tool, guarded.needs_approval = call.invoke, call.is_held
    return guarded


class _GuardedCall:
    """The calls of a tool. Nothing comes between the gate's answer and the tool: guardrails ran before."""

    def __init__(self, tool: FunctionTool, agent: str, gate: ToolCallGate) -> None:
        self._tool, self._agent, self._gate = tool, agent, gate
        self._raising = set_function_tool_failure_error_function(copy.copy(tool), None)
        self._refused: dict[str, ClientError] = {}

    async def is_held(self, _: RunContextWrapper[Any], parameters: dict[str, Any], call_id: str) -> bool:
        try:
            verdict = await self._gate.await_verdict(
                ToolCall(self._tool.name, parameters, call_id, self._agent)
            )
        except ClientError as error:  # raised here, the SDK would ask a person
            self._refused[call_id] = error
            return False
        return not verdict.allowed and verdict.escalation_id is not None

    async def invoke(self, context: ToolContext[Any], text: str) -> Any:
        async def work(parameters: dict[str, Any]) -> Any:
            return await self._raising.on_invoke_tool(context, json.dumps(parameters))

        try:
            if context.tool_call_id in self._refused:
                raise self._refused.pop(context.tool_call_id)
            call = ToolCall(self._tool.name, read_arguments(text), context.tool_call_id, self._agent)
        except ClientError as error:
            return error.for_model
        try:
            return await self._gate.run(call, work, lambda error: error.for_model, wait=True)
        except Exception as error:  # as the tool's own policy for errors has it
            reply = await maybe_invoke_function_tool_failure_error_function(
                function_tool=self._tool, context=context, error=error
            )
            if reply is None:
                raise
            return reply
