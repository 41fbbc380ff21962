"""Mem0's memory behind the gate."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from qdrant_client import QdrantClient

from sluice.client import ActionNotDecided, GateClient, in_session
from sluice.client.frameworks.gated_items import BESIDE, MemoryRefused
from sluice.client.frameworks.mem0_memory import GatedMemory
from tests.frameworks.framework_checks import check_overhead
from tests.frameworks.memory_checks import (
    ADMITTED,
    InstantMemoryThread,
    PlannedMemory,
    check_200_reads,
    check_200_writes,
    check_two_hours,
)
from tests.frameworks.snippets import run_snippet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.frameworks.gate import RemoteGate

SOURCE = {"id": "talks", "type": "user"}
ADA = {"user_id": "ada", "run_id": "talk-1"}
KEYS = {"config": {"api_key": "unused"}, "provider": "openai"}


class ScriptedFacts:
    """In place of the model that makes facts out of messages."""

    def __init__(self, *facts: str) -> None:
        self._facts = facts

    def generate_response(self, messages: Any, **more: Any) -> str:
        """The same facts, whatever was said."""
        return json.dumps({"memory": [{"text": fact} for fact in self._facts]})


class LockedVectors:
    """A vector store for one thread at a time, since Mem0's on files has no lock."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._store, name)
        if not callable(value):
            return value

        def call(*args: Any, **more: Any) -> Any:
            with self._lock:
                return value(*args, **more)

        return call


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Any]:
    """Mem0 on files, with embeddings that are all the same and no model."""
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(tmp_path / "mem0")}
    from mem0 import Memory  # noqa: PLC0415 - it reads them when it is imported
    from mem0.embeddings.mock import MockEmbeddings  # noqa: PLC0415 - likewise

    client = QdrantClient(path=str(tmp_path / "vectors"), force_disable_check_same_thread=True)
    store = {"client": client, "collection_name": "c", "embedding_model_dims": 10}
    vectors = {"provider": "qdrant", "config": store}
    history = str(tmp_path / "history.db")
    made = Memory.from_config(
        {"vector_store": vectors, "llm": KEYS, "embedder": KEYS, "history_db_path": history}
    )
    made.embedding_model = MockEmbeddings()
    made.vector_store = LockedVectors(made.vector_store)
    yield made
    made.close()


def list_stored(memory: Any) -> list[str]:
    """The texts that are really stored."""
    return sorted(each.payload["data"] for each in memory.vector_store.list(top_k=10_000)[0])


def search(memory: Any, **filters: str) -> list[dict[str, Any]]:
    """What a search returns."""
    results: list[dict[str, Any]] = memory.search("note", filters=filters or ADA, threshold=0.0, top_k=100)[
        "results"
    ]
    return results


def list_texts(memory: Any) -> list[str]:
    """The texts that a search returns."""
    return sorted(each["memory"] for each in search(memory))


class Mem0:
    """Memories, each of a user of its own."""

    package = "mem0ai"
    in_threads = True

    def __init__(self, gate: RemoteGate, memory: Any) -> None:
        self._gate = gate
        self._memory = memory
        self._vectors = memory.vector_store

    def _open(self, client: Any) -> GatedMemory:
        inner = copy.copy(self._memory)
        inner.vector_store = self._vectors
        return GatedMemory(inner, client, source=SOURCE, describe=lambda payload: self._gate.proved)

    async def prepare(self, client: Any, memory: PlannedMemory, *, proved: bool) -> None:
        beside = {**self._gate.proved, "timestamp": "2026-01-01T00:00:00Z"}
        metadata = {BESIDE: beside} if proved else {}
        more = {"infer": False, "metadata": metadata, "user_id": memory.session}
        await asyncio.to_thread(self._memory.add, memory.text, **more)

    async def read(self, client: Any, memory: PlannedMemory) -> list[str]:
        with in_session(memory.session):
            results = await asyncio.to_thread(search, self._open(client), user_id=memory.session)
        return [each["memory"] for each in results]

    async def write(self, client: Any, memory: PlannedMemory) -> None:
        gated, metadata = self._open(client), {"place": "the kitchen", "number": memory.number}
        more = {"infer": False, "metadata": metadata, "user_id": memory.session}
        with in_session(memory.session):
            await asyncio.to_thread(gated.add, memory.text, **more)

    async def write_admitted(self, client: Any, memory: PlannedMemory, record: dict[str, Any]) -> None:
        await asyncio.to_thread(self._open(client).add_admitted, record, user_id=memory.session)

    def list_stored(self) -> list[str]:
        return list_stored(self._memory)

    def read_content(self, content: str) -> str:
        return str(json.loads(content)["memory"])


async def test_200_memories_are_stored_as_the_gate_says_and_once(gate: RemoteGate, memory: Any) -> None:
    await check_200_writes(Mem0(gate, memory), gate)


async def test_200_searches_return_what_the_gate_serves(gate: RemoteGate, memory: Any) -> None:
    await check_200_reads(Mem0(gate, memory), gate)


async def test_a_memory_that_is_admitted_after_two_hours_is_not_lost(
    gate: RemoteGate, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await check_two_hours(Mem0(gate, memory), gate, monkeypatch)


def test_what_is_given_beside_a_text_is_judged_with_it(gate: RemoteGate, memory: Any) -> None:
    """Metadata, and the name of who spoke, whether they are bad at once or turn bad later."""
    with GateClient(gate.servers, gate.agent, gate.make_options()) as client:
        store = memory.vector_store
        gated = GatedMemory(memory, client, source=SOURCE, describe=lambda payload: gate.proved)
        for beside in ({"title": gate.rejected}, {gate.rejected: 1}, {"list": [{"deep": gate.rejected}]}):
            with pytest.raises(MemoryRefused):
                gated.add("a note", infer=False, metadata=beside, **ADA)
        bad = {"role": "user", "content": "a note", "name": gate.rejected}
        with pytest.raises(MemoryRefused):
            gated.add([bad], infer=False, **ADA)
        assert list_stored(memory) == []
        good = {"role": "user", "content": "a note", "name": "Ada Smith"}
        gated.add([good], infer=False, metadata={"title": "of Ada", "pages": [1, 2]}, **ADA)
        gated.add("a plain note", infer=False, **ADA)
        first, second = sorted(search(gated), key=lambda each: str(each["memory"]))
        assert (first["memory"], first["actor_id"]) == ("a note", "Ada Smith")
        assert first["metadata"] == {"title": "of Ada", "pages": [1, 2]}
        assert (second["memory"], second["metadata"]) == ("a plain note", None)
        (kept,) = [each for each in store.list(top_k=10)[0] if each.payload["data"] == "a note"]
        store.update(kept.id, payload={**kept.payload, "title": gate.rejected})
        assert list_texts(gated) == ["a plain note"]
    contents = [each["content"] for each in gate.do("read", topic=ADMITTED)]
    assert "a plain note" in contents


def test_a_memory_is_written_again_with_other_metadata(gate: RemoteGate, memory: Any) -> None:
    with GateClient(gate.servers, gate.agent, gate.make_options()) as client:
        gated = GatedMemory(memory, client, source=SOURCE, describe=lambda payload: gate.proved)
        (added,) = gated.add("a note", infer=False, metadata={"title": "one"}, **ADA)["results"]
        gated.memory.update(added["id"], "a note", metadata={"title": "two"})
        with pytest.raises(MemoryRefused):
            gated.memory.update(added["id"], "a note", metadata={"title": gate.rejected})
        assert [each["metadata"] for each in search(gated)] == [{"title": "two"}]


async def test_the_wrapper_costs_less_than_a_millisecond_over_the_client() -> None:
    """Of what it does beside Mem0: at its vector store, and with the results of its search."""
    payload = {"data": "a note", "hash": "h", "created_at": "2026-01-01T00:00:00Z", "title": "of Ada"}
    result = {"id": "m", "memory": "a note", "metadata": {"title": "of Ada"}}
    store = SimpleNamespace(insert=lambda **more: None)
    inner = SimpleNamespace(vector_store=store, search=lambda query, **more: {"results": [result]})
    gated = GatedMemory(inner, InstantMemoryThread(), source=SOURCE, describe=lambda payload: {})

    async def write(number: str) -> None:
        inner.vector_store.insert(vectors=[[0.0]], payloads=[payload], ids=[number])

    async def read(number: str) -> None:
        assert gated.search("note")["results"] == [result]

    with in_session("fast"):
        await check_overhead("mem0, a write", write)
        await check_overhead("mem0, a search", read)


def test_what_a_model_makes_out_of_messages_is_judged_and_not_the_messages(
    gate: RemoteGate, memory: Any
) -> None:
    memory.llm = ScriptedFacts("likes tea", f"wants {gate.rejected}", "lives in Bern")
    with GateClient(gate.servers, gate.agent, gate.make_options()) as client:
        gated = GatedMemory(memory, client, source=SOURCE, describe=lambda payload: gate.proved)
        added = gated.add("I like tea and live in Bern", **ADA)
        assert sorted(one["memory"] for one in added["results"]) == ["likes tea", "lives in Bern"]
        (first, *_) = added["results"]
        with pytest.raises(MemoryRefused):
            gated.memory.update(first["id"], f"now {gate.rejected}")
    assert list_stored(memory) == ["likes tea", "lives in Bern"]


def test_nothing_is_stored_while_the_gate_is_away(gate: RemoteGate, memory: Any) -> None:
    gate.do("stop")
    try:
        with GateClient(gate.servers, gate.agent, gate.make_options(deadline_s=2)) as client:
            gated = GatedMemory(memory, client, source=SOURCE, describe=lambda payload: gate.proved)
            with pytest.raises(ActionNotDecided):
                gated.add("a note", infer=False, **ADA)
    finally:
        gate.do("start")
    assert list_stored(memory) == []


async def test_the_guide_s_program_guards_a_memory(gate: RemoteGate, memory: Any) -> None:
    memory.llm = ScriptedFacts("Ada prefers calls in the afternoon")
    names = {"servers": gate.servers, "options": gate.make_options(), "memory": memory}
    left = await run_snippet("Mem0", **names, describe=lambda payload: gate.proved)
    assert [one["memory"] for one in left["found"]["results"]] == ["Ada prefers calls in the afternoon"]
