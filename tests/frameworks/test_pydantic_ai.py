"""Pydantic AI: 200 calls of a scripted model through the capability."""

from __future__ import annotations

import asyncio
import datetime
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelRetry  # noqa: E402
from pydantic_ai.exceptions import UserError  # noqa: E402
from pydantic_ai.messages import (  # noqa: E402
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import FunctionModel  # noqa: E402

from sluice.client.frameworks.pydantic_ai import GateCapability  # noqa: E402
from tests.frameworks.scripted_gate import RUNS, TOOL, Scenario, ScriptedCall, ToolFailed  # noqa: E402

HELD = {"approved", "refused", "waiting"}


def make_agent(scenario: Scenario, call: ScriptedCall, **more: Any) -> Any:
    def answer(messages: list[Any], _: Any) -> ModelResponse:
        if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart(TOOL, call.arguments, call.call_id)])

    return Agent(
        FunctionModel(answer),
        name="mover",
        tools=[scenario.move_records],
        output_type=[str, DeferredToolRequests],
        capabilities=[GateCapability(scenario.gate)],
        **more,
    )


async def run_call(scenario: Scenario, call: ScriptedCall) -> Any:
    running = asyncio.ensure_future(make_agent(scenario, call).run("go"))
    if call.kind == "cancelled":
        await asyncio.sleep(0.02)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return None
    if call.kind == "fails":
        with pytest.raises((ToolFailed, UserError)) if not scenario.exchange.people_answer else _nothing():
            await running
        return None
    return await running


class _nothing:  # noqa: N801
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


async def resume(scenario: Scenario, call: ScriptedCall, kept: bytes) -> Any:
    """In a process that knows nothing but the text of the messages."""
    return await make_agent(scenario, call).run(
        message_history=ModelMessagesTypeAdapter.validate_json(kept),
        deferred_tool_results=DeferredToolResults(approvals={call.call_id: True}),
    )


def read_output(result: Any) -> str:
    (part,) = [one for each in result.all_messages() for one in each.parts if isinstance(one, ToolReturnPart)]
    return str(part.content)


def test_no_call_of_two_hundred_runs_unless_allowed_nor_twice(tmp_path: Path) -> None:
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

        def plan(day: datetime.date) -> str:
            ran.append(day)
            raise ModelRetry("later")

        def answer(messages: list[Any], _: Any) -> ModelResponse:
            return ModelResponse(
                [ToolCallPart("plan", {"day": "2026-11-27"}, "c-1") if len(messages) == 1 else TextPart("done")]
            )

        scenario.exchange._decide = lambda record: scenario.exchange.answer(record, "allowed")  # type: ignore[method-assign] # noqa: SLF001
        agent = Agent(FunctionModel(answer), tools=[plan], capabilities=[GateCapability(scenario.gate)])
        await agent.run("go")
        assert ran == [datetime.date(2026, 11, 27)]
        assert [one["error"] for one in scenario.exchange.outcomes.values()] == ["ModelRetry"]

    asyncio.run(run())


def test_a_fault_of_the_adapters_own_runs_nothing_and_native_tools_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        scenario = Scenario(tmp_path)
        gate = replace(scenario.gate, describe=lambda name, parameters: {}["no"])
        agent = make_agent(scenario, scenario.calls[0])
        agent = Agent(
            agent.model, tools=[scenario.move_records], capabilities=[GateCapability(gate)]
        )
        with pytest.raises(KeyError):
            await agent.run("go")
        assert scenario.ran == []

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
