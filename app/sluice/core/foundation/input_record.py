"""One record as it arrived from an input topic, and the ids of the decisions on it.

An input record is the raw bytes and the broker's coordinates of them. Ids are made from the coordinates: a
redelivery gives the same id, and no index is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sluice_topics.catalog import MEMORY_WRITES

if TYPE_CHECKING:
    from sluice.core.foundation.sealed_input import OpenedInput

_DECISION_PARTS = 3


def verdict_id(decision_id: str) -> str:
    """The one verdict on an action."""
    return "verdict:" + decision_id


def make_resolved_id(decision_id: str) -> str:
    """The resolved verdict that an approver's review leads to; of the review's coordinates."""
    return "resolved:" + decision_id


def escalation_id(decision_id: str) -> str:
    """The one escalation that a verdict may open."""
    return "escalation:" + decision_id


def outcome_id(decision_id: str, index: int = 0) -> str:
    """The id of a settlement; `index` counts the accounts if an outcome settles in several."""
    return f"outcome:{decision_id}" if index == 0 else f"outcome:{decision_id}:{index + 1}"


def refusal_id(decision_id: str) -> str:
    """The id of an input's refusal."""
    return "refusal:" + decision_id


def dead_letter_id(decision_id: str) -> str:
    """The dead letter of an input."""
    return "dead_letter:" + decision_id


def memory_id(decision_id: str) -> str:
    """The id of a memory, whatever the decision on its write."""
    return "memory:" + decision_id


def quality_id(decision_id: str, index: int = 0) -> str:
    """The decision on one item of a retrieval; `index` counts its items from 0."""
    return f"quality:{decision_id}" if index == 0 else f"quality:{decision_id}:{index + 1}"


def make_served_id(decision_id: str) -> str:
    """The id of the record of what an agent may see of a retrieval."""
    return "served:" + decision_id


def report_event_id(decision_id: str) -> str:
    """The id of the record that says how far decisions cover a store's report."""
    return "report:" + decision_id


def mandate_event_id(decision_id: str) -> str:
    """The id of the record that says that a mandate counts."""
    return "mandate:" + decision_id


def read_coordinates(an_id: str) -> tuple[str, int, int]:
    """Topic, partition and offset of the input from which an id is made; the id may begin with its kind.

    Raises ValueError for any other text.
    """
    parts = an_id.split(":")
    topic, partition, offset = parts[1:4] if len(parts) > _DECISION_PARTS else parts
    if not topic or not (partition.isdecimal() and offset.isdecimal()):
        raise ValueError(f"no id of a decision: {an_id}")
    return topic, int(partition), int(offset)


def is_memory_id(text: str) -> bool:
    """Whether this is exactly the id of a memory: "…:0:05" is not, and an id with more text after it is
    not."""
    try:
        topic, partition, offset = read_coordinates(text)
    except ValueError:
        return False
    return topic == MEMORY_WRITES and text == memory_id(f"{topic}:{partition}:{offset}")


Novelty = Literal["new", "replayed", "forgotten"]


class SignedFor(NamedTuple):
    """The registered delegate whose key signed for an agent: its id, and its entry's key and hash."""

    id: str
    entry: str
    entry_hash: str


class InputSignature(NamedTuple):
    """What the check of an agent's signature came to. `refusal`: a code and what it names, where the input
    does not count; the other fields are those of a signature that is valid. `window_ms`: how far its time may
    be from the broker's.

    `novelty`: what the session says of the nonce: it is "new", it came before ("replayed"), or it is older
    than what is remembered ("forgotten"). A decision records it, and a rerun takes it from there.
    """

    refusal: str | None
    key_id: str | None = None
    signed_at_ms: int = 0
    nonce: str = ""
    window_ms: int = 0
    novelty: Novelty = "new"
    delegate: SignedFor | None = None

    def replace_novelty(self, novelty: Novelty) -> InputSignature:
        """With what the session says. A forgotten one counts no more; a replayed one where its kind of input
        does not answer repeats."""
        if novelty == self.novelty:
            return self
        if novelty != "forgotten" or self.refusal is not None:
            return self._replace(novelty=novelty)
        return self._replace(novelty=novelty, refusal=FORGOTTEN)

    @property
    def is_new(self) -> bool:
        """Whether it is valid, and of a record that did not come before."""
        return self.refusal is None and self.novelty == "new"

    def find_refusal(self) -> str | None:
        """Why it does not count where no repeat of it is known: the refusal, or that it came before."""
        return self.refusal or (REPLAYED if self.novelty == "replayed" else None)

    def make_fields(self) -> dict[str, Any] | None:
        """The `signature` of a decision; None where no valid one was found."""
        if self.key_id is None:
            return None
        recorded: dict[str, Any] = {} if self.delegate is None else {"delegate": self.delegate.id}
        return {
            **recorded,
            "key_id": self.key_id,
            "nonce": self.nonce,
            "novelty": self.novelty,
            "signed_at_ms": self.signed_at_ms,
        }

    def entries(self, used: dict[str, str]) -> dict[str, str]:
        """The registry entries that a decision used, with the delegate's where one signed."""
        if self.delegate is None:
            return used
        return dict(sorted({**used, self.delegate.entry: self.delegate.entry_hash}.items()))


FORGOTTEN = "stale: signed before what the session still remembers of this agent"
REPLAYED = "replayed: a record with this nonce was decided before"


@dataclass(frozen=True, slots=True)
class InputRecord:
    """`topic` is the base name, without prefix; `timestamp_ms` is the broker's LogAppendTime, UTC.

    `waited_ms`: the time from its arrival to the start of its decision, by the worker's clock. Only an action
    that names a deadline has it: the decision records it, and a rerun takes it from there.
    `signature_header`: that of sluice_topics/agent_signature.py as it came; `signature`: what its check came
    to, None until it was checked and for an agent that does not sign.
    `agent_header`: the agent's id in X-Mnemom-Agent, for an action in seed 000's form that names none.
    `opened`: its sealed values, opened; None where it has none. For a review: those of what it is about.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    traceparent: str | None = None
    waited_ms: int = 0
    signature_header: bytes | None = None
    signature: InputSignature | None = None
    agent_header: str | None = None
    opened: OpenedInput | None = field(default=None, repr=False, compare=False)
    _digest: str = field(init=False, default="", repr=False, compare=False)

    def replace_signature(self, signature: InputSignature) -> InputRecord:
        """The input record with what came of its signature."""
        return self._replace(signature, self.opened)

    def replace_opened(self, opened: OpenedInput) -> InputRecord:
        """The input record with its sealed values opened."""
        return self._replace(self.signature, opened)

    def _replace(self, signature: InputSignature | None, opened: OpenedInput | None) -> InputRecord:
        return InputRecord(
            self.topic,
            self.partition,
            self.offset,
            self.timestamp_ms,
            self.key,
            self.value,
            self.traceparent,
            self.waited_ms,
            self.signature_header,
            signature,
            self.agent_header,
            opened,
        )

    @property
    def digest(self) -> str:
        """ "sha256:" and the hex digest of the raw value bytes; an absent value counts as no bytes."""
        digest: str = self._digest or self.coordinates()["digest"]
        return digest

    @property
    def decision_id(self) -> str:
        """An id that is the same for every delivery of this record; ids of decisions are built from it."""
        return f"{self.topic}:{self.partition}:{self.offset}"

    def coordinates(self) -> dict[str, Any]:
        """The `input` field of a ledger record."""
        if not self._digest:
            object.__setattr__(self, "_digest", "sha256:" + sha256(self.value or b"").hexdigest())
        return {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp_ms,
            "digest": self._digest,
        }
