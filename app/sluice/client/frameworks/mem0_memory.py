"""Mem0's memory behind the gate: what it stores and what a search returns.

The gate is asked where Mem0 gives a memory to its vector store, after a model has made it out of the
messages, so that what is stored is what was judged.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from sluice.client.frameworks.gated_items import (
    BESIDE,
    FoundItem,
    MemoryRefused,
    build_items,
    describe_now,
    read_served,
    strip_beside,
)
from sluice.client.guarded_calls import resolve_session_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sluice.client.sync_client import GateClient

_log = logging.getLogger("sluice.client")


class GatedMemory:
    """`add` and `search` of a `mem0.Memory`, and its other methods by `memory`, whose vector store is the
    gated one from now on.

    Of what `add` makes out of messages it stores what the gate admits; where it admits nothing, Mem0 raises
    its error, or MemoryRefused. The session is the `run_id`, or that of `in_session`.
    """

    def __init__(
        self,
        memory: Any,
        gate: GateClient,
        *,
        source: Mapping[str, Any],
        describe: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    ) -> None:
        """`source`: of what is written, {"id": …, "type": …}. `describe`: the quality fields of a memory, by
        wire names, from Mem0's payload (`data` is its text, and the metadata given to `add` is there)."""
        self.memory = memory
        self._gate = gate
        memory.vector_store = _GatedVectors(memory.vector_store, gate, source, describe)

    def add(self, messages: Any, **more: Any) -> dict[str, Any]:
        """See `mem0.Memory.add`."""
        added: dict[str, Any] = self.memory.add(messages, **more)
        return added

    def search(self, query: str, **more: Any) -> dict[str, Any]:
        """See `mem0.Memory.search`: of its results those that the gate serves, as it serves them."""
        found = self.memory.search(query, **more)
        session = resolve_session_id((more.get("filters") or {}).get("run_id"))
        return {**found, "results": self._select(found["results"], session)}

    def _select(self, results: Sequence[Mapping[str, Any]], session: str) -> list[dict[str, Any]]:
        items = build_items(
            FoundItem(one["id"], one["memory"], (one.get("metadata") or {}).get(BESIDE, {}))
            for one in results
        )
        answer = self._gate.retrieve(items, session_id=session) if items else None
        pairs = zip(results, read_served(items, answer), strict=True)
        return [_serve(one, body) for one, body in pairs if body is not None]


def _serve(found: Mapping[str, Any], body: str) -> dict[str, Any]:
    metadata = strip_beside(found.get("metadata") or {})
    return {**found, "memory": body, "metadata": metadata or None}


class _GatedVectors:
    """A vector store of Mem0 that asks before it keeps a memory's text; all else is the store's own."""

    def __init__(
        self,
        store: Any,
        gate: GateClient,
        source: Mapping[str, Any],
        describe: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    ) -> None:
        self._store = store
        self._gate = gate
        self._source = source
        self._describe = describe

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def insert(self, vectors: Any, payloads: Any = None, ids: Any = None) -> Any:
        """Ask about all of them. Raises MemoryRefused, and keeps none, if one is not admitted: Mem0 then goes
        on with each alone."""
        admitted = [self._ask(name, one) for name, one in zip(ids, payloads, strict=True)]
        return self._store.insert(vectors=vectors, payloads=admitted, ids=ids)

    def update(self, vector_id: Any, vector: Any = None, payload: Any = None) -> Any:
        """Ask about the new text. Raises MemoryRefused."""
        admitted = None if payload is None else self._ask(vector_id, payload)
        return self._store.update(vector_id=vector_id, vector=vector, payload=admitted)

    def _ask(self, name: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The payload with what the gate was told of it. A repeated question gets the first answer."""
        made = payload.get("updated_at") or payload.get("created_at")
        fields = describe_now({"timestamp": made, **self._describe(payload)})
        session = resolve_session_id(payload.get("run_id"))
        write_id = f"mem0-{name}-{payload.get('hash', '')}"
        given = {"source": self._source, "session_id": session, "write_id": write_id, **fields}
        answer = self._gate.remember(payload["data"], **given)
        if answer.action != "allow":
            _log.warning("mem0: a memory is not stored: %s: %s", answer.action, answer.reason)
            raise MemoryRefused(answer)
        return {**payload, BESIDE: {**fields, "memory_id": answer.memory_id}}
