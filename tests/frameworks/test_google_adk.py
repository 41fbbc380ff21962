"""Google ADK: 200 calls of a scripted model through the plugin."""

from __future__ import annotations

import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from sluice.client.frameworks.google_adk import GatePlugin
from sluice.client.frameworks.tool_calls import ToolCallGate
from tests.frameworks.framework_checks import (
    InstantClient,
    check_200_calls,
    check_overhead,
    check_restart,
    check_two_hours,
)
from tests.frameworks.scenario import PlannedCall, RecordedTools
from tests.frameworks.scripted_gate import Scenario, raise_fault
from tests.frameworks.snippets import run_snippet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from google.adk.sessions import BaseSessionService

    from tests.frameworks.gate import RemoteGate


class ScriptedLlm(BaseLlm):
    """Makes one call, then ends."""

    call: Any = None

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[Any]:
        last = llm_request.contents[-1].parts[-1]
        if last.function_response is not None:
            part = types.Part(text="done")
        else:
            part = types.Part(function_call=types.FunctionCall(**self.call))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


class GoogleADK:
    """Runs that are kept by their session and the confirmation that they ask for."""

    package = "google-adk"

    def __init__(self, sessions: BaseSessionService | None = None) -> None:
        self._sessions = sessions or InMemorySessionService()
        self._begun = 0

    async def begin(self, gate: ToolCallGate, call: Any, tools: Any) -> Any:
        self._begun += 1
        session = f"{call.call_id}-{self._begun}"
        await self._sessions.create_session(app_name="tests", user_id="u", session_id=session)
        return await self._send(gate, call, tools, session, types.Part(text="go on"))

    def read(self, result: Any) -> str:
        return str(result[1])

    def keep(self, result: Any) -> Any:
        return result[0]

    async def resume(
        self, gate: ToolCallGate, call: Any, tools: Any, kept: Any, *, confirmed: bool = True
    ) -> Any:
        session, asked_id, name = kept
        answer = types.FunctionResponse(id=asked_id, name=name, response={"confirmed": confirmed})
        return await self._send(gate, call, tools, session, types.Part(function_response=answer))

    async def _send(self, gate: ToolCallGate, call: Any, tools: Any, session: str, part: types.Part) -> Any:
        """What is kept, and the tool's answer."""
        app = App(name="tests", root_agent=make_agent(call, *tools), plugins=[GatePlugin(gate)])
        runner = Runner(app=app, session_service=self._sessions)
        answer = asked = None
        message = types.Content(role="user", parts=[part])
        async for event in runner.run_async(user_id="u", session_id=session, new_message=message):
            for called in event.get_function_calls():
                if called.name == "adk_request_confirmation":
                    asked = session, called.id, called.name
            for said in event.get_function_responses():
                answer = said.response
        return asked, answer


def make_agent(call: Any, *tools: Any) -> LlmAgent:
    """Its model makes this call."""
    script = {"id": call.call_id, "name": call.tool, "args": call.arguments}
    return LlmAgent(name="mover", model=ScriptedLlm(model="scripted", call=script), tools=[*tools])


async def test_200_calls_run_what_is_allowed_once_and_as_it_was_judged(
    gate: RemoteGate, tmp_path: Path
) -> None:
    await check_200_calls(GoogleADK(), gate, tmp_path, parks=True)


async def test_a_restarted_process_resumes_held_calls_and_repeats_none(tmp_path: Path) -> None:
    await check_restart(GoogleADK(), tmp_path, parks=True, resumes_again=False)


async def test_an_approval_of_two_hours_and_a_restart_of_everything_resumes(
    gate: RemoteGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    framework = GoogleADK(SqliteSessionService(str(tmp_path / "sessions.db")))
    await check_two_hours(framework, gate, tmp_path, monkeypatch, parks=True)


async def test_a_confirmation_by_the_program_alone_runs_nothing(tmp_path: Path) -> None:
    scenario, framework = Scenario(tmp_path), GoogleADK()
    call = next(each for each in scenario.calls if each.kind == "approved")
    tools = [scenario.move_records]
    kept = framework.keep(await framework.begin(scenario.gate, call, tools))
    result = await framework.resume(scenario.gate, call, tools, kept)
    assert "a person must agree first" in framework.read(result)
    assert framework.keep(result) is None
    scenario.answer_as_people()
    assert framework.read(await framework.resume(scenario.gate, call, tools, kept)) == "None"
    assert scenario.ran == []  # ADK has taken its answer


async def test_a_refusal_by_the_program_is_final(tmp_path: Path) -> None:
    scenario, framework = Scenario(tmp_path), GoogleADK()
    call = next(each for each in scenario.calls if each.kind == "approved")
    kept = framework.keep(await framework.begin(scenario.gate, call, [scenario.move_records]))
    scenario.answer_as_people()
    result = await framework.resume(scenario.gate, call, [scenario.move_records], kept, confirmed=False)
    assert "rejected" in framework.read(result)
    assert scenario.ran == []


async def test_the_adapter_costs_less_than_a_millisecond_over_the_client() -> None:
    plugin = GatePlugin(ToolCallGate(InstantClient(), "fast"))
    tool: Any = SimpleNamespace(name="count")

    async def run(call_id: str) -> None:
        context: Any = SimpleNamespace(function_call_id=call_id, tool_confirmation=None, agent_name="mover")
        arguments = {"number": 1}
        more = {"tool": tool, "tool_args": arguments, "tool_context": context}
        assert await plugin.before_tool_callback(**more) is None
        await plugin.after_tool_callback(**more, result={"result": 1})

    await check_overhead("google-adk", run)


async def test_the_guide_s_program_guards_an_agent(gate: RemoteGate, tmp_path: Path) -> None:
    tools = RecordedTools(tmp_path)
    call = PlannedCall(1003, "denied", "read_records", {"table": "payroll", "number": 1003})
    agent = make_agent(call, tools.read_records)
    left = await run_snippet("Google ADK", servers=gate.servers, options=gate.make_options(), agent=agent)
    read = [each.response for event in left["said"] for each in event.get_function_responses()]
    assert read[0]["error"].startswith("denied by rules")
    assert tools.list_runs() == []


async def test_a_fault_of_the_adapters_own_runs_nothing(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path)
    gate = replace(scenario.gate, describe=raise_fault)
    with pytest.raises(RuntimeError, match="sluice"):
        await GoogleADK().begin(gate, scenario.calls[0], [scenario.move_records])
    assert scenario.ran == []


async def test_tools_that_the_provider_runs_are_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = GatePlugin(Scenario(tmp_path).gate)
    config = types.GenerateContentConfig(tools=[types.Tool(google_search=types.GoogleSearch())])
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            request: Any = SimpleNamespace(config=config)
            await plugin.before_model_callback(callback_context=request, llm_request=request)
    assert caplog.text.count("google_search") == 1
