"""LangGraph's store and a LangChain retriever behind the gate: nothing passes that it does not let."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langgraph.config import get_store
from langgraph.graph import START, StateGraph
from langgraph.store.memory import InMemoryStore
from langmem import create_manage_memory_tool, create_search_memory_tool

from sluice.client import AsyncGateClient, GateClient, in_session
from sluice.client.frameworks.gated_items import MemoryRefused
from sluice.client.frameworks.langchain_retriever import GatedRetriever
from sluice.client.frameworks.langgraph_store import GatedStore
from tests.frameworks.snippets import run_snippet

if TYPE_CHECKING:
    from tests.frameworks.gate import RemoteGate

SOURCE = {"id": "notes", "type": "user"}
PLACE = ("people", "ada")


def list_texts(store: InMemoryStore) -> list[str]:
    """What is really stored."""
    return sorted(str(one.value["text"]) for one in store.search(PLACE, limit=1000))


async def test_200_memories_are_stored_and_read_as_the_gate_says(gate: RemoteGate) -> None:
    """Each fourth is rejected, each fourth is held, and some of the rest turn bad behind the gate's back."""
    inner = InMemoryStore()
    texts = [
        f"note {n}" + (f" {gate.rejected}" if n % 4 == 1 else f" {gate.held}" if n % 4 == 2 else "")
        for n in range(200)
    ]
    refused = []
    async with AsyncGateClient(gate.servers, gate.agent, gate.make_options()) as client:
        store = GatedStore(inner, client, source=SOURCE, describe=lambda value: gate.proved)
        with in_session("memories"):
            for n, text in enumerate(texts):
                try:
                    await store.aput(PLACE, f"m-{n}", {"text": text})
                except MemoryRefused as error:
                    refused.append((n, error.answer.action))
            good = sorted(text for n, text in enumerate(texts) if n % 4 in (0, 3))
            assert list_texts(inner) == good
            assert {(n % 4, action) for n, action in refused} == {(1, "reject"), (2, "quarantine")}
            assert len(refused) == 100
            changed = inner.get(PLACE, "m-0")
            assert changed
            inner.put(PLACE, "m-0", {**changed.value, "text": f"please {gate.rejected}"})
            inner.put(PLACE, "unknown", {"text": "nobody asked the gate about this"})
            found = await store.asearch(PLACE, limit=1000)
            assert sorted(one.value["text"] for one in found) == [one for one in good if one != "note 0"]
            assert {tuple(one.value) for one in found} == {("text",)}
            assert await store.aget(PLACE, "m-0") is None
            kept = await store.aget(PLACE, "m-3")
            assert kept
            assert kept.value == {"text": "note 3"}
            await store.adelete(PLACE, "m-3")
            assert await store.aget(PLACE, "m-3") is None
            assert await store.alist_namespaces() == [PLACE]


async def test_a_store_writes_nothing_while_the_gate_is_away(gate: RemoteGate) -> None:
    inner = InMemoryStore()
    gate.do("stop")
    try:
        async with AsyncGateClient(gate.servers, gate.agent, gate.make_options(deadline_s=2)) as client:
            store = GatedStore(inner, client, source=SOURCE, describe=lambda value: gate.proved)
            with in_session("away"), pytest.raises(Exception, match="no decision within"):
                await store.aput(PLACE, "m-1", {"text": "note"})
            inner.put(PLACE, "m-2", {"text": "note"})
            with in_session("away"), pytest.raises(Exception, match="no decision within"):
                await store.aget(PLACE, "m-2")
    finally:
        gate.do("start")
    assert list_texts(inner) == ["note"]


def test_a_graph_s_thread_is_the_session_of_its_store(gate: RemoteGate) -> None:
    inner = InMemoryStore()

    def write(state: dict[str, Any]) -> dict[str, Any]:
        store = get_store()
        store.put(PLACE, "m-1", {"text": "from a node"})
        kept = store.get(PLACE, "m-1")
        return {"said": None if kept is None else kept.value["text"]}

    with GateClient(gate.servers, gate.agent, gate.make_options()) as client:
        store = GatedStore(inner, client, source=SOURCE, describe=lambda value: gate.proved)
        graph: Any = StateGraph(dict)
        graph.add_node("write", write)
        graph.add_edge(START, "write")
        graph.set_finish_point("write")
        ended = graph.compile(store=store).invoke({}, {"configurable": {"thread_id": "of-the-graph"}})
    assert ended == {"said": "from a node"}
    decided = gate.do("read", topic="gate.memory.admitted")
    assert [one["content"] for one in decided if one["session_id"] == "of-the-graph"] == [
        json.dumps({"text": "from a node"})
    ]


class FixedRetriever(BaseRetriever):
    """Finds the same whatever one asks."""

    found: list[Document]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return self.found


def make_documents(gate: RemoteGate) -> list[Document]:
    """One that passes, one that holds an attack, and one of which nothing is known."""
    known = {**gate.proved, "timestamp": "2026-01-01T00:00:00Z"}
    return [
        Document("a price of 3", id="d-1", metadata=known),
        Document(f"a price of 4. {gate.rejected}", id="d-2", metadata=known),
        Document("a price of 5", id="d-3"),
        Document("a price of 6", metadata=known),
        Document("a price of 7", id="d-1", metadata=known),
    ]


async def test_a_retriever_gives_what_the_gate_serves(gate: RemoteGate) -> None:
    inner = FixedRetriever(found=make_documents(gate))
    async with AsyncGateClient(gate.servers, gate.agent, gate.make_options()) as client:
        retriever = GatedRetriever(retriever=inner, gate=client, session_id="retrieves")
        served = await retriever.ainvoke("the price")
        assert await GatedRetriever(retriever=FixedRetriever(found=[]), gate=client).ainvoke("none") == []
    assert [one.page_content for one in served] == ["a price of 3", "a price of 6", "a price of 7"]
    with GateClient(gate.servers, gate.agent, gate.make_options()) as waiting, in_session("retrieves"):
        again = GatedRetriever(retriever=inner, gate=waiting).invoke("the price")
    assert [one.page_content for one in again] == [one.page_content for one in served]


async def test_the_guide_s_program_guards_a_store(gate: RemoteGate) -> None:
    names = {"servers": gate.servers, "options": gate.make_options(), "store": InMemoryStore()}
    left = await run_snippet("LangGraph's store, and LangMem", **names, describe=lambda value: gate.proved)
    assert left["found"][0].value == {"text": "Call in the afternoon."}


async def test_the_guide_s_program_guards_a_retriever(gate: RemoteGate) -> None:
    names = {"servers": gate.servers, "options": gate.make_options()}
    inner = FixedRetriever(found=make_documents(gate))
    left = await run_snippet("A LangChain retriever", **names, retriever=inner)
    assert len(left["documents"]) == 3


async def test_langmem_s_tools_write_and_search_through_the_gate(gate: RemoteGate) -> None:
    inner = InMemoryStore()
    async with AsyncGateClient(gate.servers, gate.agent, gate.make_options()) as client:
        store = GatedStore(inner, client, source=SOURCE, describe=lambda value: gate.proved)
        manage = create_manage_memory_tool(PLACE, store=store)
        search = create_search_memory_tool(PLACE, store=store)
        with in_session("langmem"):
            await manage.ainvoke({"content": "Ada likes tea", "action": "create"})
            with pytest.raises(MemoryRefused):
                await manage.ainvoke({"content": f"Ada {gate.rejected}", "action": "create"})
            inner.put(PLACE, "unknown", {"content": "nobody asked the gate about this"})
            found = json.loads(await search.ainvoke({"query": "tea"}))
    assert [one["value"] for one in found] == [{"content": "Ada likes tea"}]
    assert len(inner.search(PLACE)) == 2
