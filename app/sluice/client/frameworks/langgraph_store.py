"""A LangGraph store behind the gate, which covers LangMem: it keeps and gives what the gate lets pass.

The store keeps beside each value what the gate was told of it, since a read is judged by that.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import TYPE_CHECKING, Any

from langgraph.config import get_config
from langgraph.store.base import BaseStore, Item, PutOp, SearchItem, SearchOp

from sluice.client.answers import ClientError
from sluice.client.async_client import AsyncGateClient
from sluice.client.frameworks.gated_items import (
    BESIDE,
    FoundItem,
    MemoryRefused,
    build_items,
    describe_admitted,
    describe_now,
    read_served,
    strip_beside,
)
from sluice.client.guarded_calls import resolve_session_id
from sluice.client.sync_client import GateClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sluice.client.answers import MemoryAnswer


LONGEST_NAME = 220
"""Characters of a namespace and key: a write's id has both, and 33 more."""


class GatedStore(BaseStore):
    """Writes are asked about with `remember`, and what `get` and `search` find with `retrieve`.

    What the gate does not admit is not stored, and raises MemoryRefused once the batch's other operations
    are done; what it does not serve is not there. Deletions and the list of namespaces pass unasked. The
    session is the graph's thread, or that of `in_session`.
    """

    def __init__(
        self,
        store: BaseStore,
        gate: AsyncGateClient | GateClient,
        *,
        source: Mapping[str, Any],
        describe: Callable[[Any], Mapping[str, Any]],
    ) -> None:
        """`gate`: an AsyncGateClient for the methods that are awaited, a GateClient for the others.
        `source`: of what is written, {"id": …, "type": …}. `describe`: the quality fields of a value, by
        wire names."""
        self._store = store
        self._gate = gate
        self._source = source
        self._describe = describe
        self.supports_ttl = store.supports_ttl
        self.ttl_config = store.ttl_config

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """See the class."""
        gate = self._gate
        if not isinstance(gate, GateClient):
            raise ClientError("GatedStore has an AsyncGateClient", "Give it a GateClient, or await `abatch`")
        wanted, session = list(ops), _find_session()
        writes = self._list_writes(wanted)
        answers = {n: gate.remember(session_id=session, **write) for n, write in writes.items()}
        results = self._store.batch(_replace_writes(wanted, writes, answers))
        items = {n: build_items(_list_found(result)) for n, result in enumerate(results)}
        for n, asked in items.items():
            answer = gate.retrieve(asked, session_id=session) if asked else None
            results[n] = _select(results[n], read_served(asked, answer))
        return _refuse(results, answers)

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        """See the class."""
        gate = self._gate
        if not isinstance(gate, AsyncGateClient):
            raise ClientError("GatedStore has a GateClient", "Give it an AsyncGateClient, or use `batch`")
        wanted, session = list(ops), _find_session()
        writes = self._list_writes(wanted)
        decisions = await asyncio.gather(
            *(gate.remember(session_id=session, **write) for write in writes.values())
        )
        answers = dict(zip(writes, decisions, strict=True))
        results = await self._store.abatch(_replace_writes(wanted, writes, answers))
        items = {n: build_items(_list_found(result)) for n, result in enumerate(results)}
        for n, asked in items.items():
            answer = await gate.retrieve(asked, session_id=session) if asked else None
            results[n] = _select(results[n], read_served(asked, answer))
        return _refuse(results, answers)

    def put_admitted(self, namespace: tuple[str, ...], key: str, record: Mapping[str, Any]) -> None:
        """Store what a reviewer has admitted after it was held: a record of gate.memory.admitted. The gate is
        not asked; a read is judged as any other. Raises ClientError for another record."""
        self._store.put(namespace, key, _read_admitted(record))

    async def aput_admitted(self, namespace: tuple[str, ...], key: str, record: Mapping[str, Any]) -> None:
        """See `put_admitted`."""
        await self._store.aput(namespace, key, _read_admitted(record))

    def _list_writes(self, ops: Sequence[Any]) -> dict[int, dict[str, Any]]:
        """By place in the batch, the arguments of `remember`."""
        return {
            n: {
                "content": _write_text(op.value),
                "source": self._source,
                "write_id": _name_write(op),
                **describe_now(self._describe(op.value)),
            }
            for n, op in enumerate(ops)
            if isinstance(op, PutOp) and op.value is not None
        }


def _replace_writes(
    ops: Sequence[Any], writes: Mapping[int, Mapping[str, Any]], answers: Mapping[int, MemoryAnswer]
) -> list[Any]:
    """The operations with what the gate was told beside each value. A refused write reads nothing instead, so
    that every operation keeps its place."""
    replaced = []
    for n, op in enumerate(ops):
        if n not in writes:
            replaced.append(op)
        elif answers[n].action == "allow":
            beside = describe_now(writes[n]) | {"memory_id": answers[n].memory_id}
            judged = json.loads(writes[n]["content"])  # the caller's own value may have changed since
            replaced.append(op._replace(value={**judged, BESIDE: beside}))
        else:
            replaced.append(SearchOp(op.namespace, limit=0))
    return replaced


def _read_admitted(record: Mapping[str, Any]) -> dict[str, Any]:
    beside = describe_admitted(record)
    return {**json.loads(record["content"]), BESIDE: beside}


def _list_found(result: Any) -> list[FoundItem]:
    """The items of an operation's result."""
    items = [result] if isinstance(result, Item) else result if isinstance(result, list) else []
    return [
        FoundItem(_name_item(item), _write_text(strip_beside(item.value)), item.value.get(BESIDE, {}))
        for item in items
        if isinstance(item, Item)
    ]


def _select(result: Any, bodies: Sequence[str | None]) -> Any:
    """The result with what the gate serves, as it serves it."""
    if isinstance(result, Item):
        return None if bodies[0] is None else _serve(result, bodies[0])
    if isinstance(result, list) and bodies:
        pairs = zip(result, bodies, strict=True)
        return [_serve(item, body) for item, body in pairs if body is not None]
    return result


def _serve(item: Any, body: str) -> Any:
    score = {"score": item.score} if isinstance(item, SearchItem) else {}
    return type(item)(
        namespace=item.namespace,
        key=item.key,
        value=json.loads(body),
        created_at=item.created_at,
        updated_at=item.updated_at,
        **score,
    )


def _refuse(results: list[Any], answers: Mapping[int, MemoryAnswer]) -> list[Any]:
    for n, answer in answers.items():
        if answer.action != "allow":
            raise MemoryRefused(answer)
        results[n] = None
    return results


def _name_item(item: Item | PutOp) -> str:
    """Namespace and key. Whoever reads the item reads them too, so the gate does."""
    return ":".join((*item.namespace, item.key))


def _name_write(op: PutOp) -> str:
    """The id of a write, by which the gate reads namespace and key before anything is stored. Raises
    ClientError where they are too long for it."""
    name = _name_item(op)
    if len(name) > LONGEST_NAME:
        raise ClientError(f"the namespace and key {name[:40]}… are too long", "Give the item a shorter key")
    return f"{name}#{uuid.uuid4().hex}"


def _write_text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _find_session() -> str:
    """The thread of the graph that runs, or the session of `in_session`."""
    try:
        thread = get_config().get("configurable", {}).get("thread_id")
    except RuntimeError:  # no graph runs
        thread = None
    return resolve_session_id(thread)
