"""Agent Framework: 200 calls of a scripted model through the interceptor of AGENT-HOOKS."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

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

from sluice.client.frameworks.agent_hooks import GateInterceptor
from tests.frameworks.framework_checks import (
    answer_soon,
    check_200_calls,
    check_restart,
    check_two_hours,
)
from tests.frameworks.scenario import PlannedCall, RecordedTools
from tests.frameworks.snippets import run_snippet

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from sluice.client.frameworks.tool_calls import ToolCallGate
    from tests.frameworks.gate import RemoteGate


class ScriptedChat(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Makes one call, then ends."""

    def __init__(self, call: Any) -> None:
        super().__init__()
        self._call = call

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any) -> Any:
        async def answer() -> ChatResponse:
            if any(one.type == "function_result" for message in messages for one in message.contents):
                return ChatResponse(messages=[Message("assistant", [Content.from_text("done")])])
            call = Content.from_function_call(
                self._call.call_id, self._call.tool, arguments=self._call.arguments
            )
            return ChatResponse(messages=[Message("assistant", [call])])

        return answer()


def read_output(result: Any) -> str:
    (part,) = [
        one for message in result.messages for one in message.contents if one.type == "function_result"
    ]
    return str(part.result)


class AgentFramework:
    """A new agent for each call."""

    package = "agent-framework-core"

    async def begin(self, gate: ToolCallGate, call: Any, tools: Any) -> Any:
        interceptor = GateInterceptor(gate)
        guard = create_agent_hooks_middleware([interceptor], resolver=interceptor, timeout=90)
        return await make_agent(call, tools, guard).run("go")

    def read(self, result: Any) -> str:
        return read_output(result)


def make_agent(call: Any, tools: Any, *guards: Any) -> AgentOfFramework:
    return AgentOfFramework(ScriptedChat(call), name="mover", tools=[*tools], middleware=[*guards])


async def test_200_calls_run_what_is_allowed_once_and_as_it_was_judged(
    gate: RemoteGate, tmp_path: Path
) -> None:
    await check_200_calls(AgentFramework(), gate, tmp_path, parks=False)


async def test_a_restarted_process_repeats_no_call(tmp_path: Path) -> None:
    await check_restart(AgentFramework(), tmp_path, parks=False)


async def test_an_approval_of_two_hours_is_told_to_the_model_and_runs_when_the_call_is_made_again(
    gate: RemoteGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await check_two_hours(AgentFramework(), gate, tmp_path, monkeypatch, parks=False)


async def test_the_guide_s_program_guards_an_agent_and_waits_for_its_approver(
    gate: RemoteGate, tmp_path: Path
) -> None:
    tools = RecordedTools(tmp_path)
    call = PlannedCall(1005, "approved", "pay", {"customer": "ada", "amount": 2, "number": 1005})
    answered = asyncio.create_task(answer_soon(gate))
    names = {"servers": gate.servers, "options": gate.make_options(), "chat": ScriptedChat(call)}
    heading = "Agent Framework, and other hosts of AGENT-HOOKS 0.1"
    left = await run_snippet(heading, **names, tools=[tools.pay])
    await answered
    assert read_output(left["said"]) == "pay has run"
    assert len(tools.list_runs()) == 1
