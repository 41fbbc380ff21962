"""One partition where memories are written and reviewed: inputs go in, decisions are applied at once."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sluice.core.decide.replay import decide
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.requests import Answer
from sluice.core.registry.keys import SigningKey
from sluice.core.state.book import Book
from sluice.core.state.decision import Shared
from sluice.core.state.session import SessionState, session_key
from sluice.core.trust.signing import sign_review
from sluice_topics.audience import Audience
from sluice_topics.catalog import MEMORY_WRITES, REVIEWS
from tests.unit.core.scene import LIMITS, START, bundle, entry, only, point, public_key

if TYPE_CHECKING:
    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.foundation.requests import Request
    from sluice.core.policy.bundles import Bundle
    from sluice.core.state.decision import Decision
    from sluice.core.state.history import History, SourceName

PARTITION = 3
HOUR = 3_600_000
CAROL = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
REVIEWERS = (
    entry("approver", "carol", public_key=public_key(CAROL), roles=["reviewer"]),
    entry("approver", "globex-only", public_key=public_key(CAROL), roles=["reviewer"], tenants=["globex"]),
    entry("approver", "no-reviewer", public_key=public_key(CAROL), roles=["vp"]),
    entry("approver", "gone", public_key=public_key(CAROL), roles=["reviewer"], active=False),
    entry(
        "approver",
        "over",
        public_key=public_key(CAROL),
        roles=["reviewer"],
        valid_until="2025-11-21T13:00:00.000Z",
    ),
    entry("approver", "operator", public_key=public_key(CAROL), roles=["reviewer"]),
    entry("approver", "boss", public_key=public_key(CAROL), roles=["reviewer"]),
    entry("agent", "owned", tenant_id="acme", tier="T3", owner="boss"),
)
"""Carol may review everybody's memories; each of the others lacks something."""
STRANGER = "a memory that nobody knows"
"""As a parent it has a write wait for a reviewer, whatever the content."""


def _pattern(name: str, weight: str, words: str) -> dict[str, Any]:
    return {
        "id": name,
        "kind": "instruction_override",
        "weight": weight,
        "reason": "orders",
        "source": "test",
        "any": [words],
    }


CONTENT = {
    "findings": [
        _pattern("order.weak", "weak", "kindly"),
        _pattern("order.strong", "strong", "obey"),
        _pattern("order.definite", "definite", "destroy"),
    ]
}


def memory_bundle(**memory: Any) -> Bundle:
    """The shipped bundle with three patterns to tell the weights apart, and more of its memory section."""
    return bundle(memory={"content": CONTENT, **memory})


def write(write_id: str = "w-1", **fields: Any) -> dict[str, Any]:
    """A harmless write of the operator from a user, some fields changed (None leaves a field out)."""
    base = {
        "write_id": write_id,
        "agent_id": "operator",
        "session_id": "s-1",
        "content": f"The customer prefers e-mail ({write_id}).",
        "source": {"id": "mail", "type": "user"},
        "content_class": "note",
        "timestamp": "2025-11-21T12:00:00Z",
        "confidence_score": 0.9,
        "provenance_uri": "https://crm.example/tickets/7",
        "provenance_hash": "sha256:" + "0a" * 32,
    }
    return {name: value for name, value in {**base, **fields}.items() if value is not None}


@dataclass
class Place:
    """`answers`: what ports say, by name; the one that finds held inputs again is there."""

    point: DecisionPoint = field(default_factory=lambda: point(*REVIEWERS, policy=memory_bundle()))
    now: int = START
    offset: int = 0
    book: Book = field(default_factory=lambda: Book({}))
    histories: dict[SourceName, History] = field(default_factory=dict)
    sessions: dict[str, SessionState] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[Request] = field(default_factory=list)
    inputs: dict[int, bytes] = field(default_factory=dict)

    def write(self, write_id: str = "w-1", **fields: Any) -> Decision:
        """Put a write to the point and apply the decision."""
        return self.take(MEMORY_WRITES, write(write_id, **fields))

    def decide(self, write_id: str = "w-1", **fields: Any) -> dict[str, Any]:
        """The MemoryDecision on a write."""
        return only(self.write(write_id, **fields), "MemoryDecision")

    def hold(self, write_id: str = "w-1", **fields: Any) -> dict[str, Any]:
        """The QuarantineEntered of a write that has to wait."""
        return only(self.write(write_id, derived_from=[STRANGER], **fields), "QuarantineEntered")

    def review(self, entered: dict[str, Any], decision: str, **changed: str) -> Decision:
        """Put Carol's review of what entered to the point and apply the decision."""
        return self.take(REVIEWS, review(entered, decision, **changed))

    def expire(self, now_ms: int) -> Decision | None:
        """What the timer does."""
        decision = self.point.expire_held(self.book, now_ms, 1000)
        if decision is not None:
            self.book.apply(decision.book)
        return decision

    def take(self, topic: str, record: dict[str, Any]) -> Decision:
        """Put any input to the point and apply the decision."""
        input_record = self.input_record(topic, record)
        state = self.session(record["session_id"])
        shared = Shared(self.book, self.histories)
        decision = decide(self.point, input_record, state, self.answer, shared)
        state.apply(decision.session)
        self.book.apply(decision.book)
        return decision

    def input_record(self, topic: str, record: dict[str, Any]) -> InputRecord:
        """The next record of a topic, now."""
        self.offset += 1
        raw = json.dumps(record, sort_keys=True).encode()
        self.inputs[self.offset] = raw
        return InputRecord(topic, PARTITION, self.offset, self.now, record["session_id"].encode(), raw)

    def session(self, session_id: str) -> SessionState:
        """The session's state, a fresh one when there is none."""
        return self.sessions.setdefault(session_id, SessionState(session_key(session_id)))

    def answer(self, request: Request) -> Answer:
        """As the shell answers."""
        self.asked.append(request)
        if request.port == "held_input" and "held_input" not in self.answers:
            payload = request.payload
            assert isinstance(payload, dict)
            return Answer("answered", self.inputs[payload["offset"]])
        return self.answers.get(request.port, Answer("unavailable", detail="nobody there"))


def place(*entries: dict[str, Any], limits: dict[str, Any] | None = None, **memory: Any) -> Place:
    """A partition with more registry entries, other limits, or more of the bundle's memory section."""
    bounds = LIMITS.__class__(**{**_fields(LIMITS), **(limits or {})})
    return Place(point(*REVIEWERS, *entries, policy=memory_bundle(**memory), limits=bounds))


def _fields(limits: Any) -> dict[str, Any]:
    return {name: getattr(limits, name) for name in limits.__dataclass_fields__}


def review(entered: dict[str, Any], decision: str, **changed: str) -> dict[str, Any]:
    """A review, signed by Carol's key with what is changed in it."""
    fields = {
        "subject_id": entered["memory_id"],
        "session_id": entered["session_id"],
        "decision": decision,
        "approver_id": "carol",
        "digest": entered["content_digest"],
        "justification": "read and compared",
    }
    return sign_review({**fields, **changed}, SigningKey(CAROL), Audience()).model_dump(exclude_none=True)
