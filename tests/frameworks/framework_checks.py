"""What holds for the adapter of each framework, whatever its shape: the tests of a framework say how one of
its agents makes a call, and have it checked here.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from contextlib import asynccontextmanager, nullcontext
from importlib.metadata import version
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, cast

from sluice.client import AsyncGateClient
from sluice.client.frameworks.tool_calls import ToolCallGate
from tests.frameworks.gate import pass_two_hours
from tests.frameworks.scenario import (
    HASTY_S,
    LOOK_S,
    PATIENT_S,
    PlannedCall,
    RecordedTools,
    make_calls,
    recount,
)
from tests.frameworks.scripted_gate import RUNS, Scenario, ScriptedCall, ToolFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    import pytest

    from sluice.client import ClientOptions
    from tests.frameworks.gate import RemoteGate

    Call = PlannedCall | ScriptedCall
    Tools = Sequence[Callable[..., Any]]

HELD = frozenset(("approved", "refused", "waiting"))
MUST_AGREE = "a person must agree first"
NOT_RUN = "The tool did not run"
PAYMENT = {"customer": "bob", "amount": 3, "number": 1001}
MOST_OVERHEAD_MS = 1.0
MEASURED = 300


class Framework(Protocol):
    """How an agent of a framework, with a scripted model, makes one call behind the gate."""

    package: str
    """The distribution whose version is printed."""

    async def begin(self, gate: ToolCallGate, call: Call, tools: Tools) -> Any:
        """A run in which the model makes the call."""

    def read(self, result: Any) -> str:
        """What the model read as the tool's answer."""


class ThreadedFramework(Framework, Protocol):
    """A framework without an event loop, whose calls need a client on a thread of its own."""

    def connect(
        self, gate: RemoteGate, options: ClientOptions
    ) -> AbstractAsyncContextManager[AsyncGateClient]:
        """A GateClient's asynchronous client; with it in its ToolCallGate the framework makes calls."""


class ParkingFramework(Framework, Protocol):
    """A framework whose runs end where a call is held, and are resumed."""

    def keep(self, result: Any) -> Any:
        """What a program stores of a run that is held, for another process; None of one that is not."""

    async def resume(self, gate: ToolCallGate, call: Call, tools: Tools, kept: Any) -> Any:
        """Go on from there, after the program itself has approved the call."""


async def check_200_calls(framework: Framework, gate: RemoteGate, folder: Path, *, parks: bool) -> None:
    """The 200 calls of tests/frameworks/scenario.py; `parks`: `framework` is a ParkingFramework."""
    tools, parked = RecordedTools(folder), set()
    offered: list[Callable[..., Any]] = [tools.read_records, tools.read_slowly, tools.pay]

    async def run(client: AsyncGateClient, call: PlannedCall) -> str:
        calls = ToolCallGate(client, call.session, approval_timeout_s=60)
        result = await framework.begin(calls, call, offered)
        while (kept := _keep(framework, result)) is not None:
            parked.add(call.number)
            result = await _resume(framework, calls, call, offered, kept)
        return framework.read(result)

    patient = _connect(framework, gate, gate.make_options(folder / "patient.db", PATIENT_S))
    hasty = _connect(framework, gate, gate.make_options(folder / "hasty.db", HASTY_S))
    async with patient as with_patience, hasty as in_haste:
        ended = await make_calls(gate, run, with_patience, in_haste)
    print(framework.package, version(framework.package), dict(recount(gate, tools)), file=sys.stderr)
    assert len(parked) == (25 if parks else 0)
    assert "read_records has run" in ended[0]
    assert "denied by rules: rule_failed: no-payroll" in ended[95]


async def check_restart(
    framework: Framework, folder: Path, *, parks: bool, resumes_again: bool = True
) -> None:
    """200 calls of a scripted gate, a new process, and the same calls again: no tool runs twice, and none
    because a program has approved what the approver has not. `resumes_again`: what was resumed before the
    approver has answered can be resumed once more."""
    scenario = Scenario(folder)
    held = await _begin_all(framework, scenario)
    assert len(held) == (sum(call.kind in HELD for call in scenario.calls) if parks else 0)
    scenario.check(RUNS - HELD)
    await scenario.restart()
    if resumes_again:
        assert await _resume_all(framework, scenario, held) == (HELD if parks else set())
        scenario.check(RUNS - HELD)
    scenario.answer_as_people()
    if parks:
        assert await _resume_all(framework, scenario, held) == {"waiting"}
        scenario.check()
    for call in scenario.calls:
        if call.kind != "cancelled":
            await _begin(framework, scenario, call)
    scenario.check(RUNS | {"killed"})
    await scenario.client.close()


async def _begin_all(framework: Framework, scenario: Scenario) -> dict[str, Any]:
    """What is kept of the calls that are held, by their ids."""
    held = {}
    for call in scenario.calls:
        result = await _begin(framework, scenario, call)
        kept = None if result is None else _keep(framework, result)
        if kept is not None:
            assert call.kind in HELD, call
            held[call.call_id] = kept
        elif call.kind not in (RUNS - HELD) | {"cancelled"}:
            assert NOT_RUN in framework.read(result), call
    return held


async def _begin(framework: Framework, scenario: Scenario, call: ScriptedCall) -> Any:
    """The result; None of a run that has raised what the tool raised, or was cancelled."""
    running = asyncio.ensure_future(framework.begin(scenario.gate, call, [scenario.move_records]))
    if call.kind == "cancelled":
        await asyncio.wait_for(scenario.exchange.thinks.wait(), PATIENT_S)
        running.cancel()
    try:
        return await running
    except (ToolFailed, asyncio.CancelledError):
        return None


async def _resume_all(framework: Framework, scenario: Scenario, held: dict[str, Any]) -> set[str]:
    """The kinds of the calls that wait still."""
    waiting, tools = set(), [scenario.move_records]
    for call in [each for each in scenario.calls if each.call_id in held]:
        result = await _resume(framework, scenario.gate, call, tools, held[call.call_id])
        if _keep(framework, result) is not None or MUST_AGREE in framework.read(result):
            waiting.add(call.kind)
    return waiting


async def check_two_hours(
    framework: Framework, gate: RemoteGate, folder: Path, monkeypatch: pytest.MonkeyPatch, *, parks: bool
) -> None:
    """A payment is held, and approved two hours later, when agent, worker and broker are new. What
    parks resumes; elsewhere the model reads that the call waits, and the same call, made again, runs."""
    tools, call = RecordedTools(folder), PlannedCall(1001, "approved", "pay", dict(PAYMENT))

    @asynccontextmanager
    async def connect(approval_timeout_s: float) -> AsyncIterator[ToolCallGate]:
        options = gate.make_options(folder / "journal")
        async with _connect(framework, gate, options) as client:
            yield ToolCallGate(client, call.session, approval_timeout_s)

    async with connect(1) as calls:
        result = await framework.begin(calls, call, [tools.pay])
        kept = _keep(framework, result)
        assert parks == (kept is not None)
        assert parks or MUST_AGREE in framework.read(result), framework.read(result)
    gate.do("restart")
    assert gate.do("answer_escalations", approve=True) == 1
    pass_two_hours(monkeypatch)
    async with connect(PATIENT_S) as calls:
        if parks:
            result = await _resume(framework, calls, call, [tools.pay], kept)
        else:
            result = await framework.begin(calls, call, [tools.pay])
    assert "pay has run" in framework.read(result), framework.read(result)
    assert tools.list_runs() == [{"tool": "pay", "parameters": PAYMENT}]


async def answer_soon(gate: RemoteGate) -> None:
    """Approve what is going to be held."""

    def answer() -> None:
        while not gate.do("answer_escalations", approve=True):
            time.sleep(LOOK_S)

    await asyncio.to_thread(answer)


class InstantClient(AsyncGateClient):
    """Allows everything at once, and asks nobody."""

    agent_id = "example-operator"

    def __init__(self) -> None:
        pass

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def permit(self, tool_name: str, parameters: Any, **more: Any) -> Any:
        return SimpleNamespace(parameters=parameters, session_id=more["session_id"], result=None)

    async def await_verdict(self, tool_name: str, parameters: Any, **more: Any) -> Any:
        return SimpleNamespace(allowed=True, escalation_id=None)

    async def finish(self, permit: Any, *, error: str | None = None) -> None:
        pass

    def stop_when_frozen(self, permit: Any) -> Any:
        return nullcontext()

    @asynccontextmanager
    async def action(self, tool_name: str, parameters: Any, **more: Any) -> AsyncIterator[Any]:
        yield SimpleNamespace(parameters=parameters)


async def check_overhead(
    name: str, run: Callable[[str], Awaitable[Any]], bare: Callable[[str], Awaitable[Any]] | None = None
) -> None:
    """What an adapter does beside the client and the tool takes less than a millisecond of processor time
    (p50). `run` makes a call with this id by the adapter and an InstantClient, `bare` what the framework does
    in it anyway."""
    costs = [await _measure_ms(run), 0.0 if bare is None else await _measure_ms(bare)]
    print(f"{name}: {costs[0] - costs[1]:.3f} ms a call over the client", file=sys.stderr)
    assert costs[0] - costs[1] < MOST_OVERHEAD_MS


async def _measure_ms(run: Callable[[str], Awaitable[Any]]) -> float:
    took = []
    for number in range(MEASURED):
        began = time.process_time()
        await run(f"call-{number}")
        took.append(time.process_time() - began)
    return 1000 * statistics.median(took)


def _connect(
    framework: Framework, gate: RemoteGate, options: ClientOptions
) -> AbstractAsyncContextManager[AsyncGateClient]:
    if hasattr(framework, "connect"):
        return cast("ThreadedFramework", framework).connect(gate, options)
    return AsyncGateClient(gate.servers, gate.agent, options)


def _keep(framework: Framework, result: Any) -> Any:
    return framework.keep(result) if hasattr(framework, "keep") else None


async def _resume(framework: Any, gate: ToolCallGate, call: Call, tools: Tools, kept: Any) -> Any:
    return await framework.resume(gate, call, tools, kept)
