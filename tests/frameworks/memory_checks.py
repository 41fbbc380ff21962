"""What holds for the memory or the retriever of each framework behind the gate, whatever its shape: 200
writes and 200 reads while the gate rejects, holds, is slow, is away and dies, and a recount.

A framework's test says how its agent writes and reads one memory, and has it checked here.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sluice.client import ActionNotDecided, AsyncGateClient, GateClient
from sluice.client.frameworks.gated_items import MemoryRefused
from tests.frameworks.gate import END_S, pass_two_hours
from tests.frameworks.scenario import AT_ONCE, COUNTS, HASTY_S, LOOK_S, NOT_RUN, PATIENT_S, RUN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    import pytest

    from tests.frameworks.gate import RemoteGate

ADMITTED, SERVED = "gate.memory.admitted", "gate.memory.retrievals.served"
READ_COUNTS = {
    "allowed": 90,
    "denied": 40,
    "unproved": 25,
    "slow": 10,
    "too_slow": 10,
    "cancelled": 5,
    "killed": 10,
    "away": 10,
}
"""How many reads there are of each kind: 200. `unproved`: of what nobody has described to the gate."""
SETTLE_S = 1.0
THREADS = 40
"""More than wait for the gate at once, so that there is one for who gives it commands."""


class PlannedMemory(NamedTuple):
    """One memory that an agent writes or reads, and when it does."""

    number: int
    kind: str
    text: str

    @property
    def session(self) -> str:
        """The session in which it is written and read."""
        return f"memory-{self.number}"


class RetrievalFramework(Protocol):
    """How an agent of a framework reads behind the gate."""

    package: str
    """The distribution whose version is printed."""
    in_threads: bool
    """Whether it calls a GateClient, in threads, and not an AsyncGateClient."""

    async def prepare(self, client: Any, memory: PlannedMemory, *, proved: bool) -> None:
        """Have a read of this memory find its text, whatever the gate would say of it; `proved`: and what the
        gate wants to know of it."""

    async def read(self, client: Any, memory: PlannedMemory) -> list[str]:
        """The texts that a read of it returns."""


class MemoryFramework(RetrievalFramework, Protocol):
    """How an agent of a framework also writes behind the gate."""

    async def write(self, client: Any, memory: PlannedMemory) -> None:
        """Raises what the adapter raises."""

    async def write_admitted(self, client: Any, memory: PlannedMemory, record: dict[str, Any]) -> None:
        """Write what a reviewer has admitted."""

    def list_stored(self) -> list[str]:
        """All texts that are really stored."""

    def read_content(self, content: str) -> str:
        """The text of a memory from its content as the gate judged it."""


async def check_200_writes(framework: MemoryFramework, gate: RemoteGate) -> None:
    """Nothing is stored that the gate did not admit, and nothing twice, also where what failed is written
    again."""
    planned = _plan(gate, COUNTS)
    async with _open_clients(framework, gate) as (patient, hasty):
        ended = await _write_all(framework, gate, planned, patient, hasty)
        stored = _recount(framework, gate, planned)
        print(framework.package, version(framework.package), dict(stored), file=sys.stderr)
        assert {kind: stored[kind] for kind in RUN} == {kind: COUNTS[kind] for kind in RUN}
        assert {kind: stored[kind] for kind in NOT_RUN} == dict.fromkeys(NOT_RUN, 0)
        refused = {number: error for number, error in ended.items() if isinstance(error, MemoryRefused)}
        assert {planned[number].kind for number in refused} == {"denied", "approved", "refused"}
        texts = framework.list_stored()
        failed = [each for each in planned if ended[each.number] is not None and each.number not in refused]
        await _gather(framework.write(patient, each) for each in failed)
        assert sorted(framework.list_stored()) == sorted(texts + [each.text for each in failed])
        read = await _gather(framework.read(patient, each) for each in failed)
        assert read == [[each.text] for each in failed]


async def check_200_reads(framework: RetrievalFramework, gate: RemoteGate) -> None:
    """Nothing is returned that the gate did not serve, and everything is that it serves."""
    planned = _plan(gate, READ_COUNTS, first=1000)
    async with _open_clients(framework, gate) as (patient, hasty):
        await _gather(framework.prepare(patient, each, proved=each.kind != "unproved") for each in planned)
        ended = await _read_all(framework, gate, planned, patient, hasty)
    served = Counter(
        (record["session_id"], item["item_id"])
        for record in gate.do("read", topic=SERVED)
        for item in record["items"]
    )
    for each in planned:
        texts = ended[each.number]
        if each.kind in ("allowed", "slow", "killed"):
            assert texts == [each.text], each
            assert any(session == each.session for session, _ in served), each
        elif each.kind in ("denied", "unproved"):
            assert texts == [], each
        elif each.kind == "cancelled":
            assert isinstance(texts, BaseException), each
        else:
            assert isinstance(texts, ActionNotDecided), each


async def check_two_hours(
    framework: MemoryFramework, gate: RemoteGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory is held, and admitted two hours later, when agent, worker and broker are new: it is on the
    topic, is stored from there, once, and is read."""
    memory = PlannedMemory(3000, "approved", f"note 3000 {gate.held}")
    async with _open(framework, gate, PATIENT_S) as client:
        (refused,) = await _gather([framework.write(client, memory)])
        assert isinstance(refused, MemoryRefused)
        assert refused.answer.action == "quarantine"
    before = framework.list_stored()
    gate.do("restart")
    pass_two_hours(monkeypatch)
    (record,) = await _await_admitted(gate, [refused.answer.memory_id])
    async with _open(framework, gate, PATIENT_S) as client:
        assert await framework.read(client, memory) == []
        for _ in range(2):
            await framework.write_admitted(client, memory, record)
        assert await framework.read(client, memory) == [memory.text]
    assert framework.list_stored() == [*before, memory.text]


class InstantMemoryClient(AsyncGateClient):
    """Admits and serves everything at once, and asks nobody."""

    def __init__(self) -> None:
        pass

    async def remember(self, content: str, source: Any, **more: Any) -> Any:
        return admit_at_once()

    async def retrieve(self, items: Any, **more: Any) -> Any:
        return SimpleNamespace(items=items)


class InstantMemoryThread(GateClient):
    """The same without an event loop."""

    def __init__(self) -> None:
        pass

    def remember(self, content: str, source: Any, **more: Any) -> Any:
        return admit_at_once()

    def retrieve(self, items: Any, **more: Any) -> Any:
        return SimpleNamespace(items=items)


def admit_at_once() -> Any:
    """The answer that a memory may be kept."""
    return SimpleNamespace(action="allow", memory_id="memory", reason=None)


def _plan(gate: RemoteGate, counts: dict[str, int], first: int = 0) -> list[PlannedMemory]:
    kinds = [kind for kind, count in counts.items() for _ in range(count)]
    words = {"denied": gate.rejected, "approved": gate.held, "refused": gate.held}
    waits = dict.fromkeys(("slow", "too_slow", "cancelled", "killed"), "slow")
    return [
        PlannedMemory(number, kind, " ".join(["note", str(number), (words | waits).get(kind, "kept"), "."]))
        for number, kind in enumerate(kinds, first)
    ]


async def _write_all(
    framework: MemoryFramework, gate: RemoteGate, planned: list[PlannedMemory], patient: Any, hasty: Any
) -> dict[int, Any]:
    """With what error each write ended, or None; by number."""
    rounds = _Rounds(planned, framework.write)
    await rounds.end(rounds.begin(patient, "allowed", "denied", "approved"))
    held = [rounds.ended[each.number].answer.memory_id for each in planned if each.kind == "approved"]
    records = await _await_admitted(gate, held)
    stores = [each for each in planned if each.kind == "approved"]
    for memory, record in zip(stores, records, strict=True):
        await framework.write_admitted(patient, memory, record)
        await framework.write_admitted(patient, memory, record)
    await rounds.end(rounds.begin(patient, "refused"))
    assert await _do(gate, "review_memories", approve=False) == COUNTS["refused"]
    await _do(gate, "withhold")
    tasks = rounds.begin(patient, "slow")
    await asyncio.sleep(SETTLE_S)
    assert not any(task.done() for task in tasks.values())
    await _do(gate, "release")
    await rounds.end(tasks)
    await _do(gate, "withhold")
    await rounds.end(rounds.begin(hasty, "too_slow"))
    async with _open(framework, gate, PATIENT_S) as client:
        tasks = rounds.begin(client, "cancelled")
        await asyncio.sleep(SETTLE_S)
        for task in tasks.values():
            task.cancel()
    await rounds.end(tasks)
    tasks = rounds.begin(patient, "killed")
    await asyncio.sleep(SETTLE_S)
    await _do(gate, "kill")
    await _do(gate, "release")
    await _do(gate, "start")
    await rounds.end(tasks)
    await _do(gate, "stop")
    await rounds.end(rounds.begin(hasty, "away"))
    await _do(gate, "start")
    return rounds.ended


async def _read_all(
    framework: RetrievalFramework, gate: RemoteGate, planned: list[PlannedMemory], patient: Any, hasty: Any
) -> dict[int, Any]:
    """What each read returned, or with what error it ended; by number."""
    rounds = _Rounds(planned, framework.read)
    await rounds.end(rounds.begin(patient, "allowed", "denied", "unproved"))
    await _do(gate, "pause")
    tasks = rounds.begin(patient, "slow")
    await asyncio.sleep(SETTLE_S)
    assert not any(task.done() for task in tasks.values())
    await _do(gate, "resume")
    await rounds.end(tasks)
    await _do(gate, "pause")
    await rounds.end(rounds.begin(hasty, "too_slow"))
    async with _open(framework, gate, PATIENT_S) as client:
        tasks = rounds.begin(client, "cancelled")
        await asyncio.sleep(SETTLE_S)
        for task in tasks.values():
            task.cancel()
    await rounds.end(tasks)
    tasks = rounds.begin(patient, "killed")
    await asyncio.sleep(SETTLE_S)
    await _do(gate, "kill")
    await _do(gate, "start")
    await rounds.end(tasks)
    await _do(gate, "stop")
    await rounds.end(rounds.begin(hasty, "away"))
    await _do(gate, "start")
    return rounds.ended


class _Rounds:
    """Writes or reads, some at once."""

    def __init__(self, planned: list[PlannedMemory], make: Callable[[Any, PlannedMemory], Any]) -> None:
        self.ended: dict[int, Any] = {}
        self._planned = planned
        self._make = make

    def begin(self, client: Any, *kinds: str) -> dict[int, asyncio.Task[Any]]:
        """Of these kinds, by their numbers."""
        free = asyncio.Semaphore(AT_ONCE)

        async def make(memory: PlannedMemory) -> Any:
            async with free:
                return await self._make(client, memory)

        chosen = [each for each in self._planned if each.kind in kinds]
        return {each.number: asyncio.create_task(make(each)) for each in chosen}

    async def end(self, tasks: dict[int, asyncio.Task[Any]]) -> None:
        """Wait for all of them."""
        results = await asyncio.gather(*tasks.values(), return_exceptions=True)
        self.ended.update(zip(tasks, results, strict=True))


def _recount(framework: MemoryFramework, gate: RemoteGate, planned: list[PlannedMemory]) -> Counter[str]:
    """How many memories of each kind are stored, once nothing is wrong."""
    stored = framework.list_stored()
    assert len(set(stored)) == len(stored), "stored twice"
    records = gate.do("read", topic=ADMITTED)
    assert len({each["memory_id"] for each in records}) == len(records), "admitted twice"
    admitted = {framework.read_content(each["content"]) for each in records}
    assert set(stored) <= admitted, "stored, and the gate has not admitted it"
    kinds = {each.text: each.kind for each in planned}
    assert not {text for text in admitted if kinds.get(text) in ("denied", "refused")}
    return Counter(kinds[text] for text in stored)


async def _await_admitted(gate: RemoteGate, memory_ids: list[str]) -> list[dict[str, Any]]:
    """Have a reviewer approve what is held; the records of these memories, in this order."""
    assert await _do(gate, "review_memories", approve=True) == len(memory_ids)
    until = time.monotonic() + END_S
    while True:
        records = {each["memory_id"]: each for each in await _do(gate, "read", topic=ADMITTED)}
        if records.keys() >= set(memory_ids):
            assert {records[name]["how"] for name in memory_ids} == {"approved"}
            return [records[name] for name in memory_ids]
        assert time.monotonic() < until, "not admitted"
        await asyncio.sleep(LOOK_S)


async def _gather(made: Iterable[Any]) -> list[Any]:
    """What each returned, or the error with which it ended; some at once."""
    free = asyncio.Semaphore(AT_ONCE)

    async def wait(one: Any) -> Any:
        async with free:
            return await one

    return await asyncio.gather(*map(wait, made), return_exceptions=True)


async def _do(gate: RemoteGate, name: str, **arguments: Any) -> Any:
    return await asyncio.to_thread(gate.do, name, **arguments)


@asynccontextmanager
async def _open_clients(framework: RetrievalFramework, gate: RemoteGate) -> AsyncIterator[tuple[Any, Any]]:
    """One that waits PATIENT_S for a decision, and one that waits HASTY_S."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    async with _open(framework, gate, PATIENT_S) as patient, _open(framework, gate, HASTY_S) as hasty:
        yield patient, hasty


@asynccontextmanager
async def _open(framework: RetrievalFramework, gate: RemoteGate, deadline_s: float) -> AsyncIterator[Any]:
    options = gate.make_options(deadline_s=deadline_s)
    if not framework.in_threads:
        async with AsyncGateClient(gate.servers, gate.agent, options) as client:
            yield client
        return
    waiting = await asyncio.to_thread(GateClient, gate.servers, gate.agent, options)
    try:
        await asyncio.to_thread(waiting.start)
        yield waiting
    finally:
        with suppress(ConnectionError):
            await asyncio.to_thread(waiting.close)
