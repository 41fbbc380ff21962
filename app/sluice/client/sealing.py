"""Personal data is sealed before an input is published, signed, digested or written to a journal.

Which fields, and with whose keys, says something that follows the signed policy and the topic of keys; it is
handed to the client (sluice.bootstrap.followed_sealing), which imports no policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sluice.client.input_kinds import ACTIONS, MEMORY_WRITES, OUTCOMES, RETRIEVALS

if TYPE_CHECKING:
    from collections.abc import Iterator

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

    async def open(self, kind: SealedKind, agent_id: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """What was sealed of an input of this agent, opened again. Raises ClientError, also where a key was
        erased or is another tenant's."""


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

    async def open(self, kind: SealedKind, agent_id: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """The document as it is."""
        del kind, agent_id
        return dict(document)


class SealedRecord(NamedTuple):
    """An input as it may be published, and what was sealed of it: plain values by their tokens."""

    fields: dict[str, Any]
    plain: Mapping[str, Any]

    def restore(self, value: Any) -> Any:
        """A value of an answer, with what this input had sealed put back. Tokens of others stay: nobody gets
        them opened by sending them in."""
        if isinstance(value, str):
            return self.plain.get(value, value)
        if isinstance(value, dict):
            return {name: self.restore(member) for name, member in value.items()}
        return [self.restore(member) for member in value] if isinstance(value, list) else value


async def seal_record(
    sealing: SealingView, kind: InputKind, agent_id: str, record: Mapping[str, Any]
) -> SealedRecord:
    """The record of an input as it may be published. Raises ClientError."""
    sealed_kind = SEALED_KINDS.get(kind.topic)
    if sealed_kind is None or isinstance(sealing, NoSealing):
        return SealedRecord(dict(record), {})
    sealed = await sealing.seal(sealed_kind, agent_id, record)
    return SealedRecord(sealed, dict(_list_sealed(record, sealed)))


def _list_sealed(plain: Any, sealed: Any) -> Iterator[tuple[str, Any]]:
    """Each token that stands in the place of a plain value, with this."""
    if isinstance(sealed, str):
        if sealed != plain:
            yield sealed, plain
    elif isinstance(sealed, Mapping):
        for name, member in sealed.items():
            yield from _list_sealed(plain[name], member)
    elif isinstance(sealed, list | tuple):
        for before, member in zip(plain, sealed, strict=True):
            yield from _list_sealed(before, member)
