"""Pydantic AI: 200 calls of a scripted model through the capability."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, Field, SecretStr, field_serializer
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
from tests.frameworks.framework_checks import (
    InstantClient,
    check_200_calls,
    check_overhead,
    check_restart,
    check_two_hours,
)
from tests.frameworks.scenario import RecordedTools
from tests.frameworks.scripted_gate import TOOL, AdapterFault, Scenario, raise_fault
from tests.frameworks.snippets import run_snippet

if TYPE_CHECKING:
    from pathlib import Path

    from tests.frameworks.gate import RemoteGate


class Payee(BaseModel):
    """An argument whose own JSON does not show what it is."""

    name: str
    account: str = Field("none", exclude=True)

    @field_serializer("name")
    def write_name(self, _: str) -> str:
        return "a friend"


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


def read_output(result: Any) -> str:
    (part,) = [one for each in result.all_messages() for one in each.parts if isinstance(one, ToolReturnPart)]
    return str(part.content)


class PydanticAI:
    """Runs that are kept as the text of their messages."""

    package = "pydantic-ai-slim"

    async def begin(self, gate: ToolCallGate, call: Any, tools: Any) -> Any:
        return await self._make_agent(gate, call, tools).run("go")

    def read(self, result: Any) -> str:
        return read_output(result)

    def keep(self, result: Any) -> Any:
        if not isinstance(result.output, DeferredToolRequests):
            return None
        ((_, metadata),) = result.output.metadata.items()
        assert metadata["escalation_id"]
        return result.all_messages_json()

    async def resume(self, gate: ToolCallGate, call: Any, tools: Any, kept: bytes) -> Any:
        return await self._make_agent(gate, call, tools).run(
            message_history=ModelMessagesTypeAdapter.validate_json(kept),
            deferred_tool_results=DeferredToolResults(approvals={call.call_id: True}),
        )

    @staticmethod
    def _make_agent(gate: ToolCallGate, call: Any, tools: Any) -> Any:
        return make_agent(script(call.tool, call.call_id, call.arguments), gate, *tools)


async def test_200_calls_run_what_is_allowed_once_and_as_it_was_judged(
    gate: RemoteGate, tmp_path: Path
) -> None:
    await check_200_calls(PydanticAI(), gate, tmp_path, parks=True)


async def test_a_restarted_process_resumes_held_calls_and_repeats_none(tmp_path: Path) -> None:
    await check_restart(PydanticAI(), tmp_path, parks=True)


async def test_an_approval_of_two_hours_and_a_restart_of_everything_resumes(
    gate: RemoteGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await check_two_hours(PydanticAI(), gate, tmp_path, monkeypatch, parks=True)


async def test_the_adapter_costs_less_than_a_millisecond_over_the_client() -> None:
    capability = GateCapability(ToolCallGate(InstantClient(), "fast"))
    context: Any = SimpleNamespace(tool_call_approved=False, agent=None)
    tool: Any = SimpleNamespace(name="count")

    async def run(call_id: str) -> None:
        call = ToolCallPart("count", {"number": 1}, call_id)
        args = await capability.before_tool_execute(context, call=call, tool_def=tool, args={"number": 1})
        await capability.after_tool_execute(context, call=call, tool_def=tool, args=args, result=1)

    await check_overhead("pydantic-ai", run)


async def test_the_guide_s_program_guards_an_agent(gate: RemoteGate, tmp_path: Path) -> None:
    tools = RecordedTools(tmp_path)
    left = await run_snippet(
        "Pydantic AI",
        servers=gate.servers,
        options=gate.make_options(),
        model=script("read_records", "call-1003", {"table": "payroll", "number": 1003}),
        tools=[tools.read_records],
    )
    assert read_output(left["said"]).startswith("denied by rules")
    assert tools.list_runs() == []


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


async def test_what_json_leaves_out_of_an_argument_is_judged_and_a_secret_does_not_run(
    tmp_path: Path,
) -> None:
    scenario = Scenario(tmp_path)
    ran: list[Any] = []

    def pay(to: Payee) -> None:
        ran.append((to.name, to.account))

    def log_in(password: SecretStr) -> None:
        ran.append(password.get_secret_value())

    scenario.exchange._decide = lambda record: scenario.exchange.answer(record, "allowed")  # type: ignore[method-assign] # noqa: SLF001
    ask, asked = scenario.exchange.ask, []

    async def note(sent: Any, *more: Any) -> Any:
        asked.append(json.loads(sent.value)["parameters"])
        return await ask(sent, *more)

    scenario.exchange.ask = note  # type: ignore[assignment, method-assign]
    given = {"to": {"name": "a stranger", "account": "DE00"}}
    await make_agent(script("pay", "c-1", given), scenario.gate, pay).run("go")
    assert asked == [given]
    assert ran == [("a stranger", "DE00")]
    refused = await make_agent(script("log_in", "c-2", {"password": "x"}), scenario.gate, log_in).run("go")
    assert "a secret that the gate cannot read" in str(refused.all_messages())
    assert len(ran) == len(asked) == 1


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
