"""Seeded changes of the neutral policy: some that count, and records that every worker must refuse.

Endless. What counts of agents, tools and policy bundles alters no outcome: revisions move on, nothing else. A
newer quality bundle asks a little more of one class, and its items say which one judged them. What must be
refused would alter outcomes if anyone used it (another tenant, a purge limit of zero, another minimum), so a
recount sees that too. Revisions that count are odd, so between two of them there is one that nobody has.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from load.installations import neutral_policy, quality_policy
from sluice_demo.throwaway_trust import ThrowawayTrust

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from sluice_demo.throwaway_trust import ControlRecord

ELSEWHERE = "elsewhere"
SPARE_TOOL = "load.spare"
STEP = 2
WHOLE, NEWER = 5, 3
"""How often a whole change and a newer bundle of each kind come, where each kind of refusal comes once."""
STRICT, LAX = 0.99, 0.1
"""Minima of quality bundles that must not count."""
LONGER_MS = 36_000_000
"""How long an escalation waits in a bundle that must not count."""


@dataclass(slots=True)
class ControlEvent:
    """A control record to publish; `topic` is a base name.

    `documents`: what is in force through it, as hashed in verdicts, by its name there; empty if nothing is.
    `due`: the code under which the ledger must say that it is refused; None when it must not.
    """

    topic: str
    key: bytes
    value: bytes | None
    documents: dict[str, dict[str, Any]]
    due: str | None = None


@dataclass(frozen=True, slots=True)
class _Half:
    """The published half of a change, and the record that makes the change whole."""

    revision: int
    published: ControlEvent
    other: ControlRecord


class PolicyTraffic:
    """Draws from `rng`, step after step; the records of a step belong together, in this order."""

    def __init__(self, rng: random.Random, trust: ThrowawayTrust) -> None:
        self._rng = rng
        self._trust = trust
        self._stranger = ThrowawayTrust()
        self._revision = 1
        self._bundle = 1
        self._quality = 1
        self._last = trust.sign_bundle(_write_document(neutral_policy.bundle()))
        self._halves: deque[_Half] = deque()
        self._steps = [
            *[self._whole_change] * WHOLE,
            *[self._newer_bundle] * NEWER,
            *[self._newer_quality] * NEWER,
            self._repeat,
            self._older_entry,
            self._older_bundle,
            self._older_quality,
            self._relax_quality,
            self._relax_bundle,
            self._other_bundle,
            self._make_failing_quality,
            self._quality_as_policy,
            self._other_content,
            self._wrong_signature,
            self._strip,
            self._nobody_known,
            self._tombstone,
            self._half,
            self._too_late,
        ]

    def __next__(self) -> list[ControlEvent]:
        if self._revision == 1:
            return self._whole_change()
        if self._bundle == 1:
            return self._newer_bundle()
        return self._newer_quality() if self._quality == 1 else self._rng.choice(self._steps)()

    def __iter__(self) -> Iterator[list[ControlEvent]]:
        return self

    def _whole_change(self) -> list[ControlEvent]:
        """The agent and its tools, of one revision, in any order: in force with the last of them."""
        self._revision += STEP
        entries = neutral_policy.entries(self._revision)
        self._rng.shuffle(entries)
        records = self._trust.sign_entries(entries, change=f"whole-{self._revision}")
        events = [_event(record) for record in records]
        events[-1].documents = {_name(entry): entry for entry in entries}
        self._last = records[-1]
        return events

    def _newer_bundle(self) -> list[ControlEvent]:
        self._bundle += STEP
        document = neutral_policy.bundle(self._bundle)
        self._last = self._trust.sign_bundle(_write_document(document))
        event = _event(self._last)
        event.documents = {f"bundle@{self._bundle}": document}
        return [event]

    def _newer_quality(self) -> list[ControlEvent]:
        self._quality += STEP
        document = quality_policy.document(self._quality)
        self._last = quality_policy.sign_bundle(self._trust, document)
        event = _event(self._last)
        event.documents = {f"quality@{self._quality}": document}
        return [event]

    def _repeat(self) -> list[ControlEvent]:
        """The last record that counted, once more: no effect, and no refusal."""
        return [_event(self._last)]

    def _older_entry(self) -> list[ControlEvent]:
        return [_event(self._agent_elsewhere(self._revision - 1), "older_revision")]

    def _older_bundle(self) -> list[ControlEvent]:
        return [_event(self._strict_bundle(self._bundle - 1), "older_revision")]

    def _older_quality(self) -> list[ControlEvent]:
        return [_event(self._make_judging(self._quality - 1, STRICT), "older_revision")]

    def _relax_quality(self) -> list[ControlEvent]:
        """By one approver alone."""
        return [_event(self._make_judging(self._quality + 1, LAX), "second_approver_missing")]

    def _relax_bundle(self) -> list[ControlEvent]:
        """By one approver alone."""
        document = neutral_policy.bundle(self._bundle + 1) | {"escalation_ttl_ms": LONGER_MS}
        return [
            _event(self._trust.sign_bundle(_write_document(document), alone=True), "second_approver_missing")
        ]

    def _other_bundle(self) -> list[ControlEvent]:
        """Under a new id, by one approver alone."""
        document = neutral_policy.bundle() | {"id": "load.other"}
        return [
            _event(self._trust.sign_bundle(_write_document(document), alone=True), "second_approver_missing")
        ]

    def _make_failing_quality(self) -> list[ControlEvent]:
        failing = quality_policy.make_failing(self._quality + 1)
        return [_event(quality_policy.sign_bundle(self._trust, failing), "cases_failed")]

    def _quality_as_policy(self) -> list[ControlEvent]:
        """A quality bundle under the type of policy bundles."""
        document = _write_document(quality_policy.document(self._quality + 1, LAX))
        return [_event(self._trust.sign_bundle(document), "invalid_bundle")]

    def _other_content(self) -> list[ControlEvent]:
        records = (
            self._agent_elsewhere(self._revision),
            self._strict_bundle(self._bundle),
            self._make_judging(self._quality, STRICT),
        )
        return [_event(record, "revision_conflict") for record in records]

    def _wrong_signature(self) -> list[ControlEvent]:
        """A newer bundle in an envelope that was signed for another."""
        _, _, signed = self._strict_bundle(self._bundle)
        topic, key, forged = self._strict_bundle(self._bundle + 1)
        envelope = {**json.loads(signed), "payload": json.loads(forged)["payload"]}
        return [_event((topic, key, json.dumps(envelope).encode()), "wrong_signature")]

    def _strip(self) -> list[ControlEvent]:
        topic, key, signed = self._agent_elsewhere(self._revision + 1)
        envelope = {**json.loads(signed), "signatures": []}
        return [_event((topic, key, json.dumps(envelope).encode()), "stripped")]

    def _nobody_known(self) -> list[ControlEvent]:
        document = neutral_policy.bundle(self._bundle + 1, purge_limit=0)
        return [_event(self._stranger.sign_bundle(_write_document(document)), "unknown_key")]

    def _tombstone(self) -> list[ControlEvent]:
        topic, key, _ = self._last
        return [ControlEvent(topic, key, None, {}, "tombstone")]

    def _half(self) -> list[ControlEvent]:
        """The agent without what belongs to it: waits, without any effect, and is not refused yet."""
        revision = self._revision + 1
        agent = _agent(revision)
        spare = {"kind": "tool", "id": SPARE_TOOL, "revision": revision, "spec": {}}
        change = f"half-{self._rng.getrandbits(64):016x}"
        first, other = self._trust.sign_entries([agent, spare], change=change)
        self._halves.append(_Half(revision, _event(first), other))
        return [self._halves[-1].published]

    def _too_late(self) -> list[ControlEvent]:
        """The other half, after what the first replaces has moved on: now both are refused."""
        if not self._halves or self._halves[0].revision > self._revision:
            return self._half()
        half = self._halves.popleft()
        half.published.due = "older_revision"
        return [_event(half.other, "change_refused")]

    def _agent_elsewhere(self, revision: int) -> ControlRecord:
        return self._trust.sign_entries([_agent(revision)])[0]

    def _make_judging(self, revision: int, lowest: float) -> ControlRecord:
        return quality_policy.sign_bundle(self._trust, quality_policy.document(revision, lowest))

    def _strict_bundle(self, revision: int) -> ControlRecord:
        return self._trust.sign_bundle(_write_document(neutral_policy.bundle(revision, purge_limit=0)))


def _agent(revision: int) -> dict[str, Any]:
    return neutral_policy.entries(revision, ELSEWHERE)[0]


def _event(record: ControlRecord, due: str | None = None) -> ControlEvent:
    return ControlEvent(*record, {}, due)


def _name(entry: dict[str, Any]) -> str:
    return f"{entry['kind']}/{entry['id']}@{entry['revision']}"


def _write_document(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()
