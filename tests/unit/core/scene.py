"""A small tenant with a few agents and tools, and how to put inputs to a decision point in a test."""

from __future__ import annotations

import base64
import json
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sluice.core.actions.stage import PASSED, StageResult
from sluice.core.actions.stages import list_shipped_stages, load_bundle
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.foundation.canonical import canonical
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.limits import SessionLimits
from sluice.core.foundation.requests import next_request
from sluice.core.policy.policy import Policy
from sluice.core.registry.loading import load_registry
from sluice.core.state.session import SessionState, session_key
from sluice.offline.bundle_source import read_whole_bundle
from sluice_topics.audience import UNNAMED, record_message
from sluice_topics.record_reading import Unreadable, read
from sluice_topics.records import ActionOutcome, ProposedAction
from sluice_topics.relaxations import find_relaxations

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from sluice.core.actions.stage import ActionContext, Stage
    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.policy.bundles import Bundle
    from sluice.core.registry.registry import Registry
    from sluice.core.state.decision import Decision
    from sluice_topics.relaxations import Relaxation

ROOT = Path(__file__).resolve().parents[3]
BUNDLE_BYTES = read_whole_bundle(ROOT / "config" / "bundles" / "default.json")
_TEXTS = {name: json.dumps(part) for name, part in json.loads(BUNDLE_BYTES).items()}
ALL_STAGES = tuple(json.loads(_TEXTS["stages"]))
MINUTE = 60_000
START = 1_763_730_000_000
"""2025-11-21T13:00:00Z, as good as any."""
LIMITS = SessionLimits(
    action_window_ms=60 * MINUTE,
    idle_timeout_ms=24 * 60 * MINUTE,
    max_recent_actions=8,
    max_early_outcomes=3,
)
POINT_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def write_bundle(**changes: Any) -> bytes:
    """The shipped bundle's bytes, with some top-level fields changed. It is a megabyte, which takes 20 ms to
    write, so only these are written anew."""
    texts = {**_TEXTS, **{name: json.dumps(part) for name, part in changes.items()}}
    return ("{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in texts.items()) + "}").encode()


def bundle(**changes: Any) -> Bundle:
    """The shipped bundle, with some top-level fields changed."""
    return _load(json.dumps(changes))


def relaxations(before: Bundle, after: Bundle) -> list[Relaxation]:
    """What the second bundle relaxes of the first."""
    return list(find_relaxations(before.file, after.file))


@lru_cache(maxsize=128)
def _load(changes: str) -> Bundle:
    """Written and compiled once for all tests: a bundle does not change."""
    return load_bundle(write_bundle(**json.loads(changes)))


def entry(kind: str, name: str, revision: int = 1, **spec: Any) -> dict[str, Any]:
    """A registry entry."""
    return {"kind": kind, "id": name, "revision": revision, "spec": spec}


def make_counted(name: str, **spec: Any) -> dict[str, Any]:
    """A tool whose callers' row estimates count as they are, so that a test may choose them."""
    return entry("tool", name, trusts_row_claims=True, **spec)


def public_key(key: Ed25519PrivateKey) -> str:
    """The key's public half as a registry writes it."""
    return base64.b64encode(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()


ENTRIES = (
    entry("agent", "reader", tenant_id="acme", tier="T1", tools=["find"]),
    entry("agent", "operator", tenant_id="acme", tier="T3"),
    entry("agent", "chief", tenant_id="acme", tier="T4"),
    entry("agent", "trial", tenant_id="shadowed", tier="T3"),
    entry("agent", "other", tenant_id="globex", tier="T3"),
    entry("org", "shadowed", enforcement="shadow"),
    make_counted("find", tier="T1", action_type="DATABASE_READ", reversible=True),
    make_counted("change", tier="T2", action_type="DATABASE_WRITE", reversible=True),
    make_counted("erase", tier="T3", action_type="DATABASE_WRITE", reversible=False),
    make_counted("pay", tier="T4", action_type="PAYMENT", reversible=False),
    make_counted("anything"),
    entry("enforcement_point", "door", tenant_id="acme", public_key=public_key(POINT_KEY)),
)


def registry(*more: dict[str, Any]) -> Registry:
    """The scene's registry with more entries."""
    return _read_registry(json.dumps([*ENTRIES, *more]))


@lru_cache(maxsize=128)
def _read_registry(entries: str) -> Registry:
    """Read once for all tests: a registry does not change."""
    return load_registry(f'{{"entries": {entries}}}'.encode())


class Flawed:
    """A stage that raises: on every action, or on those of one tool."""

    name = "flawed"

    def __init__(self, tool: str | None = None) -> None:
        self._tool = tool

    def evaluate(self, context: ActionContext) -> StageResult:
        if self._tool in (None, context.action.tool_name):
            raise KeyError(context.action.tool_name)
        return PASSED


def point(
    *more: dict[str, Any],
    policy: Bundle | None = None,
    stages: Sequence[Stage] | None = None,
    added: Sequence[Stage] = (),
    limits: SessionLimits = LIMITS,
    stopwatch: Callable[[], int] = lambda: 0,
    demands_sealed: bool = False,
) -> DecisionPoint:
    """A decision point over the scene's registry. `stages`: the order of its bundle, of whatever stages;
    `added`: stages beside those that ship, which the bundle may name."""
    chosen = policy or bundle()
    if stages is not None:
        chosen = reorder(chosen, stages)
    return DecisionPoint(
        Policy({chosen.id: chosen}, registry(*more), chosen.id),
        [*list_shipped_stages(), *added] if stages is None else stages,
        limits,
        stopwatch=stopwatch,
        environment="test",
        demands_sealed=demands_sealed,
    )


def reorder(policy: Bundle, stages: Sequence[Stage]) -> Bundle:
    """The same bundle with these stages, which need not be an order that a bundle's file could name."""
    other = copy(policy)
    other.stages = tuple(stage.name for stage in stages)
    return other


def action(**fields: Any) -> dict[str, Any]:
    """A harmless proposed action of the operator, some fields changed (None leaves a field out)."""
    base = {
        "action_id": "act-1",
        "agent_id": "operator",
        "session_id": "s-1",
        "mode": "high_stakes",
        "toolName": "find",
        "parameters": {"q": "open orders"},
        "rows_affected": 1,
    }
    return {name: value for name, value in {**base, **fields}.items() if value is not None}


def outcome(**fields: Any) -> dict[str, Any]:
    """An unsigned outcome reported by the operator."""
    base = {"action_id": "act-1", "session_id": "s-1", "rows_affected": 1, "reported_by": "operator"}
    return {**base, **fields}


def sign(record: dict[str, Any], key: Ed25519PrivateKey = POINT_KEY) -> dict[str, Any]:
    """The outcome with the enforcement point's signature."""
    return {
        **record,
        "signature": base64.b64encode(key.sign(record_message(UNNAMED, canonical(record)))).decode(),
    }


@dataclass
class Session:
    """One session at one decision point: inputs go in, decisions are applied at once."""

    point: DecisionPoint = field(default_factory=point)
    state: SessionState = field(default_factory=lambda: SessionState(session_key("s-1")))
    now: int = START
    offset: int = 0
    answers: list[Answer] = field(default_factory=list)
    asked: list[Request] = field(default_factory=list)
    last: InputRecord | None = None
    """The last action that came in."""

    def input_record(self, topic: str, record: dict[str, Any]) -> InputRecord:
        """The next record of a topic, now."""
        self.offset += 1
        raw = json.dumps(record, sort_keys=True).encode()
        made = InputRecord(topic, 3, self.offset, self.now, record["session_id"].encode(), raw)
        if topic == "gate.actions.proposed":
            self.last = made
        return made

    def propose(self, **fields: Any) -> Decision:
        """Put an action to the point and apply its decision."""
        return self._decide("gate.actions.proposed", action(**fields))

    def report(self, **fields: Any) -> Decision:
        """Put an unsigned outcome to the point and apply its decision."""
        return self._decide("gate.outcomes", outcome(**fields))

    def report_signed(self, **fields: Any) -> Decision:
        """Put an outcome that the enforcement point "door" signed for the last action that came in."""
        return self._decide("gate.outcomes", self.sign_outcome(**fields))

    def sign_outcome(self, of: InputRecord | None = None, **fields: Any) -> dict[str, Any]:
        """An outcome that "door" signed for an action, the last one that came in if none is named."""
        action = of or self.last
        assert action is not None
        bound = {"action_digest": action.digest, "input": action.coordinates()}
        return sign(outcome(reported_by="door", **{**bound, **fields}))

    def put(self, record: dict[str, Any]) -> Decision:
        """Put an outcome as it stands, and apply its decision."""
        return self._decide("gate.outcomes", record)

    def take(self, input_record: InputRecord) -> Decision:
        """Put what `input_record` made earlier, and apply its decision."""
        message = read_record(input_record.topic, input_record.value)
        decision = self.drive(self.point.evaluate(input_record, message, self.state))
        self.state.apply(decision.session)
        return decision

    def verdict(self, **fields: Any) -> dict[str, Any]:
        """The verdict on an action."""
        return verdict_of(self.propose(**fields))

    def _decide(self, topic: str, record: dict[str, Any]) -> Decision:
        decision = self.evaluate(topic, record)
        self.state.apply(decision.session)
        return decision

    def evaluate(self, topic: str, record: dict[str, Any]) -> Decision:
        """The decision on a record, not applied."""
        input_record = self.input_record(topic, record)
        message = read_record(topic, input_record.value)
        return self.drive(self.point.evaluate(input_record, message, self.state))

    def drive(self, evaluation: Generator[Request, Answer, Decision]) -> Decision:
        """Run an evaluation to its end with the session's answers."""
        try:
            request = next_request(evaluation)
            while True:
                self.asked.append(request)
                request = next_request(evaluation, self.answers.pop(0))
        except StopIteration as decided:
            decision: Decision = decided.value
            return decision

    @property
    def rows(self) -> int:
        """acme's total rows in the session."""
        account = self.state.accounts.get("acme")
        return 0 if account is None else account.rows

    @property
    def actions(self) -> int:
        """acme's total actions in the session."""
        account = self.state.accounts.get("acme")
        return 0 if account is None else account.actions


def read_record(topic: str, raw: bytes | None) -> ProposedAction | ActionOutcome:
    """A record of an input topic."""
    message = read(ProposedAction, raw) if topic == "gate.actions.proposed" else read(ActionOutcome, raw)
    assert not isinstance(message, Unreadable), message
    return message


def read_stored_bytes(state: SessionState) -> int:
    """Of all that a state has in the table."""
    return sum(map(len, state.entries().values()))


def verdict_of(decision: Decision) -> dict[str, Any]:
    """The one verdict among a decision's records."""
    (record,) = [one for one in decision.records if one.kind == "Verdict"]
    return record.body


def kinds(decision: Decision) -> list[str]:
    """The kinds of a decision's records, in order."""
    return [record.kind for record in decision.records]


def only(decision: Decision, kind: str) -> dict[str, Any]:
    """The one record of a kind."""
    (record,) = [one for one in decision.records if one.kind == kind]
    return record.body
