"""An decision_settings in memory with everything that lies on its broker: control topics, inputs, and the
ledger's records with keys, times and headers. A forger changes the records; `examine` is what `sluice ledger
verify` and `sluice rerun --all` say of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sluice.core.actions.stages import list_shipped_stages
from sluice.core.decide.decision_point import NOTHING_SHARED, DecisionPoint
from sluice.core.decide.replay import Replay, decide, nobody
from sluice.core.foundation.chain import Chain
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.requests import HELD_INPUT, Answer
from sluice.core.registry.keys import Roots
from sluice.core.rerun.evidence import PolicyEvidence
from sluice.core.rerun.policy_then import DecisionSettings, PolicyThen
from sluice.core.rerun.recomputation import Recomputation
from sluice.core.rerun.rerunner import Rerunner
from sluice.core.rerun.walk import DECIDED, PartitionWalk, WrittenRecord, group_answers, read_entry
from sluice.core.state.session import KEY_PREFIX, SessionState
from sluice.core.trust.in_force import PolicyReducer
from sluice.settings.groups import Settings
from sluice.shipped import SHIPPED_FILES
from sluice.verifier.export import Located
from sluice.verifier.verify import verify
from sluice_demo.throwaway_trust import ThrowawayTrust
from sluice_topics.catalog import BY_NAME
from sluice_topics.headers import make_output_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sluice.core.foundation.requests import Request
    from sluice.core.policy.policy import Policy
    from sluice.core.state.decision import Shared
    from sluice_demo.throwaway_trust import ControlRecord

BEGAN_MS, HOUR = 1_763_730_000_000, 3_600_000
LAG_MS = 10_000
VERSION = "0.1.0+attacked"
PARTITION = 3
VALUES_KEY = bytes(range(32))
"""The master key of values' fingerprints."""
LIMITS = Settings().build_limits()
SHIPPED = json.loads(Path(SHIPPED_FILES, "bundles", "default.json").read_bytes())
QUALITY = json.loads(Path(SHIPPED_FILES, "quality", "default.json").read_bytes())
WIPES = {
    "id": "wipes",
    "reason": "removes everything",
    "severity": "critical",
    "source": "here",
    "pattern": "rm -rf",
}
TERMS = "https://example.com/terms"
AGENTS = ("operator", "frozen")
NOTHING_MORE: Mapping[str, Any] = {}


def bundle(revision: int, *, lax: bool, more: Mapping[str, Any] = NOTHING_MORE) -> bytes:
    """The shipped tables and those of `more`; the lax one has no pattern."""
    tables = {name: value for name, value in SHIPPED.items() if name not in ("include", "cases")}
    patterns = {} if lax else {"patterns": {"text": [WIPES]}}
    return json.dumps({**tables, **patterns, **more, "revision": revision}).encode()


@dataclass
class RecordedInstallation:
    """`records` in the order of the chain; `inputs` by place; `control`: both control topics; `tables`: what
    its bundles say beside what ships; `more` gives further control records of the beginning."""

    trust: ThrowawayTrust = field(default_factory=ThrowawayTrust)
    control: list[InputRecord] = field(default_factory=list)
    inputs: dict[tuple[str, int, int], InputRecord] = field(default_factory=dict)
    records: list[WrittenRecord] = field(default_factory=list)
    now: int = BEGAN_MS
    tables: Mapping[str, Any] = field(default_factory=dict)
    more: Callable[[ThrowawayTrust], Sequence[ControlRecord]] = lambda _: ()

    def __post_init__(self) -> None:
        """A lax bundle, an hour later a strict one, another hour later a freeze of one agent."""
        lax = self.trust.sign_bundle(bundle(1, lax=True, more=self.tables))
        self._publish(self.trust.make_approver(), *self.trust.sign_entries(_entries()), lax)
        self._publish(
            self.trust.sign_quality_bundle(json.dumps({**QUALITY, "cases": QUALITY["cases"][:1]}).encode())
        )
        self._publish(*self.more(self.trust))
        self.now += HOUR
        self._publish(self.trust.sign_bundle(bundle(2, lax=False, more=self.tables)))
        self.now += HOUR
        freeze = {"subject": "agent", "subject_id": "frozen", "reason": "under investigation"}
        self._publish(
            *self.trust.sign_entries([{"kind": "freeze", "id": "f", "revision": 1, "spec": freeze}])
        )
        self.now += HOUR
        self._roots = Roots([self.trust.root_key])
        self._chain = Chain(PARTITION, decider_version=VERSION)
        point = PolicyReducer(self._roots, "sluice.default", _point).first(self.control)
        self._replay = Replay(point, self._answer)

    def take(self, topic: str, record: dict[str, Any]) -> None:
        """Decide on an input and write what comes of it."""
        self.now += 1000
        offset = sum(coordinates[0] == topic for coordinates in self.inputs)
        key, value = record["session_id"].encode(), json.dumps(record).encode()
        input_record = InputRecord(topic, PARTITION, offset, self.now, key, value)
        self.inputs[topic, PARTITION, offset] = input_record
        for out_record in self._replay.take(input_record).records:
            if BY_NAME[out_record.topic].ledger:
                written = self._chain.link(out_record.body)
                headers = tuple(
                    make_output_headers(out_record.body, out_record.kind, "/sluice/attacked", None)
                )
                self.records.append(self.lie(out_record.topic, out_record.subject.encode(), written, headers))

    def _answer(self, request: Request) -> Answer:
        """Earlier inputs are there; nothing else is."""
        if request.port != HELD_INPUT:
            return nobody(request)
        payload: Any = request.payload
        input_record = self.inputs.get((payload["topic"], payload["partition"], payload["offset"]))
        value = None if input_record is None else input_record.value
        return Answer("unavailable" if value is None else "answered", value)

    def lie(
        self,
        topic: str,
        key: bytes,
        value: bytes,
        headers: tuple[tuple[str, bytes], ...],
        offset: int | None = None,
    ) -> WrittenRecord:
        """A record as the broker would append it now."""
        end = sum(record.topic == topic for record in self.records) if offset is None else offset
        return WrittenRecord(topic, PARTITION, end, self.now + 5, key, value, headers)

    def examine(self, records: Sequence[WrittenRecord], *, cut: frozenset[str] = frozenset()) -> list[str]:
        """All that is said of these records, not the installation's own; empty: intact and identical."""
        report = verify(
            Located(
                record.topic, record.partition, record.offset, record.key, record.value, record.written_ms
            )
            for record in records
        )
        findings = [
            f"verify: {finding.code} at {finding.topic}/{finding.offset}" for finding in report.findings
        ]
        entries = [entry for record in records if (entry := read_entry(record)) is not None]
        walk = self.walk()
        for group in group_answers(sorted(entries, key=lambda entry: entry.fields["sequence"])):
            coordinates = group[0].coordinates
            for rerun in walk.take(
                group, None if coordinates is None else self.inputs.get(coordinates), self.inputs
            ):
                findings += [
                    f"rerun: {rerun.id}: {difference.field}: {difference.rerun}"
                    for difference in rerun.differences
                ]
                findings += [f"rerun: {rerun.id}: gone: {missing}" for missing in rerun.missing]
        for topic in DECIDED.keys() - cut:
            answered = walk.list_unanswered(
                record for coordinates, record in self.inputs.items() if coordinates[0] == topic
            )
            findings += [f"rerun: {unanswered.id}: no record answers it" for unanswered in answered]
        return findings

    @cached_property
    def _then(self) -> tuple[Rerunner, PolicyThen]:
        """The control topics do not change any more once inputs have come."""
        evidence = PolicyEvidence()
        for record in self.control:
            evidence.add(record.topic, record.value)
        stages = list_shipped_stages()
        defaults = "sluice.default", "sluice.quality", "attacked"
        of = DecisionSettings(stages, self._roots, *defaults, LIMITS, LAG_MS, VERSION, values_key=VALUES_KEY)
        then = PolicyThen(self.control, self._roots, of)
        by_name = {stage.name: stage for stage in stages}
        return Rerunner(evidence, by_name.__getitem__, VERSION, then), then

    @property
    def then(self) -> PolicyThen:
        """What was in force when."""
        return self._then[1]

    def walk(self) -> PartitionWalk:
        """Over the installation's partition, from its beginning."""
        rerunner, then = self._then
        return PartitionWalk(rerunner, Recomputation(then, LIMITS))

    def _publish(self, *records: ControlRecord) -> None:
        for topic, key, value in records:
            offset = sum(record.topic == topic for record in self.control)
            self.control.append(InputRecord(topic, 0, offset, self.now, key, value))


def make_decision(
    installation: RecordedInstallation,
    control: Sequence[InputRecord],
    input_record: InputRecord,
    kind: str = "Verdict",
    *,
    how: Literal["in turn", "alone", "unread"] = "in turn",
    shared: Shared = NOTHING_SHARED,
) -> dict[str, Any]:
    """The first decision of a kind on an input as the core would have given it under other control records:
    on the session that the inputs before it made, or `alone` on none, or `unread`."""
    point = PolicyReducer(Roots([installation.trust.root_key]), "sluice.default", _point).first(control)
    if how == "unread":
        decision = point.unread(input_record)
    else:
        state = SessionState(KEY_PREFIX + (input_record.key or b""))
        replay = Replay(point)
        for before in () if how == "alone" else installation.inputs.values():
            if before == input_record:
                break
            replay.take(before)
            state = replay.session(before.key or b"") if before.key == input_record.key else state
        decision = decide(point, input_record, state, nobody, shared)
    return next(record.body for record in decision.records if record.kind == kind)


def _point(policy: Policy) -> DecisionPoint:
    stages, environment = list_shipped_stages(), "attacked"
    return DecisionPoint(
        policy, stages, LIMITS, stopwatch=lambda: 0, environment=environment, values_key=VALUES_KEY
    )


def _entries() -> list[dict[str, Any]]:
    specs: list[tuple[str, str, dict[str, Any]]] = [
        *(
            ("agent", name, {"tenant_id": "acme", "tier": "T3", "autonomy_tier": "bounded"})
            for name in AGENTS
        ),
        ("tool", "find", {"tier": "T1", "action_type": "DATABASE_READ", "reversible": True}),
        ("tool", "erase", {"tier": "T3", "action_type": "DATABASE_WRITE", "reversible": False}),
        ("tool", "run", {"tier": "T2", "action_type": "CODE_EXECUTION", "reversible": True}),
    ]
    return [{"kind": kind, "id": name, "revision": 1, "spec": spec} for kind, name, spec in specs]
