"""One partition of the ledger decided again under a candidate policy, from its inputs on.

What people, models and the world did is a fact and is taken from the records: reviews, outcomes, the models'
answers to the same questions, the histories of sources, resolutions of provenance, uses of destinations. What
follows from decisions follows from the candidate's own: sessions, escalations, quarantine, grants, limits. So
an action that the candidate does not let pass counts in no total, and its outcome is left out; an action that
was not carried out then and would be now has no outcome, and its reservation stays. A question that only the
candidate asks has no answer: its action is not carried out.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.actions.resolution import SCHEMA as RESOLVED
from sluice.core.actions.resolution import read_recorded_escalation
from sluice.core.actions.standing_grants import read_recorded_grant
from sluice.core.actions.verdict import SCHEMA as VERDICT
from sluice.core.backtest.asked_answers import AskedAnswers, collect_answers
from sluice.core.backtest.backtest_tally import BacktestTally
from sluice.core.backtest.decision_outcomes import has_changed
from sluice.core.decide.kinds import DECISIONS, read_input_message
from sluice.core.decide.replay import decide
from sluice.core.foundation.errors import CoreError
from sluice.core.memory.memory_record import SCHEMA as MEMORY
from sluice.core.memory.memory_record import read_parent_trust
from sluice.core.registry.registry_entries import UNREGISTERED
from sluice.core.rerun.evidence import restore_shared
from sluice.core.rerun.recomputation import omit_learnt
from sluice.core.state.book import Book, EscalationKept, GrantKept
from sluice.core.state.decision import Shared
from sluice.core.state.expiry import SCHEMA_FOLDED
from sluice.core.state.session import KEY_PREFIX, Counted, SessionState, session_key
from sluice_topics.catalog import MEMORY_WRITES, OUTCOMES, RETRIEVALS
from sluice_topics.record_reading import Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.core.backtest.backtest_tally import Because
    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.rerun.policy_then import PolicyThen
    from sluice.core.rerun.walk import Inputs, LedgerEntry, Place
    from sluice.core.state.decision import Decision

INPUT_GONE = "the input is no longer there"
NO_POLICY = "which policy was in force cannot be told"
NOT_READ = "a worker denied it without reading it"
MALFORMED = "its records are malformed; `sluice ledger verify` says how"
_GRANT_GIVEN = "sluice/grant_given/v1"
_SETTLED = "sluice/reservation_settled/v1"


class BacktestPeriod(NamedTuple):
    """Which inputs are compared, by the broker's time, ms: from `since_ms` on and before `until_ms`. Those
    before are decided under the policy of then, and give the state with which the period begins; `read_ms` is
    the time from which records were read, 0 for all."""

    since_ms: int
    until_ms: int
    read_ms: int

    def has_input(self, coordinates: Mapping[str, Any] | None) -> bool:
        """Whether the input that a record names is decided again; None: a timer's record names none."""
        return coordinates is not None and coordinates["timestamp"] < self.until_ms


class CandidateBook(Book):
    """A partition's book under the candidate. The trust in parents that it does not hold is as recorded."""

    def __init__(self) -> None:
        super().__init__({})
        self.recorded_trust: Mapping[str, float | None] = {}

    def trust_of(self, tenant: str, memory_id: str) -> float | None:
        """The trust in a memory in quarantine, or what the record says of it."""
        trust = super().trust_of(tenant, memory_id)
        return self.recorded_trust.get(memory_id) if trust is None else trust


@dataclass
class _Carried:
    """Whether an action was carried out then, and whether it is under the candidate."""

    then: bool = False
    now: bool = False


class _InputRecords(NamedTuple):
    """The records of one input, and their fields."""

    group: Sequence[LedgerEntry]
    fields: list[dict[str, Any]]


class _AnsweredInput(NamedTuple):
    """The records of one input, the input as it came to the decision, and earlier inputs."""

    records: Sequence[LedgerEntry]
    fields: list[dict[str, Any]]
    input_record: InputRecord
    inputs: Inputs


class _Judged(NamedTuple):
    """A decision, the ports of questions without an answer, and the point of then, in whose place another
    decided."""

    decision: Decision
    unanswered: list[str]
    then: DecisionPoint


@dataclass
class PartitionBacktest:
    """Hand it the records of a partition in their order, those of one input together, then read `tally`.

    `then`: what was in force when; `candidate`: the same with the candidate in its place.
    """

    then: PolicyThen
    candidate: PolicyThen
    period: BacktestPeriod
    tally: BacktestTally = field(default_factory=BacktestTally)
    _book: CandidateBook = field(default_factory=CandidateBook)
    _sessions: dict[bytes, SessionState] = field(default_factory=dict)
    _carried: defaultdict[bytes, dict[str, _Carried]] = field(default_factory=lambda: defaultdict(dict))
    _asking: dict[Place, InputRecord] = field(default_factory=dict)
    _granted: set[str] = field(default_factory=set)
    _departed: bool = False

    def take(self, group: Sequence[LedgerEntry], input_record: InputRecord | None, inputs: Inputs) -> None:
        """Decide on one input again. `group`: the records that answer it; `inputs`: earlier ones."""
        fields = [entry.fields for entry in group]
        try:
            self._take(_InputRecords(group, fields), input_record, inputs)
        except (CoreError, KeyError, TypeError, ValueError):
            self.tally.skip(fields, MALFORMED)

    def _take(self, answers: _InputRecords, input_record: InputRecord | None, inputs: Inputs) -> None:
        group, fields = answers
        for record in fields:
            self.tally.take_answer(record)
            if record["schema"] == _GRANT_GIVEN:
                self._granted.add(record["grant_id"])
        if fields[0]["input"] is None:
            self._fold(fields[0])
            return
        if not self.period.has_input(fields[0]["input"]):
            return
        came_ms = fields[0]["input"]["timestamp"]
        why = self._find_obstacle(fields, input_record)
        if why is not None or input_record is None:
            if came_ms >= self.period.since_ms:
                self.tally.skip(fields, why or INPUT_GONE)
            return
        recorded = next((record for record in fields if "waited_ms" in record), None)
        if recorded is not None:
            input_record = replace(input_record, waited_ms=recorded["waited_ms"])
        self._decide(_AnsweredInput(group, fields, input_record, inputs))

    def _find_obstacle(self, fields: list[dict[str, Any]], input_record: InputRecord | None) -> str | None:
        if input_record is None or input_record.coordinates() != fields[0]["input"]:
            return INPUT_GONE
        for record in fields:
            decision = DECISIONS.get(record["schema"])
            if decision is not None and record[decision.read_field] is None:
                return NOT_READ
        return None

    def _decide(self, group: _AnsweredInput) -> None:
        input_record, now_ms = group.input_record, group.input_record.timestamp_ms
        key = KEY_PREFIX + (input_record.key or b"")
        if input_record.topic == OUTCOMES and self._is_left_out(key, group.fields):
            return
        state = self._open_session(key, group)
        most = len(self._book) + len(self._book.open)
        policy = self.candidate if now_ms >= self.period.since_ms else self.then
        judged = self._judge(policy, group, state, most)
        if judged is None:
            self.tally.skip(group.fields, NO_POLICY)
            return
        if policy is self.candidate:
            self._compare(group, state, judged)
        early = any(record.get("early") for record in group.fields)
        changes = judged.decision.session
        state.apply(omit_learnt(changes) if early else changes)
        self._book.apply(judged.decision.book)
        self._note_carried(key, group, judged.decision)

    def _judge(
        self, policy: PolicyThen, group: _AnsweredInput, state: SessionState, most: int
    ) -> _Judged | None:
        """The decision under a policy. Where what was in force then changed while it was made, the candidate
        takes the place in the policy that gives what was recorded."""
        input_record, first = group.input_record, group.records[0]
        named = {"registry_hashes": {}, "bundle_hash": None, **_find_deciding(group.fields)}
        times = input_record.timestamp_ms, first.written.written_ms
        then = [points.get_point(named) for points in self.then.find_possible(named, *times).points]
        points = [points.get_point(named) for points in policy.find_possible(named, *times).points]
        if not points or not then:
            return None
        if most:
            gone = then[-1].expire_held(self._book, input_record.timestamp_ms, most)
            if gone is not None:
                self._book.apply(gone.book)
        shared, index = self._share(group), -1
        if len(then) > 1:
            index = next((at for at in (-1, 0) if self._agrees(then[at], group, state, shared)), -1)
        answers = self._find_answers(then[index], group)
        decision = decide(points[index], input_record, state, answers.next, shared)
        return _Judged(decision, answers.unanswered, then[index])

    def _agrees(
        self, point: DecisionPoint, group: _AnsweredInput, state: SessionState, shared: Shared
    ) -> bool:
        """Whether what was in force then gives the recorded outcomes on the state of now."""
        answers = self._find_answers(point, group)
        decision = decide(point, group.input_record, state, answers.next, shared)
        now = [record.body for record in decision.records]
        return not answers.unanswered and not has_changed(group.fields, now)

    def _find_answers(self, then: DecisionPoint, group: _AnsweredInput) -> AskedAnswers:
        inputs = {**group.inputs, **self._asking} if self._asking else group.inputs
        asked = any(record.get("model_outputs") for record in group.fields)
        by_question = collect_answers(then, group.input_record, group.fields, inputs) if asked else {}
        return AskedAnswers(by_question, inputs)

    def _share(self, group: _AnsweredInput) -> Shared:
        """The candidate's book, and beside it what was shared then."""
        fields, input_record = group.fields, group.input_record
        deciding = _find_deciding(fields)
        self._book.recorded_trust = {}
        if input_record.topic in (MEMORY_WRITES, RETRIEVALS):
            if deciding["schema"] == MEMORY:
                self._book.recorded_trust = read_parent_trust(deciding)
            elif deciding["schema"] not in DECISIONS:
                return Shared(self._book)
            return replace(restore_shared(fields, input_record), book=self._book)
        if deciding["schema"] == RESOLVED:
            self._believe_escalation(deciding)
        elif deciding["schema"] == VERDICT and "grant" in deciding:
            self._believe_grant(deciding, input_record)
        session = deciding.get("session")
        if isinstance(session, dict) and session.get("values") is not None:
            return Shared(self._book, uses=restore_shared(fields, input_record).uses)
        return Shared(self._book)

    def _believe_escalation(self, resolved: dict[str, Any]) -> None:
        """An escalation that was opened before what was read."""
        escalation = read_recorded_escalation(resolved)
        if escalation.opened_ms < self.period.read_ms and not self._book.escalation(escalation.escalation_id):
            self._book.apply([EscalationKept(escalation)])

    def _believe_grant(self, verdict: dict[str, Any], input_record: InputRecord) -> None:
        """A standing grant that was given before what was read."""
        message = read_input_message(input_record)
        grant = read_recorded_grant(verdict, getattr(message, "tool_name", ""))
        is_earlier = grant is not None and not grant.of_agent and grant.grant_id not in self._granted
        if grant is not None and is_earlier and self._book.grant(grant.grant_id) is None:
            self._granted.add(grant.grant_id)
            self._book.apply([GrantKept(grant)])

    def _open_session(self, key: bytes, group: _AnsweredInput) -> SessionState:
        """The session; one that began before what was read has the totals that its first record says."""
        state = self._sessions.get(key)
        if state is not None:
            return state
        state = self._sessions[key] = SessionState(key)
        deciding = _find_deciding(group.fields)
        before = deciding["session"]["before"] if deciding["schema"] in (VERDICT, RESOLVED) else None
        if before is not None and before["aggregateActionCount"]:
            state.opened_at = state.last_at = group.input_record.timestamp_ms
            tenant = UNREGISTERED if deciding["tenant_id"] is None else deciding["tenant_id"]
            rows, actions = int(before["aggregateRowsAffected"]), before["aggregateActionCount"]
            state.apply([Counted(tenant, rows, actions)])
            self.tally.begun_before += 1
        return state

    def _compare(self, group: _AnsweredInput, state: SessionState, judged: _Judged) -> None:
        """Count what the candidate says otherwise, and why: by itself, or by what its earlier decisions left
        in the state."""
        tally, recorded = self.tally, group.fields
        now = [record.body for record in judged.decision.records]
        tally.count(recorded)
        tally.take_questions(recorded, now)
        tally.unanswered.update(judged.unanswered)
        if not judged.unanswered and not has_changed(recorded, now):
            return
        because: Because = "unknown" if judged.unanswered else "policy"
        if not judged.unanswered and not self._agrees(judged.then, group, state, self._share(group)):
            because = "state" if self._departed else "not_reproduced"
        tally.take_changes(recorded, now, because, _find_tool(group.input_record))
        self._departed = self._departed or because in ("policy", "unknown")

    def _note_carried(self, key: bytes, group: _AnsweredInput, decision: Decision) -> None:
        """Remember which actions were carried out then and are now."""
        for record in group.fields:
            if record["schema"] in (VERDICT, RESOLVED) and _is_carried(record):
                self._carried[key].setdefault(record["action_id"], _Carried()).then = True
        for out_record in decision.records:
            body = out_record.body
            if body["schema"] in (VERDICT, RESOLVED) and _is_carried(body):
                self._carried[key].setdefault(body["action_id"], _Carried()).now = True
            if out_record.kind.endswith("EscalationOpened"):
                self._asking[_get_place(group.input_record)] = group.input_record

    def _is_left_out(self, key: bytes, fields: list[dict[str, Any]]) -> bool:
        """Whether these are outcomes of an action that the candidate does not let be carried out."""
        of_session = self._carried.get(key, {})
        carried = [of_session.get(record["action_id"]) for record in fields if record["schema"] == _SETTLED]
        return any(each is not None and each.then and not each.now for each in carried)

    def _fold(self, record: dict[str, Any]) -> None:
        if record["schema"] == SCHEMA_FOLDED:
            key = session_key(record["session_id"])
            self._sessions.pop(key, None)
            self._carried.pop(key, None)


def _find_deciding(fields: list[dict[str, Any]]) -> dict[str, Any]:
    return next((record for record in fields if record["schema"] in DECISIONS), fields[0])


def _is_carried(verdict: Mapping[str, Any]) -> bool:
    return bool(verdict["outcome"] == "ALLOW" or verdict["mode"] != "high_stakes")


def _get_place(input_record: InputRecord) -> Place:
    return input_record.topic, input_record.partition, input_record.offset


def _find_tool(input_record: InputRecord) -> str | None:
    message = read_input_message(input_record)
    return None if isinstance(message, Unreadable) else getattr(message, "tool_name", None)
