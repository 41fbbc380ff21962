"""What the stores and retrievers of frameworks ask the gate, and what they make of its answer."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.client.answers import ClientError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sluice.client.answers import MemoryAnswer, RetrievalAnswer

BESIDE = "_sluice"
"""The key under which a store keeps, in a value or its metadata, what the gate was told of it."""
QUALITY = ("content_class", "timestamp", "confidence_score", "provenance_uri", "provenance_hash")
"""What the gate wants to know of a memory and of an item (docs/fields.md)."""
ADMITTED = "sluice/admitted_memory/v1"
"""The schema of gate.memory.admitted."""


class MemoryRefused(ClientError):
    """A memory is rejected, or held for a reviewer, so it was not stored. `answer` is the decision."""

    def __init__(self, answer: MemoryAnswer) -> None:
        held = answer.action == "quarantine"
        super().__init__(
            f"the memory was not stored: {answer.action}: {answer.reason}",
            "A reviewer may admit it" if held else "Do not write it again as it is",
        )
        self.answer = answer

    @property
    def for_model(self) -> str:
        """What a model that wrote the memory should read."""
        return f"{self.message}. {self.to_do}."


class FoundItem(NamedTuple):
    """An item that a store found. `fields`: those of QUALITY that are known; others are left out."""

    item_id: str
    body: str
    fields: Mapping[str, Any]


def describe_now(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The quality fields of what is written now."""
    quality = {name: fields[name] for name in QUALITY if fields.get(name) is not None}
    return {"timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"), **quality}


def describe_admitted(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a store keeps beside a memory of gate.memory.admitted. Raises ClientError for another record."""
    if record.get("schema") != ADMITTED:
        raise ClientError("the record is no admitted memory", "Give it one of gate.memory.admitted")
    quality = {name: record[name] for name in QUALITY if record.get(name) is not None}
    return quality | {"memory_id": record["memory_id"]}


def strip_beside(value: Mapping[str, Any]) -> dict[str, Any]:
    """A value as it was before a store kept BESIDE in it."""
    return {name: member for name, member in value.items() if name != BESIDE}


def build_items(hits: Iterable[FoundItem]) -> list[dict[str, Any]]:
    """The items of a retrieval, in this order, each under an id of its own."""
    names: set[str] = set()
    times: Counter[str] = Counter()
    items = []
    for hit in hits:
        name = hit.item_id
        while name in names:  # also where a store names an item as this names a repeated one
            times[hit.item_id] += 1
            name = f"{hit.item_id}#{times[hit.item_id] + 1}"
        names.add(name)
        quality = {key: hit.fields[key] for key in QUALITY if hit.fields.get(key) is not None}
        items.append({"item_id": name, "body": hit.body, **quality})
    return items


def read_served(items: list[dict[str, Any]], answer: RetrievalAnswer | None) -> list[str | None]:
    """For each item of `build_items`, the body that the gate serves; None: it serves none."""
    served = {} if answer is None else {item["item_id"]: item.get("body") for item in answer.items}
    return [served.get(item["item_id"]) for item in items]
