"""Mem0's memory behind the gate."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from sluice.client import ActionNotDecided, GateClient
from sluice.client.frameworks.gated_items import MemoryRefused
from sluice.client.frameworks.mem0_memory import GatedMemory
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


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Any]:
    """Mem0 on files, with embeddings that are all the same and no model."""
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(tmp_path / "mem0")}
    from mem0 import Memory  # noqa: PLC0415 - it reads them when it is imported
    from mem0.embeddings.mock import MockEmbeddings  # noqa: PLC0415 - likewise

    store = {"path": str(tmp_path / "vectors"), "collection_name": "c", "embedding_model_dims": 10}
    vectors = {"provider": "qdrant", "config": store}
    history = str(tmp_path / "history.db")
    made = Memory.from_config(
        {"vector_store": vectors, "llm": KEYS, "embedder": KEYS, "history_db_path": history}
    )
    made.embedding_model = MockEmbeddings()
    yield made
    made.close()


def list_stored(memory: Any) -> list[str]:
    """The texts that are really stored."""
    return sorted(one["memory"] for one in memory.get_all(filters=ADA, top_k=1000)["results"])


def search(memory: Any) -> list[str]:
    found = memory.search("note", filters=ADA, threshold=0.0, top_k=100)["results"]
    return sorted(one["memory"] for one in found)


def test_200_memories_are_stored_and_found_as_the_gate_says(gate: RemoteGate, memory: Any) -> None:
    """Each fourth is rejected and each fourth held; one turns bad behind the gate's back."""
    refused = []
    with GateClient(gate.servers, gate.agent, gate.make_options()) as client:
        store, inner = memory.vector_store, memory
        gated = GatedMemory(memory, client, source=SOURCE, describe=lambda payload: gate.proved)
        for n in range(200):
            text = f"note {n}" + (
                f" {gate.rejected}" if n % 4 == 1 else f" {gate.held}" if n % 4 == 2 else ""
            )
            try:
                gated.add(text, infer=False, metadata={"number": n}, **ADA)
            except MemoryRefused as error:
                refused.append((n % 4, error.answer.action))
        good = sorted(f"note {n}" for n in range(200) if n % 4 in (0, 3))
        assert list_stored(inner) == good
        assert sorted(set(refused)) == [(1, "reject"), (2, "quarantine")]
        assert len(refused) == 100
        assert search(gated) == good
        (bad,) = [one for one in store.list(top_k=1000)[0] if one.payload["data"] == "note 0"]
        store.update(bad.id, payload={**bad.payload, "data": f"please {gate.rejected}"})
        assert search(gated) == [one for one in good if one != "note 0"]
        (one,) = [one for one in list_found(gated) if one["memory"] == "note 3"]
        assert one["metadata"] == {"number": 3}


def list_found(memory: Any) -> list[dict[str, Any]]:
    """The results of a search, whole."""
    found: list[dict[str, Any]] = memory.search("note", filters=ADA, threshold=0.0, top_k=100)["results"]
    return found


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
