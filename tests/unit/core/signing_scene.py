"""Agents that sign: their keys, their entries, and their inputs with and without signatures."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sluice.core.rerun.walk import read_decision
from sluice_topics.agent_signature import AgentSignature
from sluice_topics.audience import UNNAMED, SignedInput
from sluice_topics.catalog import ACTIONS, MEMORY_WRITES, OUTCOMES, QUALITY_DECISIONS, RETRIEVALS
from tests.unit.core.rerun.reruns import Case, memory_write
from tests.unit.core.scene import MINUTE, action, entry, outcome, public_key

if TYPE_CHECKING:
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.state.decision import Decision
    from sluice.core.state.session import SessionState

WINDOW_MS = 5 * MINUTE
OWN, NEXT, CHILD, STRANGE = (Ed25519PrivateKey.from_private_bytes(bytes([n] * 32)) for n in (1, 2, 3, 4))


def key_id(key: Ed25519PrivateKey) -> str:
    """The id of the key's public half."""
    return sha256(key.public_key().public_bytes_raw()).hexdigest()


def key_entry(key: Ed25519PrivateKey, **bounds: str) -> dict[str, str]:
    """The key as an agent's entry has it."""
    return {"public_key": public_key(key), **bounds}


def make_signing_agent(name: str, *keys: dict[str, str], revision: int = 1, **spec: Any) -> dict[str, Any]:
    """The entry of an agent that signs."""
    return entry("agent", name, revision, **{"tenant_id": "acme", "tier": "T3", "keys": [*keys], **spec})


SIGNERS = (
    make_signing_agent("signer", key_entry(OWN)),
    make_signing_agent("colleague", key_entry(NEXT)),
)


def retrieval(**fields: Any) -> dict[str, Any]:
    """A retrieval of one item."""
    items = [{"item_id": "i-1", "body": "open orders"}]
    return {"request_id": "r-1", "agent_id": "signer", "session_id": "s-1", "items": items, **fields}


MADE = {ACTIONS: action, MEMORY_WRITES: memory_write, RETRIEVALS: retrieval, OUTCOMES: outcome}
ID = {ACTIONS: "action_id", MEMORY_WRITES: "write_id", RETRIEVALS: "request_id", OUTCOMES: "action_id"}


def sign(
    input_record: InputRecord, key: Ed25519PrivateKey, nonce: str, at_ms: int | None = None
) -> InputRecord:
    """The input record under a signature of this key."""
    at = input_record.timestamp_ms if at_ms is None else at_ms
    signed = SignedInput(
        input_record.topic, input_record.key or b"", key_id(key), at, nonce, input_record.value or b""
    )
    message = signed.message(UNNAMED)
    header = AgentSignature(key_id(key), at, nonce, key.sign(message)).header()
    return replace(input_record, signature_header=header)


@dataclass
class Signing(Case):
    """A case whose agents `signer` and `colleague` sign."""

    entries: tuple[dict[str, Any], ...] = SIGNERS
    items: list[dict[str, Any]] = field(default_factory=list)
    signed: int = 0

    def make(self, topic: str, agent: str = "signer", **fields: Any) -> InputRecord:
        """The next input of an agent, without a signature."""
        named = "reported_by" if topic == OUTCOMES else "agent_id"
        return self.next_input_record(topic, MADE[topic](**{named: agent, **fields}))

    def sign(
        self, input_record: InputRecord, key: Ed25519PrivateKey = OWN, at_ms: int | None = None
    ) -> InputRecord:
        """An input record under a signature with a new nonce."""
        self.signed += 1
        return sign(input_record, key, f"nonce-{self.signed:012d}", at_ms)

    def again(self, input_record: InputRecord) -> InputRecord:
        """The same record at the next offset, now."""
        self._offset += 1
        return replace(input_record, offset=self._offset, timestamp_ms=self.now)

    def put(self, input_record: InputRecord) -> Decision:
        """Decide on an input record; its records are kept."""
        decision = self._replay.take(input_record)
        self.record(input_record, decision)
        for one in decision.records:
            if one.topic == QUALITY_DECISIONS:
                self.items.append(read_decision(one.topic, self._chain.link(one.body)))
        return decision

    def verdict(self, input_record: InputRecord) -> dict[str, Any]:
        """The verdict on an action."""
        self.put(input_record)
        return self.verdicts[-1]

    def decide(self, input_record: InputRecord) -> Decision:
        """Decide on an input record; its records are not kept."""
        return self._replay.take(input_record)

    def session(self, name: str = "s-1") -> SessionState:
        """A session as it is now."""
        return self._replay.session(name.encode())

    def totals(self, session: str = "s-1") -> tuple[int, int]:
        """The tenant's rows and actions."""
        account = self.session(session).accounts.get("acme")
        return (0, 0) if account is None else (account.rows, account.actions)


def answer_of(decision: Decision) -> dict[str, Any]:
    """The record that answers an input: the first."""
    body: dict[str, Any] = json.loads(json.dumps(decision.records[0].body, default=list))
    return body
