"""Decisions of the scene's sessions as the ledger keeps them, and the evidence to execute them again."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sluice.core.actions.stages import list_shipped_stages, load_bundle
from sluice.core.decide.replay import Replay, nobody
from sluice.core.foundation.chain import Chain
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.requests import HELD_INPUT, Answer
from sluice.core.policy.bundle_frame import FIRST_STAGE, LAST_STAGE
from sluice.core.rerun.evidence import PolicyEvidence
from sluice.core.rerun.rerunner import Rerunner
from sluice.core.rerun.walk import read_decision
from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import PAYLOAD_TYPES
from sluice.core.trust.signing import sign_review
from sluice_topics.audience import Audience
from sluice_topics.catalog import (
    ACTIONS,
    BUNDLES,
    MEMORY_DECISIONS,
    MEMORY_WRITES,
    OUTCOMES,
    REGISTRY,
    REVIEWS,
    VERDICTS,
)
from tests.unit.core.scene import (
    ENTRIES,
    LIMITS,
    START,
    action,
    entry,
    outcome,
    point,
    write_bundle,
)
from tests.unit.core.trust.scene import ALICE, STRANGER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sluice.core.actions.stage import Stage
    from sluice.core.foundation.limits import SessionLimits
    from sluice.core.foundation.requests import Request
    from sluice.core.policy.bundles import Bundle
    from sluice.core.rerun.rerun_result import Rerun
    from sluice.core.state.decision import Decision


WIPES = {
    "id": "wipes",
    "reason": "removes everything",
    "severity": "critical",
    "source": "a test",
    "pattern": "rm -rf /",
}
OVERRIDES = {
    "id": "overrides",
    "kind": "instruction_override",
    "weight": "strong",
    "reason": "tells the reader to forget its instructions",
    "source": "a test",
    "any": [r"\bignore (?:all )?previous instructions\b"],
}
SMALL: dict[str, Any] = {
    "patterns": {"text": [WIPES]},
    "memory": json.loads(write_bundle())["memory"] | {"content": {"findings": [OVERRIDES]}},
}
"""The shipped bundle with one pattern for calls and one for content: the libraries are a megabyte, which each
bundle would read, check and hash again."""


def document(**changes: Any) -> bytes:
    """The small bundle's bytes, with some top-level fields changed."""
    return write_bundle(**{**SMALL, **changes})


BUNDLE = document()
REVIEWER = entry("approver", "curator", public_key=ALICE.public.text, roles=["reviewer"])


def memory_write(**fields: Any) -> dict[str, Any]:
    """A harmless memory write of the operator with all its metadata, some fields changed (None: left out)."""
    base = {
        "write_id": "w-1",
        "agent_id": "operator",
        "session_id": "s-1",
        "content": "The customer prefers e-mail.",
        "source": {"id": "crm", "type": "user"},
        "content_class": "note",
        "timestamp": "2025-11-20T10:00:00Z",
        "confidence_score": 0.9,
        "provenance_uri": "https://crm.example/tickets/7",
        "provenance_hash": "sha256:" + "0a" * 32,
    }
    return {name: value for name, value in {**base, **fields}.items() if value is not None}


def evidence(*entries: dict[str, Any], bundles: Sequence[bytes] = (BUNDLE,)) -> PolicyEvidence:
    """Control topics with these entries and bundles; whose signature they bear does not matter."""
    found = PolicyEvidence()
    for document in bundles:
        found.add(BUNDLES, sign(PAYLOAD_TYPES[BUNDLES], document, [STRANGER]).encode())
    for one in entries:
        found.add(REGISTRY, sign(PAYLOAD_TYPES[REGISTRY], json.dumps(one).encode(), [STRANGER]).encode())
    return found


class _Flawed:
    def inspect(self, text: str) -> Any:
        raise KeyError(text)


def make_flawed(policy: bytes) -> Bundle:
    """A bundle whose inspector always raises."""
    made: Any = load_bundle(policy)
    made.inspector = _Flawed()
    return made  # type: ignore[no-any-return]


class FlawedEvidence(PolicyEvidence):
    """Control topics of a release whose inspector is flawed."""

    def __init__(self, policy: bytes) -> None:
        super().__init__()
        self._policy = policy

    def find_bundle(self, bundle_hash: str) -> Bundle | None:
        del bundle_hash
        return make_flawed(self._policy)


@lru_cache(maxsize=64)
def _load(bundle: bytes) -> Bundle:
    """A loaded bundle holds 4 MB."""
    return load_bundle(bundle)


@lru_cache(maxsize=64)
def _set_stages(bundle: bytes, order: Sequence[str]) -> bytes:
    return json.dumps({**json.loads(bundle), "stages": order}).encode()


@lru_cache(maxsize=64)
def _publish(bundle: bytes, entries: str) -> PolicyEvidence:
    return evidence(*ENTRIES, *json.loads(entries), bundles=[bundle])


@dataclass
class Case:
    """One installation of the scene: inputs go in, and what was decided on each can be executed again.

    `stages`: of its own, which its bundle then names between the first and the last; none: the bundle's.
    """

    entries: tuple[dict[str, Any], ...] = ()
    bundle: bytes = BUNDLE
    stages: Sequence[Stage] = ()
    limits: SessionLimits = LIMITS
    answer: Callable[[Request], Answer] = nobody
    demands_sealed: bool = False
    now: int = START
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    memories: list[dict[str, Any]] = field(default_factory=list)
    input_records: dict[str, InputRecord] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Opens the sessions."""
        if self.stages:
            order = [FIRST_STAGE, *(stage.name for stage in self.stages), LAST_STAGE]
            self.bundle = _set_stages(self.bundle, tuple(order))
        policy = _load(self.bundle)
        where = point(
            *self.entries,
            policy=policy,
            added=self.stages,
            limits=self.limits,
            demands_sealed=self.demands_sealed,
        )
        self._replay = Replay(where, self._answer)
        self._values: dict[tuple[str, int, int], bytes | None] = {}
        self._chain = Chain(3)
        self._offset = 0

    def propose(self, **fields: Any) -> dict[str, Any]:
        """An action; its verdict as it is recorded."""
        self._take(ACTIONS, action(**fields))
        return self.verdicts[-1]

    def take_record(self, topic: str, record: dict[str, Any]) -> Decision:
        """An input as it stands."""
        return self._take(topic, record)

    def report(self, **fields: Any) -> Decision:
        """An unsigned outcome."""
        return self._take(OUTCOMES, outcome(**fields))

    def remember(self, **fields: Any) -> dict[str, Any]:
        """A memory write; what was decided on it, as it is recorded."""
        self._take(MEMORY_WRITES, memory_write(**fields))
        return self.memories[-1]

    def review(self, memory: dict[str, Any], decision: str = "approve") -> list[str]:
        """A review of a held memory by the registered reviewer; the kinds of the records that come of it."""
        said = {
            "subject_id": memory["memory_id"],
            "session_id": memory["session_id"],
            "decision": decision,
            "approver_id": "curator",
            "digest": memory["content_digest"],
            "justification": "looked at it",
        }
        signed = sign_review(said, ALICE, Audience()).model_dump(exclude_none=True)
        return [one.kind for one in self._take(REVIEWS, signed).records]

    def record(self, input_record: InputRecord, decision: Decision) -> None:
        """Keep the verdict, or what was decided on a memory, of a decision on an input record."""
        kept = {VERDICTS: self.verdicts, MEMORY_DECISIONS: self.memories}
        for kind in ("verdict", "memory"):
            self.input_records[f"{kind}:{input_record.decision_id}"] = input_record
        for one in decision.records:
            if one.topic in kept:
                wire = self._chain.link(one.body)
                kept[one.topic].append(read_decision(one.topic, wire))

    def rerunner(self, stages: Sequence[Stage] | None = None) -> Rerunner:
        """With everything that was published, over the installation's own stages or others of the names."""
        known = {stage.name: stage for stage in self._find_known(stages)}
        return Rerunner(_publish(self.bundle, json.dumps(self.entries)), known.__getitem__)

    def stage_of(self, name: str) -> Stage:
        """One of the installation's stages."""
        return next(stage for stage in self._find_known() if stage.name == name)

    def _find_known(self, own: Sequence[Stage] | None = None) -> list[Stage]:
        return [*list_shipped_stages(), *(self.stages if own is None else own)]

    def rerun(self, recorded: dict[str, Any], by: Rerunner | None = None) -> Rerun:
        """A decision executed again."""
        named = recorded["verdict_id"] if "verdict_id" in recorded else recorded["memory_id"]
        return (by or self.rerunner()).rerun(recorded, self.input_records[named])

    def rerun_all(self) -> list[Rerun]:
        """Every decision so far, verdicts first."""
        by = self.rerunner()
        return [self.rerun(one, by) for one in (*self.verdicts, *self.memories)]

    def next_input_record(self, topic: str, record: dict[str, Any]) -> InputRecord:
        """The next record of a topic, now."""
        self._offset += 1
        raw = json.dumps(record).encode()
        return InputRecord(topic, 3, self._offset, self.now, str(record["session_id"]).encode(), raw)

    def _answer(self, request: Request) -> Answer:
        """An input that was read before, or what the case's own ports say."""
        if request.port != HELD_INPUT:
            return self.answer(request)
        place: Any = request.payload
        return Answer("answered", self._values[(place["topic"], place["partition"], place["offset"])])

    def propose_late(self, waited_ms: int, **fields: Any) -> dict[str, Any]:
        """An action that had waited for so long; a rerun finds it as it lies on its topic."""
        self._take(ACTIONS, action(**fields), waited_ms)
        return self.verdicts[-1]

    def _take(self, topic: str, record: dict[str, Any], waited_ms: int = 0) -> Decision:
        input_record = self.next_input_record(topic, record)
        self._values[(topic, 3, input_record.offset)] = input_record.value
        decision = self._replay.take(replace(input_record, waited_ms=waited_ms))
        self.record(input_record, decision)
        return decision
