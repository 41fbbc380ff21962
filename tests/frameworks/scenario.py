"""200 calls of a scripted agent while the gate denies, holds, is slow, is away and dies; and a recount.

A framework's test says how its agent makes one call, and hands it the tools of `RecordedTools`.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sluice.client import AsyncGateClient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

    from tests.frameworks.gate import RemoteGate

    Agent = Callable[[AsyncGateClient, "PlannedCall"], Awaitable[Any]]

Client = TypeVar("Client")
ACTIONS, VERDICTS, OUTCOMES = "gate.actions.proposed", "gate.verdicts", "gate.outcomes"
PATIENT_S, HASTY_S = 60.0, 2.5
"""How long a decision may take where the gate is there, and where it is slow or away."""
AT_ONCE = 10
LOOK_S = 0.3
COUNTS = {
    "allowed": 90,
    "denied": 40,
    "approved": 15,
    "refused": 10,
    "slow": 10,
    "too_slow": 10,
    "away": 10,
    "killed": 10,
    "cancelled": 5,
}
"""How many calls there are of each kind: 200."""
RUN, NOT_RUN = ("allowed", "approved", "slow"), ("denied", "refused", "too_slow", "away", "cancelled")
"""Kinds whose tools must all run, and those of which none may. A call during which the worker is killed may
end either way."""


class CommandedGate(Protocol):
    """A gate that is told what to do: a name and arguments of tests/frameworks/gate_process.py."""

    def do(self, name: str, **arguments: Any) -> Any:
        """Have it done, and return what it answers."""


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call: its kind, its tool, and the arguments with which the scripted model calls it."""

    number: int
    kind: str
    tool: str
    arguments: dict[str, Any]

    @property
    def call_id(self) -> str:
        """The id that the model gives the call."""
        return f"call-{self.number}"

    @property
    def session(self) -> str:
        """The session in which it is made."""
        return f"session-{self.number}"


class RecordedTools:
    """What the agent's tools do: each writes what it ran with, a line for each run."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ran.jsonl"

    def read_records(self, table: str, number: int) -> str:
        """Read the records of a table."""
        return self._record("read_records", table=table, number=number)

    def read_slowly(self, table: str, number: int, slow: bool) -> str:
        """Read the records of a table slowly."""
        return self._record("read_slowly", table=table, number=number, slow=slow)

    def pay(self, customer: str, amount: int, number: int) -> str:
        """Pay a customer an amount."""
        return self._record("pay", customer=customer, amount=amount, number=number)

    def count(self, number: int) -> int:
        """The number itself, at once: for measurements."""
        return number

    def list_runs(self) -> list[dict[str, Any]]:
        """Every run: `tool` and `parameters`."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        return [json.loads(line) for line in lines]

    def _record(self, tool: str, **parameters: Any) -> str:
        with self._path.open("a") as file:
            file.write(json.dumps({"tool": tool, "parameters": parameters}) + "\n")
        return f"{tool} has run"


def plan_calls() -> dict[str, list[PlannedCall]]:
    """The 200 calls, by kind."""
    kinds = [kind for kind, count in COUNTS.items() for _ in range(count)]
    planned: dict[str, list[PlannedCall]] = {kind: [] for kind in COUNTS}
    for number, kind in enumerate(kinds):
        if kind in ("allowed", "denied", "away"):
            table = "payroll" if kind == "denied" else "orders"
            tool, arguments = "read_records", {"table": table, "number": number}
        elif kind in ("approved", "refused"):
            tool, arguments = "pay", {"customer": "ada", "amount": 10 + number, "number": number}
        else:
            tool, arguments = "read_slowly", {"table": "orders", "number": number, "slow": True}
        planned[kind].append(PlannedCall(number, kind, tool, arguments))
    return planned


async def run_calls(gate: RemoteGate, agent: Agent, folder: Path) -> dict[int, Any]:
    """Make the 200 calls behind clients of this gate, as `make_calls`."""
    patient = AsyncGateClient(gate.servers, gate.agent, gate.make_options(folder / "patient.db", PATIENT_S))
    hasty = AsyncGateClient(gate.servers, gate.agent, gate.make_options(folder / "hasty.db", HASTY_S))
    async with patient, hasty:
        return await make_calls(gate, agent, patient, hasty)


async def make_calls(
    gate: CommandedGate,
    agent: Callable[[Client, PlannedCall], Awaitable[Any]],
    patient: Client,
    hasty: Client,
) -> dict[int, Any]:
    """Make the 200 calls; what each returned, or the error with which it ended, by number.

    `agent` runs the framework's agent, behind the client that it gets, with a model that makes the call, to
    the end: where an escalation parks, it resumes until there is an answer. `patient` and `hasty` wait
    PATIENT_S and HASTY_S for a decision."""
    planned = plan_calls()
    ended: dict[int, Any] = {}
    # Not the loop's threads: calls that wait for a command of the gate may hold all of them.
    commands = ThreadPoolExecutor(1)

    async def do(name: str, **arguments: Any) -> Any:
        return await asyncio.wrap_future(commands.submit(gate.do, name, **arguments))

    def begin(client: Client, kind: str) -> list[asyncio.Task[Any]]:
        free = asyncio.Semaphore(AT_ONCE)

        async def make(call: PlannedCall) -> Any:
            async with free:
                return await agent(client, call)

        return [asyncio.create_task(make(call)) for call in planned[kind]]

    async def end(kind: str, tasks: list[asyncio.Task[Any]]) -> None:
        found = await asyncio.gather(*tasks, return_exceptions=True)
        ended.update(zip((call.number for call in planned[kind]), found, strict=True))

    for kind in ("allowed", "denied"):
        await end(kind, begin(patient, kind))
    for kind in ("approved", "refused"):
        tasks = begin(patient, kind)
        while not all(task.done() for task in tasks):
            await do("answer_escalations", approve=kind == "approved")
            await asyncio.wait(tasks, timeout=LOOK_S)
        await end(kind, tasks)
    await do("withhold")
    tasks = begin(patient, "slow")
    await asyncio.sleep(1)
    await do("release")
    await end("slow", tasks)
    await do("withhold")
    await end("too_slow", begin(hasty, "too_slow"))
    tasks = begin(patient, "cancelled")
    await asyncio.sleep(1)
    for task in tasks:
        task.cancel()
    await end("cancelled", tasks)
    tasks = begin(patient, "killed")
    await asyncio.sleep(1)
    await do("kill")
    await do("release")
    await do("start")
    await end("killed", tasks)
    await do("stop")
    await end("away", begin(hasty, "away"))
    await do("start")
    commands.shutdown()
    return ended


def recount(gate: CommandedGate, tools: RecordedTools) -> Counter[str]:
    """How many calls ran of each kind, once nothing is wrong: no tool ran that was not allowed, none twice,
    each with exactly what was judged, and everything ran that should."""
    kinds = {call.number: call.kind for calls in plan_calls().values() for call in calls}
    runs = tools.list_runs()
    numbers = [one["parameters"]["number"] for one in runs]
    assert len(set(numbers)) == len(numbers), "a tool ran twice"
    allowed = list_allowed(gate)
    strange = [one for one in runs if (one["tool"], to_text(one["parameters"])) not in allowed]
    assert strange == [], "a tool ran with what no verdict allows"
    counts = Counter(kinds[number] for number in numbers)
    assert {kind: counts[kind] for kind in NOT_RUN} == dict.fromkeys(NOT_RUN, 0)
    assert {kind: counts[kind] for kind in RUN} == {kind: COUNTS[kind] for kind in RUN}
    return counts


def list_allowed(gate: CommandedGate) -> set[tuple[str, str]]:
    """Tool and parameters of every action that a verdict, a first or a resolved one, allows."""
    verdicts: Iterable[dict[str, Any]] = gate.do("read", topic=VERDICTS)
    allowed = {(one["session_id"], one["action_id"]) for one in verdicts if one["verdict"] == "allowed"}
    actions: Iterable[dict[str, Any]] = gate.do("read", topic=ACTIONS)
    return {
        (one["toolName"], to_text(one["parameters"]))
        for one in actions
        if (one["session_id"], one["action_id"]) in allowed
    }


def to_text(parameters: dict[str, Any]) -> str:
    """The same for the same parameters."""
    return json.dumps(parameters, sort_keys=True)
