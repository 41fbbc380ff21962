"""The public keys of an agent that signs, and the check of one input's signature.

If an agent's entry has `keys`, its inputs count only if one of these keys signed them
(sluice_topics/agent_signature.py). The time is the broker's time of the input. Several keys may be valid at
the same time, so that a key can be replaced without a gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, Self

from cryptography.exceptions import InvalidSignature
from pydantic import Field, model_validator

from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.input_record import InputSignature, SignedFor
from sluice.core.foundation.strict import Instant, Name, StrictModel
from sluice_topics.agent_signature import read_signature
from sluice_topics.audience import UNNAMED, Audience, SignedInput
from sluice_topics.records.base import Role

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from sluice.core.foundation.input_record import InputRecord

UNSIGNED_AGENT = "unsigned_agent"
"""The code of an input without a valid signature from an agent that must sign."""


class AgentKeySpec(StrictModel):
    """`public_key`: the 32 raw bytes of an Ed25519 key, base64; its id is the hex SHA-256 of these bytes. It
    is valid from `valid_from` until before `valid_until` (null: no bound), and no longer from `revoked_at`
    on."""

    public_key: str
    valid_from: Instant | None = None
    valid_until: Instant | None = None
    revoked_at: Instant | None = None

    @model_validator(mode="after")
    def _check_span(self) -> Self:
        if None not in (self.valid_from, self.valid_until) and self.valid_until <= self.valid_from:  # type: ignore[operator]
            raise ValueError("valid_until must be later than valid_from")
        return self


AgentKeyList = Annotated[list[AgentKeySpec], Field(min_length=1, max_length=8)]
WindowSeconds = Annotated[int, Field(ge=1, le=3600)]
ApproverRole = Role | Literal["reviewer"]
"""A reviewer decides on quarantined memories, the others on escalations."""


class DelegateSpec(StrictModel):
    """A gateway that signs for the agents of these `tenants`: it knows them by their API keys. An input that
    it signed counts as if the agent had signed it, and the decision names the delegate. `keys` are like those
    of an agent. With `agents` false it signs for no agent.

    `roles`: it signs answers of the people who log in to it, where one of these roles may give the answer.
    The person's own bounds count as well. Two approvers must sign an entry that gives it more roles, or with
    roles more tenants or keys.
    """

    tenants: Annotated[list[Name], Field(min_length=1, max_length=1024)]
    keys: AgentKeyList
    agents: bool = True
    roles: list[ApproverRole] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_purpose(self) -> Self:
        if not self.agents and not self.roles:
            raise ValueError("it signs for nobody: with agents false it needs roles")
        return self


class AgentKey(NamedTuple):
    """A key of an agent; times in ms since 1970, None for no bound."""

    id: str
    public_key: Ed25519PublicKey
    from_ms: int | None
    until_ms: int | None
    revoked_ms: int | None

    def object_to_use(self, at_ms: int) -> str | None:
        """Why the key is not valid at a time, in ms; None if it is."""
        if self.revoked_ms is not None and at_ms >= self.revoked_ms:
            return f"revoked_key: {self.id} since {rfc3339(self.revoked_ms)}"
        if self.until_ms is not None and at_ms >= self.until_ms:
            return f"expired_key: {self.id} counted until {rfc3339(self.until_ms)}"
        if self.from_ms is not None and at_ms < self.from_ms:
            return f"early_key: {self.id} counts from {rfc3339(self.from_ms)}"
        return None

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether this key signed exactly these bytes."""
        try:
            self.public_key.verify(signature, message)
        except InvalidSignature:
            return False
        return True


class Delegate(NamedTuple):
    """A gateway that may sign in these tenants: for agents where `agents`, and for people the answers that
    `roles` may give. `key` is "kind/id@revision"."""

    id: str
    key: str
    hash: str
    tenants: frozenset[str]
    keys: tuple[AgentKey, ...]
    agents: bool = True
    roles: frozenset[str] = frozenset()


def find_key(keys: Iterable[AgentKey], key_id: str, at_ms: int) -> AgentKey | str:
    """The key with this id, or why there is none or it is not valid at this time."""
    key = next((agent_key for agent_key in keys if agent_key.id == key_id), None)
    if key is None:
        return f"unknown_key: {key_id}"
    return key.object_to_use(at_ms) or key


def check_signature(
    keys: Collection[AgentKey],
    window_ms: int,
    input_record: InputRecord,
    delegates: Iterable[Delegate] = (),
    audience: Audience = UNNAMED,
) -> InputSignature:
    """Check the signature of an agent's input, which must have been made for this audience. Repeats of a
    nonce are checked elsewhere (state/nonces.py).

    `delegates` may sign for the agent; they are asked only if none of its own keys is named.
    """
    raw = input_record.signature_header
    if raw is None:
        return InputSignature("missing: the record has no header sluice-signature")
    signature = read_signature(raw)
    if signature is None:
        return InputSignature("malformed: the header sluice-signature is not of the form that is read")
    now = input_record.timestamp_ms
    delegate = None
    if all(agent_key.id != signature.key_id for agent_key in keys):
        named = (
            candidate for candidate in delegates if any(key.id == signature.key_id for key in candidate.keys)
        )
        delegate = next(named, None)
    key = find_key(keys if delegate is None else delegate.keys, signature.key_id, now)
    if isinstance(key, str):
        return InputSignature(key)
    if abs(now - signature.signed_at_ms) > window_ms:
        return InputSignature(
            f"stale: signed at {signature.signed_at_ms}, came at {now}, more than {window_ms} ms apart"
        )
    signed = SignedInput(
        input_record.topic,
        input_record.key or b"",
        signature.key_id,
        signature.signed_at_ms,
        signature.nonce,
        input_record.value or b"",
    )
    if not key.verifies(signature.signature, signed.message(audience)):
        return InputSignature(
            f"bad_signature: not of {signature.key_id} over this record for installation "
            f"{audience.installation!r} and topic prefix {audience.topic_prefix!r}"
        )
    by = None if delegate is None else SignedFor(delegate.id, delegate.key, delegate.hash)
    return InputSignature(
        None, signature.key_id, signature.signed_at_ms, signature.nonce, window_ms, delegate=by
    )
