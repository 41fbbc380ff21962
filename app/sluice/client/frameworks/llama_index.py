"""A LlamaIndex node postprocessor: of the nodes that a retriever found, those that the gate serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore

from sluice.client.answers import ClientError
from sluice.client.async_client import AsyncGateClient
from sluice.client.frameworks.gated_items import FoundItem, build_items, read_served
from sluice.client.guarded_calls import resolve_session_id
from sluice.client.sync_client import GateClient

if TYPE_CHECKING:
    from collections.abc import Sequence


class GatePostprocessor(BaseNodePostprocessor):
    """Make it the only one, so that nothing else reads what the gate withholds, and nothing puts in what it
    has not judged.

    `gate`: an AsyncGateClient for the methods that are awaited, a GateClient for the others. The quality
    fields of a node are those of its metadata; `session_id` None: the session of `in_session`. `then`: the
    other postprocessors, in their order. They get what is served, and what they change in it or add to it is
    judged too.
    """

    gate: Any
    session_id: str | None = None
    then: list[BaseNodePostprocessor] = []  # noqa: RUF012 - pydantic copies it

    @classmethod
    def class_name(cls) -> str:
        """As LlamaIndex names it."""
        return "GatePostprocessor"

    def _postprocess_nodes(
        self,
        nodes: list[NodeWithScore],
        query_bundle: Any = None,
    ) -> list[NodeWithScore]:
        served = self._serve(nodes)
        judged = _list_judged(served)
        for each in self.then:
            served = each.postprocess_nodes(served, query_bundle)
        return served if judged >= _list_judged(served) else self._serve(served)

    async def _apostprocess_nodes(
        self,
        nodes: list[NodeWithScore],
        query_bundle: Any = None,
    ) -> list[NodeWithScore]:
        served = await self._aserve(nodes)
        judged = _list_judged(served)
        for each in self.then:
            served = await each.apostprocess_nodes(served, query_bundle)
        return served if judged >= _list_judged(served) else await self._aserve(served)

    def _serve(self, nodes: Sequence[NodeWithScore]) -> list[NodeWithScore]:
        if not isinstance(self.gate, GateClient):
            raise ClientError("GatePostprocessor has no GateClient", "Give it one, or await the query")
        items, answer = build_items(map(_describe, nodes)), None
        if items:
            session = resolve_session_id(self.session_id)
            answer = self.gate.retrieve(items, session_id=session)
        return _select(nodes, read_served(items, answer))

    async def _aserve(self, nodes: Sequence[NodeWithScore]) -> list[NodeWithScore]:
        if not isinstance(self.gate, AsyncGateClient):
            raise ClientError("GatePostprocessor has no AsyncGateClient", "Give it one, or do not await")
        items, answer = build_items(map(_describe, nodes)), None
        if items:
            session = resolve_session_id(self.session_id)
            answer = await self.gate.retrieve(items, session_id=session)
        return _select(nodes, read_served(items, answer))


def _describe(scored: NodeWithScore) -> FoundItem:
    """The text as a model gets it: with the metadata that LlamaIndex puts before it."""
    text = scored.node.get_content(metadata_mode=MetadataMode.LLM)
    return FoundItem(scored.node.node_id, text, scored.node.metadata)


def _list_judged(served: Sequence[NodeWithScore]) -> set[tuple[str, str]]:
    """Id and text of each."""
    return {(each.node.node_id, _describe(each).body) for each in served}


def _select(nodes: Sequence[NodeWithScore], bodies: Sequence[str | None]) -> list[NodeWithScore]:
    """The nodes whose text is served, and as it was judged."""
    pairs = zip(nodes, bodies, strict=True)
    return [node for node, body in pairs if body is not None and body == _describe(node).body]
