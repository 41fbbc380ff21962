"""An installation whose escalations are answered: approvers of all roles, and what they sign."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sluice.core.decide.replay import Replay
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.requests import HELD_INPUT, Answer
from sluice.core.foundation.sealed_input import NO_KEYS, SUBJECT_KEYS, find_keys
from sluice.core.registry.keys import SigningKey
from sluice.core.trust.signing import sign_review
from sluice_topics.audience import UNNAMED, Audience
from sluice_topics.catalog import ACTIONS, MANDATES, OUTCOMES, REVIEWS
from tests.unit.core.scene import LIMITS, START, action, bundle, entry, only, point, public_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.core.actions.stage import Stage
    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.foundation.limits import SessionLimits
    from sluice.core.foundation.requests import Request
    from sluice.core.state.decision import Decision
    from sluice_topics.sealing import Keyring

KEYS = {
    name: Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
    for number, name in enumerate(
        ("ann", "ben", "vera", "late", "gone", "elsewhere", "finder", "auditor", "boss", "mallory"), 1
    )
}


def approver(name: str, *roles: str, **spec: Any) -> dict[str, Any]:
    """A registered approver with a key of its own."""
    return entry("approver", name, public_key=public_key(KEYS[name]), roles=list(roles), **spec)


APPROVERS = (
    approver("ann", "approver"),
    approver("ben", "approver", tenants=["acme"]),
    approver("vera", "vp"),
    approver("late", "approver", valid_until="2025-11-21T13:00:00.000Z"),
    approver("gone", "approver", active=False),
    approver("elsewhere", "approver", tenants=["globex"]),
    approver("finder", "approver", tools=["find"]),
    approver("auditor", "reviewer"),
    approver("boss", "approver", "vp"),
    entry("agent", "owned", tenant_id="acme", tier="T4", owner="boss"),
)
TTL_MS = 600_000


@dataclass
class Office:
    """One session's partition and the people who answer. `more`: further registry entries; `policy`: fields
    of the bundle."""

    more: tuple[dict[str, Any], ...] = ()
    policy: dict[str, Any] = field(default_factory=dict)
    limits: SessionLimits = LIMITS
    stages: Sequence[Stage] | None = None
    keyring: Keyring = NO_KEYS
    now: int = START

    def __post_init__(self) -> None:
        """Opens the partition."""
        self._offsets = {ACTIONS: 0, REVIEWS: 0, OUTCOMES: 0, MANDATES: 0}
        self.inputs: dict[tuple[str, int, int], bytes] = {}
        self.replay = Replay(self.point(*self.more), self.answer_request)

    def point(self, *more: dict[str, Any], **changed: Any) -> DecisionPoint:
        """A decision point over the scene's registry, its approvers and these entries."""
        known = {(one["kind"], one["id"]): one for one in (*APPROVERS, *more)}
        policy = bundle(**{"escalation_ttl_ms": TTL_MS, **self.policy, **changed})
        named: dict[str, Any] = {"limits": self.limits, "stages": self.stages, "demands_sealed": True}
        return point(*known.values(), policy=policy, **named)

    def propose(self, action_id: str = "a-1", **fields: Any) -> Decision:
        """An action that needs an approver, unless it is changed."""
        fields = {"agent_id": "operator", "toolName": "erase", "rows_affected": 3, **fields}
        return self.take(ACTIONS, action(action_id=action_id, mode="high_stakes", **fields))

    def open_escalation(self, action_id: str = "a-1", **fields: Any) -> dict[str, Any]:
        """The EscalationOpened of such an action."""
        return only(self.propose(action_id, **fields), "EscalationOpened")

    def answer(
        self,
        opened: dict[str, Any],
        by: str,
        decision: str = "approve",
        key: str | None = None,
        **changed: Any,
    ) -> Decision:
        """An approver's answer, signed with the approver's own key or that of another."""
        return self.take(REVIEWS, answer_to(opened, by, decision, key, **changed))

    def take(self, topic: str, record: dict[str, Any]) -> Decision:
        """The next input, a second later."""
        self.now += 1000
        return self.replay.take(self.input_record(topic, record))

    def input_record(self, topic: str, record: dict[str, Any]) -> InputRecord:
        """The next record of a topic, now."""
        self._offsets[topic] += 1
        raw = json.dumps(record, sort_keys=True).encode()
        self.inputs[topic, 3, self._offsets[topic]] = raw
        return InputRecord(topic, 3, self._offsets[topic], self.now, record["session_id"].encode(), raw)

    def rows(self, tenant: str = "acme", session: str = "s-1") -> int:
        """The tenant's total in a session."""
        account = self.replay.session(session.encode()).accounts.get(tenant)
        return 0 if account is None else account.rows

    def answer_request(self, request: Request) -> Answer:
        """What the world outside the core answers."""
        if request.port == SUBJECT_KEYS:
            return find_keys(self.keyring, request)
        if request.port != HELD_INPUT:
            return Answer("answered", {"asked": request.port})
        place: Any = request.payload
        value = self.inputs.get((place["topic"], place["partition"], place["offset"]))
        return Answer("unavailable", detail="gone") if value is None else Answer("answered", value)


def answer_to(
    opened: dict[str, Any], by: str, decision: str = "approve", key: str | None = None, **changed: Any
) -> dict[str, Any]:
    """A signed answer as it is published."""
    return answer_signed_by(SigningKey(KEYS[key or by]), opened, by, decision, **changed)


def answer_signed_by(
    key: SigningKey,
    opened: dict[str, Any],
    by: str,
    decision: str = "approve",
    *,
    audience: Audience = UNNAMED,
    **changed: Any,
) -> dict[str, Any]:
    """The same with any key, for any installation."""
    fields = {
        "subject_id": opened["escalation_id"],
        "session_id": opened["session_id"],
        "decision": decision,
        "approver_id": by,
        "digest": opened["action_digest"],
        "justification": "read and compared",
        **changed,
    }
    return sign_review(fields, key, audience).model_dump(mode="json", exclude_unset=True)


def grant_request(uses: int = 2, minutes: int = 30, when: str | None = None) -> dict[str, Any]:
    """What an approver signs beside an approval."""
    asked = {"uses": uses, "until": rfc3339(START + 60_000 * minutes)}
    return asked if when is None else {**asked, "when": when}
