"""Verdicts of the scene's sessions as the ledger keeps them, and the evidence to execute them again."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from app.core.actions.stages import default_stages
from app.core.arrival import Arrival
from app.core.bundles import Bundle, load_bundle
from app.core.ledger.chain import Chain
from app.core.ledger.evidence import PolicyEvidence
from app.core.ledger.recorded_verdict import recorded_verdict
from app.core.ledger.rerun import Rerunner
from app.core.replay import Replay, nobody
from app.core.trust.dsse import sign
from app.core.trust.signed_entries import PAYLOAD_TYPES
from tests.unit.core.scene import ALL_STAGES, BUNDLE_BYTES, ENTRIES, LIMITS, START, action, outcome, point
from tests.unit.core.trust.scene import STRANGER
from topics.catalog import ACTIONS, BUNDLES, OUTCOMES, REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.core.actions.stage import Stage
    from app.core.decision import Decision
    from app.core.ledger.rerun_result import Rerun
    from app.core.limits import SessionLimits
    from app.core.requests import Answer, Request


WIPES = {
    "id": "wipes",
    "reason": "removes everything",
    "severity": "critical",
    "source": "a test",
    "pattern": "rm -rf /",
}
SMALL = {"patterns": {"text": [WIPES]}}
"""The shipped bundle with one pattern: the library takes half a second to compile."""


def document(**changes: Any) -> bytes:
    """The small bundle's bytes, with some top-level fields changed."""
    return json.dumps({**json.loads(BUNDLE_BYTES), **SMALL, **changes}).encode()


BUNDLE = document()


def evidence(*entries: dict[str, Any], bundles: Sequence[bytes] = (BUNDLE,)) -> PolicyEvidence:
    """Control topics with these entries and bundles; whose signature they bear does not matter."""
    found = PolicyEvidence()
    for document in bundles:
        found.add(BUNDLES, sign(PAYLOAD_TYPES[BUNDLES], document, [STRANGER]).written())
    for one in entries:
        found.add(REGISTRY, sign(PAYLOAD_TYPES[REGISTRY], json.dumps(one).encode(), [STRANGER]).written())
    return found


@cache
def _loaded(bundle: bytes) -> Bundle:
    return load_bundle(bundle)


@cache
def _published(bundle: bytes, entries: str) -> PolicyEvidence:
    return evidence(*ENTRIES, *json.loads(entries), bundles=[bundle])


@dataclass
class Case:
    """One installation of the scene: inputs go in, and what was decided on each can be executed again."""

    entries: tuple[dict[str, Any], ...] = ()
    bundle: bytes = BUNDLE
    stages: Sequence[Stage] = field(default_factory=lambda: default_stages(ALL_STAGES))
    limits: SessionLimits = LIMITS
    answer: Callable[[Request], Answer] = nobody
    now: int = START
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    arrivals: dict[str, Arrival] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Opens the sessions."""
        where = point(*self.entries, policy=_loaded(self.bundle), stages=self.stages, limits=self.limits)
        self._replay = Replay(where, self.answer)
        self._chain = Chain(3)
        self._offset = 0

    def propose(self, **fields: Any) -> dict[str, Any]:
        """An action; its verdict as it is recorded."""
        self._take(ACTIONS, action(**fields))
        return self.verdicts[-1]

    def report(self, **fields: Any) -> Decision:
        """An unsigned outcome."""
        return self._take(OUTCOMES, outcome(**fields))

    def record(self, arrival: Arrival, decision: Decision) -> None:
        """Keep the verdict of a decision on an arrival."""
        self.arrivals[f"verdict:{arrival.decision_id}"] = arrival
        for one in decision.records:
            wire = self._chain.link(one.body)
            if one.kind == "Verdict":
                self.verdicts.append(recorded_verdict(wire))

    def rerunner(self, stages: Sequence[Stage] | None = None) -> Rerunner:
        """With everything that was published, over the installation's own stages or others of the names."""
        known = {stage.name: stage for stage in stages or self.stages}
        return Rerunner(_published(self.bundle, json.dumps(self.entries)), known.__getitem__)

    def stage_of(self, name: str) -> Stage:
        """One of the installation's stages."""
        return next(stage for stage in self.stages if stage.name == name)

    def rerun(self, verdict: dict[str, Any], by: Rerunner | None = None) -> Rerun:
        """A verdict executed again."""
        return (by or self.rerunner()).rerun(verdict, self.arrivals[verdict["verdict_id"]])

    def rerun_all(self) -> list[Rerun]:
        """Every verdict so far."""
        by = self.rerunner()
        return [self.rerun(verdict, by) for verdict in self.verdicts]

    def next_arrival(self, topic: str, record: dict[str, Any]) -> Arrival:
        """The next record of a topic, now."""
        self._offset += 1
        raw = json.dumps(record).encode()
        return Arrival(topic, 3, self._offset, self.now, str(record["session_id"]).encode(), raw)

    def _take(self, topic: str, record: dict[str, Any]) -> Decision:
        arrival = self.next_arrival(topic, record)
        decision = self._replay.take(arrival)
        self.record(arrival, decision)
        return decision
