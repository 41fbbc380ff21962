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

from sluice.client import AsyncGateClient, ClientError, GateClient, in_session
from sluice.client.frameworks.gated_items import BESIDE, MemoryRefused
from sluice.client.frameworks.langchain_retriever import GatedRetriever
from sluice.client.frameworks.langgraph_store import GatedStore
from tests.frameworks.framework_checks import check_overhead
from tests.frameworks.memory_checks import (
    InstantMemoryClient,
    InstantMemoryThread,
    PlannedMemory,
    check_200_reads,
    check_200_writes,
    check_two_hours,
)
from tests.frameworks.snippets import run_snippet

if TYPE_CHECKING:
    from tests.frameworks.gate import RemoteGate

SOURCE = {"id": "notes", "type": "user"}
PLACE = ("people", "ada")


def list_texts(store: InMemoryStore) -> list[str]:
    """What is really stored."""
    return sorted(str(each.value["text"]) for each in store.search((), limit=1000))


class LangGraph:
    """Memories in LangGraph's store, each under a key of its own."""

    package = "langgraph"
    in_threads = False

    def __init__(self, gate: RemoteGate) -> None:
        self.inner = InMemoryStore()
        self._gate = gate

    def _open(self, client: Any) -> GatedStore:
        return GatedStore(self.inner, client, source=SOURCE, describe=lambda value: self._gate.proved)

    async def prepare(self, client: Any, memory: PlannedMemory, *, proved: bool) -> None:
        beside = {**self._gate.proved, "timestamp": "2026-01-01T00:00:00Z"} if proved else {}
        value = {"text": memory.text, **({BESIDE: beside} if proved else {})}
        await self.inner.aput(PLACE, memory.session, value)

    async def read(self, client: Any, memory: PlannedMemory) -> list[str]:
        with in_session(memory.session):
            item = await self._open(client).aget(PLACE, memory.session)
        return [] if item is None else [str(item.value["text"])]

    async def write(self, client: Any, memory: PlannedMemory) -> None:
        with in_session(memory.session):
            await self._open(client).aput(PLACE, memory.session, {"text": memory.text})

    async def write_admitted(self, client: Any, memory: PlannedMemory, record: dict[str, Any]) -> None:
        await self._open(client).aput_admitted(PLACE, memory.session, record)

    def list_stored(self) -> list[str]:
        return list_texts(self.inner)

    def read_content(self, content: str) -> str:
        return str(json.loads(content)["text"])


async def test_200_memories_are_stored_as_the_gate_says_and_once(gate: RemoteGate) -> None:
    await check_200_writes(LangGraph(gate), gate)


async def test_200_reads_of_a_store_return_what_the_gate_serves(gate: RemoteGate) -> None:
    await check_200_reads(LangGraph(gate), gate)


async def test_a_memory_that_is_admitted_after_two_hours_is_not_lost(
    gate: RemoteGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    await check_two_hours(LangGraph(gate), gate, monkeypatch)


async def test_a_search_returns_what_was_judged_and_nothing_that_turned_bad(gate: RemoteGate) -> None:
    inner = InMemoryStore()
    async with AsyncGateClient(gate.servers, gate.agent, gate.make_options()) as client:
        store = GatedStore(inner, client, source=SOURCE, describe=lambda value: gate.proved)
        with in_session("searches"):
            for number in range(4):
                await store.aput(PLACE, f"m-{number}", {"text": f"note {number}"})
            changed = inner.get(PLACE, "m-0")
            assert changed
            inner.put(PLACE, "m-0", {**changed.value, "text": f"please {gate.rejected}"})
            inner.put(PLACE, "unknown", {"text": "nobody asked the gate about this"})
            items = await store.asearch(PLACE, limit=1000)
            assert sorted(each.value["text"] for each in items) == ["note 1", "note 2", "note 3"]
            assert {tuple(each.value) for each in items} == {("text",)}
            for place, key in ((PLACE, f"m {gate.rejected}"), ((*PLACE, gate.held), "m"), (PLACE, "m" * 300)):
                with pytest.raises(ClientError, match="not stored" if len(key) < 300 else "too long"):
                    await store.aput(place, key, {"text": "harmless"})
            assert "harmless" not in list_texts(inner), "the key and the namespace are read with an item"
            await store.adelete(PLACE, "m-3")
            assert await store.aget(PLACE, "m-3") is None
            assert await store.alist_namespaces() == [PLACE]


async def test_what_is_no_admitted_memory_is_not_stored_as_one(gate: RemoteGate) -> None:
    inner = InMemoryStore()
    store = GatedStore(inner, InstantMemoryThread(), source=SOURCE, describe=lambda value: gate.proved)
    record = {"schema": "sluice/memory_decision/v1", "content": "{}", "memory_id": "m"}
    with pytest.raises(ClientError, match="no admitted memory"):
        store.put_admitted(PLACE, "m-1", record)
    assert list_texts(inner) == []


async def test_the_wrappers_cost_less_than_a_millisecond_over_the_client() -> None:
    inner = InMemoryStore()
    store = GatedStore(inner, InstantMemoryClient(), source=SOURCE, describe=lambda value: {})
    inner.put(PLACE, "m", {"text": "kept"})
    document = Document("a price of 3", id="d-1")
    retriever = FixedRetriever(found=[document])
    gated = GatedRetriever(retriever=retriever, gate=InstantMemoryClient(), session_id="fast")

    async def write(number: str) -> None:
        await store.aput(PLACE, number, {"text": "kept"})

    async def write_bare(number: str) -> None:
        await inner.aput(PLACE, number, {"text": "kept"})

    async def read(number: str) -> None:
        assert await store.aget(PLACE, "m")

    async def read_bare(number: str) -> None:
        assert await inner.aget(PLACE, "m")

    async def retrieve(number: str) -> None:
        assert await gated.ainvoke("the price")

    async def retrieve_bare(number: str) -> None:
        assert await retriever.ainvoke("the price")

    with in_session("fast"):
        await check_overhead("langgraph store, a write", write, write_bare)
        await check_overhead("langgraph store, a read", read, read_bare)
    await check_overhead("langchain retriever", retrieve, retrieve_bare)


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


class LangChainRetriever:
    """Documents that a retriever finds by their number."""

    package = "langchain-core"
    in_threads = False

    def __init__(self, gate: RemoteGate) -> None:
        self._gate = gate
        self._documents: dict[str, Document] = {}

    async def prepare(self, client: Any, memory: PlannedMemory, *, proved: bool) -> None:
        metadata = {**self._gate.proved, "timestamp": "2026-01-01T00:00:00Z"} if proved else {}
        self._documents[memory.session] = Document(memory.text, id=memory.session, metadata=metadata)

    async def read(self, client: Any, memory: PlannedMemory) -> list[str]:
        inner = FixedRetriever(found=[self._documents[memory.session]])
        gated = GatedRetriever(retriever=inner, gate=client, session_id=memory.session)
        return [each.page_content for each in await gated.ainvoke("it")]


async def test_200_retrievals_return_what_the_gate_serves(gate: RemoteGate) -> None:
    await check_200_reads(LangChainRetriever(gate), gate)


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
