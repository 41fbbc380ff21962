"""Traffic of the fault runs decided by the real core in memory, as the broker would hold it afterwards."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.adapters.kafka_read import StoredRecord
from app.core.actions.stages import default_stages
from app.core.arrival import Arrival
from app.core.bundles import load_bundle
from app.core.decide import DecisionPoint
from app.core.ledger.chain import GENESIS, Chain
from app.core.limits import SessionLimits
from app.core.policy import Policy
from app.core.registry import load_registry
from app.core.session import KEY_PREFIX, SessionState
from app.demo.trust import ThrowawayTrust
from load import policy
from load.ledger_read import Evidence
from load.site import Site
from load.traffic import KIND_HEADER, Event, Mix, Traffic
from topics.catalog import ACTIONS
from topics.reading import Unreadable, read
from topics.records import ActionOutcome, ProposedAction

if TYPE_CHECKING:
    from app.core.decision import Decision

PREFIX = "t."
SITE = Site("nowhere:1", PREFIX, "t", Path(), {}, ThrowawayTrust())
BEGAN_MS = 1_700_000_000_000
LIMITS = SessionLimits(3_600_000, 86_400_000, 512, 64, 8)
STAGES = ("controls", "fast_reject", "consequence", "tier_auth")


def decided(seed: int, events: int) -> Evidence:
    """An honest run of so many events, and those that they make necessary, in one partition."""
    traffic = Traffic(random.Random(seed), str(seed), Mix(sessions=4, slow=0.0))  # noqa: S311 - seeded
    run = _Run()
    for event in [*(next(traffic) for _ in range(events)), *traffic.rest()]:
        run.decide(event)
    changelog = [_stored("t-sessions-changelog", 0, key, state.encode()) for key, state in run.states.items()]
    return Evidence(SITE, run.inputs, run.ledger, changelog, 0)


class _Run:
    def __init__(self) -> None:
        bundle = load_bundle(json.dumps(policy.bundle()).encode())
        registry = load_registry(json.dumps({"entries": policy.entries()}).encode())
        stages = default_stages(STAGES)
        rules = Policy({bundle.id: bundle}, registry, bundle.id)
        self._point = DecisionPoint(rules, stages, LIMITS, stopwatch=lambda: 0, environment="test")
        self._chain = Chain(0, 0, GENESIS)
        self._ends: Counter[str] = Counter()
        self.states: dict[bytes, SessionState] = {}
        self.inputs: list[StoredRecord] = []
        self.ledger: list[StoredRecord] = []

    def decide(self, event: Event) -> None:
        offset = self._next(event.topic)
        kind = (KIND_HEADER, event.kind.encode())
        self.inputs.append(_stored(PREFIX + event.topic, offset, event.key, event.value, kind))
        arrival = Arrival(event.topic, 0, offset, BEGAN_MS + offset, event.key, event.value)
        key = KEY_PREFIX + event.key
        state = self.states.setdefault(key, SessionState(key))
        decision = self._decision(arrival, state)
        state.apply(decision.transition)
        for record in decision.records:
            value = self._chain.link(record.body)
            self.ledger.append(_stored(PREFIX + record.topic, self._next(record.topic), event.key, value))

    def _decision(self, arrival: Arrival, state: SessionState) -> Decision:
        message: ProposedAction | ActionOutcome | Unreadable
        if arrival.topic == ACTIONS:
            message = read(ProposedAction, arrival.value)
        else:
            message = read(ActionOutcome, arrival.value)
        assert not isinstance(message, Unreadable)
        try:
            next(self._point.evaluate(arrival, message, state))
        except StopIteration as done:
            decision: Decision = done.value
            return decision
        raise AssertionError("no stage of this policy asks anything")

    def _next(self, topic: str) -> int:
        self._ends[topic] += 1
        return self._ends[topic] - 1


def changed(record: StoredRecord, **fields: Any) -> StoredRecord:
    """The record with some fields of its value replaced."""
    value = json.dumps({**json.loads(record.value or b"{}"), **fields}).encode()
    return _stored(record.topic, record.offset, record.key or b"", value)


def _stored(topic: str, offset: int, key: bytes, value: bytes, *headers: tuple[str, bytes]) -> StoredRecord:
    return StoredRecord(topic, 0, offset, BEGAN_MS + offset, key, value, headers)
