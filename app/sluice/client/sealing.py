"""Personal data is sealed before an input is published, signed, digested or written to a journal.

Which fields, and with whose keys, says something that follows the signed policy and the topic of keys; it is
handed to the client (sluice.bootstrap.followed_sealing), which imports no policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from sluice.client.input_kinds import ACTIONS, MEMORY_WRITES, OUTCOMES, RETRIEVALS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.client.input_kinds import InputKind
    from sluice_topics.sealing import InputKind as SealedKind

SEALED_KINDS: dict[str, SealedKind] = {
    ACTIONS: "action",
    OUTCOMES: "outcome",
    MEMORY_WRITES: "write",
    RETRIEVALS: "retrieval",
}
"""What sealing calls the inputs of a topic; of other topics nothing is sealed."""


class SealingView(Protocol):
    """Which fields are personal, and persons' keys. On the client's event loop."""

    async def start(self) -> None:
        """Read policy and keys. Raises KafkaError."""

    async def close(self) -> None:
        """Give up the connections."""

    async def seal(self, kind: SealedKind, agent_id: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """An input of this agent, by wire names, with its personal values sealed. Raises ClientError where
        that is not possible now: such an input must not be published."""

    async def open(self, kind: SealedKind, document: Mapping[str, Any]) -> dict[str, Any]:
        """What was sealed of an input of this kind, opened again. Raises ClientError, also where a key was
        erased."""


class NoSealing:
    """Of a client that seals nothing."""

    async def start(self) -> None:
        """There is nothing to read."""

    async def close(self) -> None:
        """Nothing is held."""

    async def seal(self, kind: SealedKind, agent_id: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """The input as it is."""
        del kind, agent_id
        return dict(document)

    async def open(self, kind: SealedKind, document: Mapping[str, Any]) -> dict[str, Any]:
        """The document as it is."""
        del kind
        return dict(document)


async def seal_record(
    sealing: SealingView, kind: InputKind, agent_id: str, record: Mapping[str, Any]
) -> dict[str, Any]:
    """The record of an input as it may be published. Raises ClientError."""
    sealed_kind = SEALED_KINDS.get(kind.topic)
    return dict(record) if sealed_kind is None else await sealing.seal(sealed_kind, agent_id, record)


async def open_served(sealing: SealingView, record: Mapping[str, Any]) -> dict[str, Any]:
    """An answer to a retrieval with the bodies of its items opened, for the agent alone. Raises
    ClientError."""
    if "items" not in record:
        return dict(record)
    bodies = [{"body": item.get("body")} for item in record["items"]]
    opened = (await sealing.open("retrieval", {"items": bodies}))["items"]
    return {
        **record,
        "items": [
            {**item, **({"body": body["body"]} if "body" in item else {})}
            for item, body in zip(record["items"], opened, strict=True)
        ],
    }
