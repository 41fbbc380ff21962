"""A LlamaIndex node postprocessor behind the gate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from llama_index.core import get_response_synthesizer
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import MetadataReplacementPostProcessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from sluice.client import ActionNotDecided, AsyncGateClient, ClientError, GateClient, in_session
from sluice.client.frameworks.llama_index import GatePostprocessor
from tests.frameworks.framework_checks import check_overhead
from tests.frameworks.memory_checks import SERVED, InstantMemoryClient, PlannedMemory, check_200_reads
from tests.frameworks.snippets import run_snippet

if TYPE_CHECKING:
    from tests.frameworks.gate import RemoteGate


class FixedNodes(BaseRetriever):
    """Finds the same whatever one asks."""

    def __init__(self, nodes: list[NodeWithScore]) -> None:
        super().__init__()
        self._nodes = nodes

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes


def make_nodes(gate: RemoteGate, count: int = 3) -> list[NodeWithScore]:
    """By turns one that passes, one that holds an attack, and one of which nothing is known."""
    known = {**gate.proved, "timestamp": "2026-01-01T00:00:00Z"}
    nodes = []
    for n in range(count):
        text = f"a price of {n}." + (f" {gate.rejected}" if n % 3 == 1 else "")
        metadata = {} if n % 3 == 2 else known
        nodes.append(NodeWithScore(node=TextNode(id_=f"n-{n}", text=text, metadata=metadata), score=0.5))
    return nodes


class LlamaIndex:
    """Nodes that a retriever finds by their number."""

    package = "llama-index-core"
    in_threads = False

    def __init__(self, gate: RemoteGate) -> None:
        self._gate = gate
        self._nodes: dict[str, NodeWithScore] = {}

    async def prepare(self, client: Any, memory: PlannedMemory, *, proved: bool) -> None:
        metadata = {**self._gate.proved, "timestamp": "2026-01-01T00:00:00Z"} if proved else {}
        node = TextNode(id_=memory.session, text=memory.text, metadata=metadata)
        self._nodes[memory.session] = NodeWithScore(node=node, score=0.5)

    async def read(self, client: Any, memory: PlannedMemory) -> list[str]:
        postprocessor = GatePostprocessor(gate=client, session_id=memory.session)
        served = await postprocessor.apostprocess_nodes([self._nodes[memory.session]], query_str="it")
        return [each.node.get_content() for each in served]


async def test_200_queries_read_what_the_gate_serves(gate: RemoteGate) -> None:
    await check_200_reads(LlamaIndex(gate), gate)


async def test_the_postprocessor_costs_less_than_a_millisecond_over_the_client(gate: RemoteGate) -> None:
    nodes = make_nodes(gate)[:1]
    postprocessor = GatePostprocessor(gate=InstantMemoryClient(), session_id="fast")

    async def run(number: str) -> None:
        assert await postprocessor.apostprocess_nodes(nodes, query_str="it") == nodes

    await check_overhead("llama-index", run)


async def test_what_a_postprocessor_puts_in_after_the_gate_is_judged_too(gate: RemoteGate) -> None:
    """A sentence window: the text that a model reads comes from metadata that it does not read."""
    windows = [f"a price of 3. {gate.rejected}", "a price of 4, and of 5."]
    found = make_nodes(gate)[:1] * 2
    nodes = [
        NodeWithScore(
            node=TextNode(
                text="a price.",
                metadata={**each.node.metadata, "window": window},
                excluded_llm_metadata_keys=["window"],
            ),
            score=0.5,
        )
        for each, window in zip(found, windows, strict=True)
    ]
    window = MetadataReplacementPostProcessor(target_metadata_key="window")
    async with AsyncGateClient(gate.servers, gate.agent, gate.make_options()) as client:
        postprocessor = GatePostprocessor(gate=client, session_id="windows", then=[window])
        served = await postprocessor.apostprocess_nodes(nodes, query_str="the price")
    assert [each.node.get_content() for each in served] == windows[1:]


def test_another_postprocessor_reads_nothing_that_the_gate_withholds(gate: RemoteGate) -> None:
    read: list[str] = []

    class Reader(BaseNodePostprocessor):
        """Keeps what it reads, and passes it on."""

        def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: Any = None) -> Any:
            read.extend(each.node.node_id for each in nodes)
            return nodes

    with GateClient(gate.servers, gate.agent, gate.make_options()) as client:
        postprocessor = GatePostprocessor(gate=client, session_id="reads", then=[Reader(), Reader()])
        served = postprocessor.postprocess_nodes(make_nodes(gate))
    assert [each.node.node_id for each in served] == ["n-0"]
    assert read == ["n-0", "n-0"]
    asked = [each for each in gate.do("read", topic=SERVED) if each["session_id"] == "reads"]
    assert len(asked) == 1  # what is not changed is not judged again


async def test_of_200_nodes_those_are_given_that_the_gate_serves(gate: RemoteGate) -> None:
    nodes = make_nodes(gate, 200)
    async with AsyncGateClient(gate.servers, gate.agent, gate.make_options()) as client:
        postprocessor = GatePostprocessor(gate=client, session_id="nodes")
        served = await postprocessor.apostprocess_nodes(nodes, query_str="the price")
        assert await postprocessor.apostprocess_nodes([]) == []
        with pytest.raises(ClientError, match="has no GateClient"):
            postprocessor.postprocess_nodes(nodes)
    assert [one.node.get_content() for one in served] == [f"a price of {n}." for n in range(0, 200, 3)]
    assert {one.score for one in served} == {0.5}


def test_what_a_query_answers_from_is_what_the_gate_serves(gate: RemoteGate) -> None:
    with GateClient(gate.servers, gate.agent, gate.make_options()) as client, in_session("query"):
        engine = RetrieverQueryEngine(
            FixedNodes(make_nodes(gate)),
            get_response_synthesizer(llm=MockLLM()),
            node_postprocessors=[GatePostprocessor(gate=client)],
        )
        answer = engine.query("the price")
    assert [one.node.node_id for one in answer.source_nodes] == ["n-0"]
    assert "a price of 0." in str(answer)
    assert gate.rejected not in str(answer)


async def test_an_attack_in_the_metadata_that_a_model_reads_is_withheld(gate: RemoteGate) -> None:
    good, *_ = make_nodes(gate)
    bad = TextNode(text="a price of 9.", metadata={**good.node.metadata, "title": gate.rejected})
    async with AsyncGateClient(gate.servers, gate.agent, gate.make_options()) as client:
        served = await GatePostprocessor(gate=client, session_id="metadata").apostprocess_nodes(
            [good, NodeWithScore(node=bad, score=0.5)]
        )
    assert served == [good]


async def test_nothing_is_given_while_the_gate_is_away(gate: RemoteGate) -> None:
    gate.do("stop")
    try:
        async with AsyncGateClient(gate.servers, gate.agent, gate.make_options(deadline_s=2)) as client:
            with pytest.raises(ActionNotDecided):
                await GatePostprocessor(gate=client, session_id="away").apostprocess_nodes(make_nodes(gate))
    finally:
        gate.do("start")


async def test_the_guide_s_program_guards_a_query(gate: RemoteGate) -> None:
    names = {"servers": gate.servers, "options": gate.make_options(), "nodes": make_nodes(gate)}
    left = await run_snippet("A LlamaIndex postprocessor", **names)
    assert [one.node.node_id for one in left["served"]] == ["n-0"]
