"""Mem0's memory behind the gate: what it stores and what a search returns.

The gate is asked where Mem0 gives a memory to its vector store, after a model has made it out of the
messages, so that what is stored is what was judged.
"""

from __future__ import annotations

import json
import logging
import re
from contextvars import ContextVar
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sluice.client.frameworks.gated_items import (
    BESIDE,
    FoundItem,
    MemoryRefused,
    build_items,
    describe_admitted,
    describe_now,
    read_served,
)
from sluice.client.guarded_calls import resolve_session_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sluice.client.sync_client import GateClient

_log = logging.getLogger("sluice.client")

MEMORY_KEY = "_sluice_memory"
"""The key in Mem0's metadata of the id of a memory that a reviewer has admitted."""
IDS = ("user_id", "agent_id", "run_id")
NAMED = (*IDS, "actor_id", "role", "attributed_to", "created_at", "updated_at", "expiration_date")
"""What results have beside their metadata. A value that is `WORD` is not judged."""
UNREAD = {BESIDE, MEMORY_KEY, "id", "data", "hash", "text_lemmatized"}
"""What a payload has beside what is judged with its text."""
WORD = re.compile(r"[\w@:.+-]{0,40}")
_admitted: ContextVar[Mapping[str, Any] | None] = ContextVar("admitted", default=None)
"""The record of gate.memory.admitted that is being stored."""


class GatedMemory:
    """`add` and `search` of a `mem0.Memory`, and its other methods by `memory`, whose vector store is the
    gated one from now on.

    Of what `add` makes out of messages it stores what the gate admits; where it admits nothing, Mem0 raises
    its error, or MemoryRefused. The metadata given to `add`, and the name of who spoke, are judged with the
    text. The session is the `run_id`, or that of `in_session`.
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

    def add_admitted(self, record: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Store, once, what a reviewer has admitted after it was held: a record of gate.memory.admitted. The
        gate is not asked; a search is judged as any other. `more`: the ids that `add` was given, and its
        `expiration_date`. Raises ClientError for another record."""
        beside, (text, fields) = describe_admitted(record), _read_content(record["content"])
        filters = {name: more[name] for name in IDS if more.get(name)} | {MEMORY_KEY: beside["memory_id"]}
        if any(self.memory.get_all(filters=filters, top_k=1)["results"]):
            return {"results": []}
        message = {"role": fields.pop("role", "user"), "content": text, "name": fields.pop("actor_id", None)}
        metadata = {**fields, MEMORY_KEY: beside["memory_id"]}
        token = _admitted.set(record)
        try:
            return self.add([message], infer=False, metadata=metadata, **more)
        finally:
            _admitted.reset(token)

    def search(self, query: str, **more: Any) -> dict[str, Any]:
        """See `mem0.Memory.search`: of its results those that the gate serves, as it serves them."""
        page = self.memory.search(query, **more)
        session = resolve_session_id((more.get("filters") or {}).get("run_id"))
        return {**page, "results": self._select(page["results"], session)}

    def _select(self, results: Sequence[Mapping[str, Any]], session: str) -> list[dict[str, Any]]:
        items = build_items(
            FoundItem(
                result["id"], _write_content(result["memory"], _list_given(result)), _find_beside(result)
            )
            for result in results
        )
        answer = self._gate.retrieve(items, session_id=session) if items else None
        pairs = zip(results, read_served(items, answer), strict=True)
        return [_serve(result, body) for result, body in pairs if body is not None]


def _find_beside(result: Mapping[str, Any]) -> Mapping[str, Any]:
    beside: Mapping[str, Any] = (result.get("metadata") or {}).get(BESIDE, {})
    return beside


def _list_given(result: Mapping[str, Any]) -> dict[str, Any]:
    """What a result has beside its text, as it is in Mem0's payload."""
    return {**(result.get("metadata") or {}), **{name: result.get(name) for name in NAMED}}


def _serve(result: Mapping[str, Any], body: str) -> dict[str, Any]:
    """The result, with what was judged as the gate serves it."""
    plain = not _select_given(_list_given(result))
    text, fields = (body, {}) if plain else _read_content(body)
    named = {name: fields.pop(name) for name in NAMED if name in fields}
    return {**result, **named, "memory": text, "metadata": fields or None}


def _select_given(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What is judged with the text."""
    fields = {name: value for name, value in payload.items() if name not in UNREAD and value is not None}
    return {
        name: value
        for name, value in fields.items()
        if name not in NAMED or not (isinstance(value, str) and WORD.fullmatch(value))
    }


def _write_content(text: str, payload: Mapping[str, Any]) -> str:
    """What the gate judges: the text, and in JSON where something was given beside it."""
    fields = _select_given(payload)
    if not fields:
        return text
    whole = {"memory": text, "metadata": fields}
    return json.dumps(whole, ensure_ascii=False, sort_keys=True, default=str)


def _read_content(content: str) -> tuple[str, dict[str, Any]]:
    """The text and what was given beside it."""
    try:
        read = json.loads(content)
    except ValueError:
        read = None
    if not isinstance(read, dict) or read.keys() != {"memory", "metadata"}:
        return content, {}
    return read["memory"], dict(read["metadata"])


class _GatedVectors:
    """A vector store of Mem0 that asks before it keeps a memory; all else is the store's own."""

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
        admitted = [self._ask(name, payload) for name, payload in zip(ids, payloads, strict=True)]
        return self._store.insert(vectors=vectors, payloads=admitted, ids=ids)

    def update(self, vector_id: Any, vector: Any = None, payload: Any = None) -> Any:
        """Ask about the new text. Raises MemoryRefused."""
        admitted = None if payload is None else self._ask(vector_id, payload)
        return self._store.update(vector_id=vector_id, vector=vector, payload=admitted)

    def _ask(self, name: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The payload with what the gate was told of it. A repeated question gets the first answer."""
        record, content = _admitted.get(), _write_content(payload["data"], payload)
        if record is not None and record["content"] == content:
            return {**payload, BESIDE: describe_admitted(record)}
        made = payload.get("updated_at") or payload.get("created_at")
        fields = describe_now({"timestamp": made, **self._describe(payload)})
        session = resolve_session_id(payload.get("run_id"))
        write_id = f"mem0-{name}-{sha256(f'{made} {content}'.encode()).hexdigest()[:32]}"
        parameters = {"source": self._source, "session_id": session, "write_id": write_id, **fields}
        answer = self._gate.remember(content, **parameters)
        if answer.action != "allow":
            _log.warning("mem0: a memory is not stored: %s: %s", answer.action, answer.reason)
            raise MemoryRefused(answer)
        return {**payload, BESIDE: {**fields, "memory_id": answer.memory_id}}
