"""Google ADK: 200 calls of a scripted model through the plugin."""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import replace
from importlib.metadata import version
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from sluice.client.frameworks.google_adk import GatePlugin
from sluice.client.frameworks.tool_calls import ToolCallGate
from tests.frameworks.scenario import PlannedCall, RecordedTools, recount, run_calls
from tests.frameworks.scripted_gate import RUNS, TOOL, Scenario, ScriptedCall, ToolFailed, raise_fault

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sluice.client import AsyncGateClient
    from tests.frameworks.gate import RemoteGate

HELD = {"approved", "refused", "waiting"}


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


class Conversation:
    """A runner with one agent, and what it said."""

    def __init__(self, gate: ToolCallGate, call: Any, *tools: Any) -> None:
        name = getattr(call, "tool", TOOL)
        script = {"id": call.call_id, "name": name, "args": call.arguments}
        agent = LlmAgent(name="mover", model=ScriptedLlm(model="scripted", call=script), tools=[*tools])
        self._runner = InMemoryRunner(agent=agent, app_name="tests", plugins=[GatePlugin(gate)])
        self._asked: Any = None

    async def begin(self) -> Any:
        """The tool's answer, or None where it is held."""
        await self._runner.session_service.create_session(app_name="tests", user_id="u", session_id="s")
        return await self._send(types.Part(text="go on"))

    async def confirm(self, confirmed: bool = True) -> Any:
        """The same once the confirmation is answered."""
        answer = {"id": self._asked.id, "name": self._asked.name, "response": {"confirmed": confirmed}}
        return await self._send(types.Part(function_response=types.FunctionResponse(**answer)))

    async def _send(self, part: types.Part) -> Any:
        answer, self._asked = None, None
        message = types.Content(role="user", parts=[part])
        async for event in self._runner.run_async(user_id="u", session_id="s", new_message=message):
            for asked in event.get_function_calls():
                if asked.name == "adk_request_confirmation":
                    self._asked = asked
            for said in event.get_function_responses():
                answer = said.response
        return None if self._asked is not None else answer


async def test_200_calls_run_what_is_allowed_once_and_as_it_was_judged(
    gate: RemoteGate, tmp_path: Path
) -> None:
    tools = RecordedTools(tmp_path)
    parked = set()

    async def run(client: AsyncGateClient, call: PlannedCall) -> Any:
        offered = (tools.read_records, tools.read_slowly, tools.pay)
        conversation = Conversation(ToolCallGate(client, call.session, 60), call, *offered)
        answer = await conversation.begin()
        while answer is None:
            parked.add(call.number)
            answer = await conversation.confirm()
        return answer

    ended = await run_calls(gate, run, tmp_path)
    print("google-adk", version("google-adk"), dict(recount(gate, tools)), file=sys.stderr)
    assert len(parked) == 25
    assert ended[0] == {"result": "read_records has run"}
    assert ended[95]["error"].startswith("denied by rules: rule_failed: no-payroll")


async def test_a_restarted_process_resumes_held_calls_and_repeats_none(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path)

    async def run(call: ScriptedCall) -> tuple[Conversation, Any]:
        conversation = Conversation(scenario.gate, call, scenario.move_records)
        running = asyncio.ensure_future(conversation.begin())
        if call.kind == "cancelled":
            await asyncio.sleep(0.05)
            running.cancel()
        try:
            return conversation, await running
        except (ToolFailed, asyncio.CancelledError) as error:
            return conversation, error

    held = []
    for call in scenario.calls:
        conversation, answer = await run(call)
        if call.kind in HELD:
            assert answer is None
            held.append(conversation)
        elif call.kind in {"denied", "away", "killed"}:
            assert "The tool did not run" in answer["error"]
    scenario.check(RUNS - {"approved"})
    assert "a person must agree" in (await held[0].confirm())["error"]  # the program alone confirms
    assert "rejected" in (await held[3].confirm(confirmed=False))["error"]
    await scenario.restart()
    scenario.answer_as_people()
    for call in scenario.calls:
        if call.kind != "cancelled":
            conversation, answer = await run(call)
            if answer is None:
                answer = await conversation.confirm()
                assert ("must agree" in str(answer)) == (call.kind == "waiting")
    scenario.check(RUNS | {"killed"})
    await scenario.client.close()


async def test_a_fault_of_the_adapters_own_runs_nothing(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path)
    gate = replace(scenario.gate, describe=raise_fault)
    with pytest.raises(RuntimeError, match="sluice"):
        await Conversation(gate, scenario.calls[0], scenario.move_records).begin()
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
