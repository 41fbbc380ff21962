"""A small tenant whose agents read items, one at each tier, and what the gate says of what they read.

Everything that is decided here is held, in passing, to what holds of every decision (`held.hold`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from sluice.core.actions.stages import list_shipped_stages, load_bundle
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.decide.replay import decide, nobody
from sluice.core.foundation.chain import Chain
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.input_record import InputRecord
from sluice.core.policy.policy import Policy
from sluice.core.quality_bundle.quality_bundle import QualityBundle, load_quality_bundle
from sluice.core.registry.loading import load_registry
from sluice.core.registry.quality_entries import make_provenance_id
from sluice.core.rerun.evidence import PolicyEvidence
from sluice.core.rerun.rerunner import Rerunner
from sluice.core.rerun.walk import DECISION_TOPICS, read_decision
from sluice.core.state.book import Book
from sluice.core.state.decision import Shared
from sluice.core.state.session import SessionState, session_key
from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import PAYLOAD_TYPES, QUALITY_BUNDLE_TYPE
from sluice_topics.catalog import ACTIONS, BUNDLES, REGISTRY, REPORTED, RETRIEVALS
from tests.unit.core.rerun.reruns import document
from tests.unit.core.retrieval.held import hold
from tests.unit.core.retrieval.reading import Reading
from tests.unit.core.scene import LIMITS, ROOT, START, action, entry
from tests.unit.core.trust.scene import STRANGER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sluice.core.foundation.limits import SessionLimits
    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.metadata.provenance import Resolution
    from sluice.core.policy.bundles import Bundle
    from sluice.core.rerun.rerun_result import Rerun
    from sluice.core.state.decision import Decision

HASH, OTHER_HASH = "sha256:" + "a1" * 32, "sha256:" + "b2" * 32
TERMS = "https://example.com/terms"
TEXT = "The lease ends in May."
SUSPECT, POISONED = "strongly bad", "definitely bad"
OLD = "2001-01-01T00:00:00Z"
SHIPPED = json.loads((ROOT / "config" / "quality" / "default.json").read_bytes())
TIERS = ("sandbox", "bounded", "high_privilege")
FINDINGS = [
    {
        "id": f"test.{weight}",
        "kind": "instruction_override",
        "weight": weight,
        "reason": "a test",
        "source": "a test",
        "any": [rf"\b{weight}ly bad\b"],
    }
    for weight in ("weak", "strong", "definite")
]
BUNDLE = document(memory={"content": {"findings": FINDINGS}})
ENTRIES = (
    *(entry("agent", tier, tenant_id="acme", tier="T3", autonomy_tier=tier) for tier in TIERS),
    entry("agent", "untiered", tenant_id="acme", tier="T3"),
    entry("agent", "lawyer", tenant_id="acme", tier="T3", content_classes=["legal_text"]),
    entry("agent", "trial", tenant_id="shadowed", tier="T3", autonomy_tier="bounded"),
    entry("agent", "other", tenant_id="globex", tier="T3", autonomy_tier="bounded"),
    entry("org", "shadowed", enforcement="shadow"),
    *(
        entry("provenance", make_provenance_id(tenant, TERMS), tenant_id=tenant, uri=TERMS, hash=HASH)
        for tenant in ("acme", "shadowed", "globex")
    ),
    entry("tool", "find", tier="T1", action_type="DATABASE_READ", reversible=True),
)


def quality(**changes: Any) -> bytes:
    """The shipped quality bundle with one of its cases, some fields changed."""
    return json.dumps({**SHIPPED, "cases": SHIPPED["cases"][:1], **changes}).encode()


def flag_only(*classes: str) -> dict[str, Any]:
    """The rollout of a bundle in which these classes are judged and never withheld."""
    return {
        name: {**one, "mode": "flag_only" if name in classes else one["mode"]}
        for name, one in SHIPPED["rollout"].items()
    }


@cache
def quality_bundle(raw: bytes) -> QualityBundle:
    """Loaded once."""
    return load_quality_bundle(raw)


@cache
def policy_bundle(raw: bytes) -> Bundle:
    """Compiled once."""
    return load_bundle(raw)


@cache
def point_of(
    policy: Bundle, judging: QualityBundle | None, entries: str, limits: SessionLimits
) -> DecisionPoint:
    """Under these bundles and the scene's entries and more."""
    registry = load_registry(json.dumps({"entries": [*ENTRIES, *json.loads(entries)]}).encode())
    return DecisionPoint(
        Policy({policy.id: policy}, registry, policy.id, {judging.id: judging} if judging else {}),
        list_shipped_stages(),
        limits,
        stopwatch=lambda: 0,
        environment="test",
    )


@cache
def evidence_of(policy: bytes, qualities: tuple[bytes, ...], entries: str) -> PolicyEvidence:
    """Control topics with these bundles and more entries; whose signature they bear does not matter."""
    found = PolicyEvidence()
    found.add(BUNDLES, sign(PAYLOAD_TYPES[BUNDLES], policy, [STRANGER]).encode())
    for one in qualities:
        found.add(BUNDLES, sign(QUALITY_BUNDLE_TYPE, one, [STRANGER]).encode())
    for entered in (*ENTRIES, *json.loads(entries)):
        raw = json.dumps(entered).encode()
        found.add(REGISTRY, sign(PAYLOAD_TYPES[REGISTRY], raw, [STRANGER]).encode())
    return found


def item(**fields: Any) -> dict[str, Any]:
    """An item that passes at every tier, some fields changed (None: left out)."""
    base = {
        "item_id": "i-1",
        "content_class": "legal_text",
        "timestamp": "2025-11-20T10:00:00Z",
        "confidence_score": 0.9,
        "provenance_uri": TERMS,
        "provenance_hash": HASH,
        "body": TEXT,
    }
    return {name: value for name, value in {**base, **fields}.items() if value is not None}


def retrieval(*items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A request of the bounded agent (None: left out)."""
    base = {"request_id": "r-1", "agent_id": "bounded", "session_id": "s-1", "items": items or [item()]}
    return {name: value for name, value in {**base, **fields}.items() if value is not None}


@dataclass
class Scene:
    """One session of an installation: requests go in, decisions are applied at once."""

    entries: tuple[dict[str, Any], ...] = ()
    quality: bytes | None = field(default_factory=quality)
    bundle: bytes = BUNDLE
    limits: SessionLimits = LIMITS
    provenance: Mapping[tuple[str, str], Resolution] = field(default_factory=dict)
    now: int = START
    policy_of_now: Bundle | None = None
    port: Callable[[Request], Answer] = nobody
    events: list[dict[str, Any]] = field(default_factory=list)
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    input_records: dict[str, InputRecord] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Opens the session."""
        self.state = SessionState(session_key("s-1"))
        self.book = Book({})
        self._chain = Chain(3)
        self._offset = 0

    @property
    def point(self) -> DecisionPoint:
        """The one in force."""
        policy = self.policy_of_now or policy_bundle(self.bundle)
        judging = None if self.quality is None else quality_bundle(self.quality)
        return point_of(policy, judging, json.dumps(self.entries), self.limits)

    def read(self, *items: dict[str, Any], **fields: Any) -> Reading:
        """A retrieval of the session."""
        return Reading(self.take(RETRIEVALS, retrieval(*items, **fields)))

    def serve(self, *items: dict[str, Any], **fields: Any) -> dict[str, Any]:
        """What the agent may see of a retrieval."""
        return self.read(*items, **fields).served

    def report(self, *items: str, **fields: Any) -> dict[str, Any]:
        """What a store's report of these items comes to."""
        named = {"report_id": "p-1", "request_id": "r-1", "agent_id": "bounded", "session_id": "s-1"}
        report = {**named, "items": items, "reported_by": "store", **fields}
        return self.take(REPORTED, report).records[-1].body

    def act(self, **fields: Any) -> dict[str, Any]:
        """The verdict on an action of the bounded agent, as it is recorded."""
        self.take(ACTIONS, action(**{"agent_id": "bounded", **fields}))
        return self.verdicts[-1]

    def input_record(self, topic: str, record: Mapping[str, Any]) -> InputRecord:
        """The next record of a topic, now."""
        self._offset += 1
        raw = json.dumps(record).encode()
        return InputRecord(topic, 3, self._offset, self.now, str(record["session_id"]).encode(), raw)

    def take(self, topic: str, record: Mapping[str, Any]) -> Decision:
        """Put a record to the point; its decision is held to what every one is held to, and applied."""
        return self.decide(self.input_record(topic, record))

    def decide(self, input_record: InputRecord) -> Decision:
        """The same of what has arrived."""
        shared = Shared(self.book, provenance=self.provenance)
        decision = decide(self.point, input_record, self.state, self.port, shared)
        self.state.apply(decision.session)
        self.book.apply(decision.book)
        self.keep(input_record, decision)
        return decision

    def keep(self, input_record: InputRecord, decision: Decision) -> None:
        """Hold a decision, and keep what a rerun executes again."""
        for one, value in hold(decision, self._chain):
            if one.topic in DECISION_TOPICS:
                recorded = read_decision(one.topic, value)
                is_verdict = one.kind == "Verdict"
                self.input_records[recorded["verdict_id" if is_verdict else "ledger_event_id"]] = input_record
                (self.verdicts if is_verdict else self.events).append(recorded)

    def evidence(self, *others: bytes) -> PolicyEvidence:
        """The control topics; `others` are quality bundles instead of the one in force."""
        return evidence_of(self.bundle, others or (self.quality or b"{}",), json.dumps(self.entries))

    def rerunner(self, evidence: PolicyEvidence | None = None) -> Rerunner:
        """Over everything that was published."""
        known = {stage.name: stage for stage in list_shipped_stages()}
        return Rerunner(evidence or self.evidence(), known.__getitem__)

    def rerun(self, recorded: dict[str, Any], by: Rerunner | None = None) -> Rerun:
        """A decision executed again."""
        named = recorded["verdict_id"] if "verdict_id" in recorded else recorded["ledger_event_id"]
        return (by or self.rerunner()).rerun(recorded, self.input_records[named])

    def statuses(self) -> set[str]:
        """Of the reruns of every decision so far."""
        by = self.rerunner()
        return {self.rerun(one, by).status for one in (*self.verdicts, *self.events)}


def days_before(now_ms: int, days: float) -> str:
    """A moment, as items give it."""
    return rfc3339(int(now_ms - days * 86_400_000))
