"""A LangChain retriever behind the gate: it gives the documents that the gate serves."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document  # noqa: TC002 - pydantic reads the annotations
from langchain_core.retrievers import BaseRetriever

from sluice.client.frameworks.gated_items import FoundItem, build_items, read_served
from sluice.client.guarded_calls import resolve_session_id

if TYPE_CHECKING:
    from collections.abc import Sequence


class GatedRetriever(BaseRetriever):
    """The documents of `retriever`, as far as and as the gate serves them.

    `gate`: an AsyncGateClient for `ainvoke`, a GateClient for `invoke`. The quality fields of a document are
    those of its metadata; `session_id` None: the session of `in_session`.
    """

    retriever: BaseRetriever
    gate: Any
    session_id: str | None = None

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        documents = self.retriever.invoke(query, {"callbacks": run_manager.get_child()})
        items, answer = build_items(map(_describe, documents)), None
        if items:
            session = resolve_session_id(self.session_id)
            answer = self.gate.retrieve(items, session_id=session)
        return _select(documents, read_served(items, answer))

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        documents = await self.retriever.ainvoke(query, {"callbacks": run_manager.get_child()})
        items, answer = build_items(map(_describe, documents)), None
        if items:
            session = resolve_session_id(self.session_id)
            answer = await self.gate.retrieve(items, session_id=session)
        return _select(documents, read_served(items, answer))


def _describe(document: Document) -> FoundItem:
    name = document.id or f"text-{sha256(document.page_content.encode()).hexdigest()[:32]}"
    return FoundItem(name, document.page_content, document.metadata)


def _select(documents: Sequence[Document], bodies: Sequence[str | None]) -> list[Document]:
    pairs = zip(documents, bodies, strict=True)
    return [
        document.model_copy(update={"page_content": body}) for document, body in pairs if body is not None
    ]
