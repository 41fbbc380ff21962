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
    from sluice_topics.json_text import Step
    from sluice_topics.sealing import InputKind as SealedKind

SEALED_KINDS: dict[str, SealedKind] = {
    ACTIONS: "action",
    OUTCOMES: "outcome",
    MEMORY_WRITES: "write",
    RETRIEVALS: "retrieval",
}
"""What sealing calls the inputs of a topic; of other topics nothing is sealed."""


_FORM = ("proposed_action", "toolName", "tool_name")
"""Of an action's document: what says where its parameters are."""


class SealingView(Protocol):
    """Which fields are personal, and persons' keys. On the client's event loop."""

    async def start(self) -> None:
        """Read policy and keys. Raises KafkaError."""

    async def close(self) -> None:
        """Give up the connections."""

    async def seal(
        self,
        kind: SealedKind,
        agent_id: str,
        document: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """An input of this agent, by wire names, with its personal values sealed. `before`: the input that it
        replaces, which names the person where it names nobody. Raises ClientError where that is not possible
        now: such an input must not be published."""

    def find_unsealed(
        self, kind: SealedKind, agent_id: str, document: Mapping[str, Any]
    ) -> tuple[Step, ...] | None:
        """The place of a value of an input of this agent that must be sealed, and is not; None: there is
        none. Raises ClientError where that is not known now."""

    async def open(self, kind: SealedKind, agent_id: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """What was sealed of an input of this agent, opened again. Raises ClientError, also where a key was
        erased or is another tenant's."""


class NoSealing:
    """Of a client that seals nothing."""

    async def start(self) -> None:
        """There is nothing to read."""

    async def close(self) -> None:
        """Nothing is held."""

    async def seal(
        self,
        kind: SealedKind,
        agent_id: str,
        document: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The input as it is."""
        del kind, agent_id, before
        return dict(document)

    def find_unsealed(
        self, kind: SealedKind, agent_id: str, document: Mapping[str, Any]
    ) -> tuple[Step, ...] | None:
        """Nothing must be sealed."""
        del kind, agent_id, document
        return None

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


async def seal_narrowed(
    sealing: SealingView,
    escalation: Mapping[str, Any],
    action: Mapping[str, Any],
    parameters: Mapping[str, Any],
) -> dict[str, Any]:
    """Parameters by which an approver narrows an agent's action, as they may be signed and published: sealed
    as if the action had had them, at the same places. `escalation`: a record of it, with agent and session;
    `action`: its document. Raises ClientError."""
    from sluice_topics.record_reading import replace_parameters  # noqa: PLC0415 - loads all records

    before = {**action, "session_id": escalation["session_id"]}  # seed 000's form may have none
    narrowed = replace_parameters(before, parameters)
    sealed = await sealing.seal("action", str(escalation["agent_id"]), narrowed, before)
    return _take_parameters(sealed, parameters)


async def may_open_narrowed(
    sealing: SealingView,
    escalation: Mapping[str, Any],
    action: Mapping[str, Any],
    parameters: Mapping[str, Any],
    *approved: Any,
) -> bool:
    """Whether each token in narrowed parameters is one of the action itself (or of `approved`), or what
    `seal_narrowed` makes there: else an approver could copy a token from another action, and have it opened.
    Raises ClientError."""
    from sluice_topics.sealing import find_foreign, put_from  # noqa: PLC0415 - loads cryptography

    foreign = [steps for steps, _ in find_foreign(parameters, action, *approved)]
    if not foreign:
        return True
    opened = await open_narrowed(sealing, str(escalation["agent_id"]), action, parameters)
    plain = put_from(parameters, opened, foreign)
    return await seal_narrowed(sealing, escalation, action, plain) == parameters


async def open_narrowed(
    sealing: SealingView, agent_id: str, action: Mapping[str, Any], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """What was sealed of such parameters, opened again. Raises ClientError, also where a key was erased."""
    from sluice_topics.record_reading import replace_parameters  # noqa: PLC0415 - as above

    narrowed = replace_parameters({name: action[name] for name in _FORM if name in action}, parameters)
    return _take_parameters(await sealing.open("action", agent_id, narrowed), parameters)


def _take_parameters(action: Mapping[str, Any], instead: Mapping[str, Any]) -> dict[str, Any]:
    from sluice_topics.record_reading import find_call  # noqa: PLC0415 - as above

    call = find_call(action)
    return dict(instead if call is None else call[1])


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
