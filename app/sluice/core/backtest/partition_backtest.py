"""One partition of the ledger decided again under a candidate policy, from its inputs on.

What people, models and the world did is a fact and is taken from the records: reviews, outcomes, the models'
answers to the same questions, the histories of sources, resolutions of provenance, uses of destinations. What
follows from decisions follows from the candidate's own: sessions, escalations, quarantine, grants, limits. So
an action that the candidate does not let pass counts in no total, and its outcome is left out; an action that
was not carried out then and would be now has no outcome, and its reservation stays. A question that only the
candidate asks has no answer: its action is not carried out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.backtest.asked_answers import AskedAnswers, collect_answers
from sluice.core.backtest.backtest_tally import BacktestTally
from sluice.core.backtest.candidate_state import CandidateState, find_deciding
from sluice.core.backtest.decision_outcomes import has_changed
from sluice.core.decide.kinds import DECISIONS, read_input_message
from sluice.core.decide.replay import decide
from sluice.core.foundation.errors import CoreError
from sluice.core.foundation.sealed_input import lacks_keys
from sluice.core.rerun.recomputation import believe_time
from sluice.core.state.session import KEY_PREFIX
from sluice_topics.catalog import OUTCOMES
from sluice_topics.record_reading import Unreadable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.core.backtest.backtest_tally import Because
    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.rerun.policy_then import PolicyThen
    from sluice.core.rerun.walk import Inputs, LedgerEntry
    from sluice.core.state.decision import Decision, Shared
    from sluice.core.state.session import SessionState

INPUT_GONE = "the input is no longer there"
KEY_GONE = "the key of a person in it was destroyed, or is not known here"
NO_POLICY = "which policy was in force cannot be told"
NOT_READ = "a worker denied it without reading it"
MALFORMED = "its records are malformed; `sluice ledger verify` says how"


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


class _AnsweredInput(NamedTuple):
    """The records of one input, the time of the first, the input as it came to the decision, and earlier
    inputs."""

    fields: list[dict[str, Any]]
    written_ms: int
    input_record: InputRecord
    inputs: Inputs


class _Judged(NamedTuple):
    """A decision, the ports of questions without an answer, and which of the policies of then it was made in
    the place of."""

    decision: Decision
    unanswered: list[str]
    which: int


@dataclass
class PartitionBacktest:
    """Hand it the records of a partition in their order, those of one input together, then `close` it.

    `then`: what was in force when; `candidate`: the same with the candidate in its place.
    """

    then: PolicyThen
    candidate: PolicyThen
    period: BacktestPeriod
    _tally: BacktestTally = field(default_factory=BacktestTally)
    _departed: bool = False

    def __post_init__(self) -> None:
        """Begin with no session."""
        self._keyring = self.then.decision_settings.keyring
        self._state = CandidateState(self.period.read_ms)

    def take(self, group: Sequence[LedgerEntry], input_record: InputRecord | None, inputs: Inputs) -> None:
        """Decide on one input again. `group`: the records that answer it; `inputs`: earlier ones."""
        fields = [entry.fields for entry in group]
        try:
            self._take(fields, group[0].written.written_ms, input_record, inputs)
        except (CoreError, KeyError, TypeError, ValueError):
            self._tally.skip(fields, MALFORMED)

    def close(self) -> BacktestTally:
        """What came of it; afterwards nothing more can be taken."""
        self._tally.begun_before = self._state.begun_before
        return self._tally.close()

    def _take(
        self, fields: list[dict[str, Any]], written_ms: int, input_record: InputRecord | None, inputs: Inputs
    ) -> None:
        for record in fields:
            self._tally.take_answer(record)
            self._state.note(record)
        if not self.period.has_input(fields[0]["input"]):
            return
        why = _find_obstacle(fields, input_record)
        if why is None and input_record is not None and lacks_keys(self._keyring, input_record.value):
            why = KEY_GONE
        if why is not None or input_record is None:
            if fields[0]["input"]["timestamp"] >= self.period.since_ms:
                self._tally.skip(fields, why or INPUT_GONE)
            return
        waited = next((record for record in fields if "waited_ms" in record), None)
        if waited is not None:
            input_record = replace(input_record, waited_ms=waited["waited_ms"])
        self._decide(_AnsweredInput(fields, written_ms, input_record, inputs))

    def _decide(self, answered: _AnsweredInput) -> None:
        fields, input_record = answered.fields, answered.input_record
        key, now_ms = KEY_PREFIX + (input_record.key or b""), input_record.timestamp_ms
        if input_record.topic == OUTCOMES and self._state.is_left_out(key, fields):
            return
        state = self._state.open_session(key, find_deciding(fields), now_ms)
        believe_time(state, fields, now_ms)
        compared = now_ms >= self.period.since_ms
        judged = self._judge(self.candidate if compared else self.then, answered, state)
        if judged is None:
            self._tally.skip(fields, NO_POLICY)
            return
        if compared:
            self._compare(answered, state, judged)
        self._state.apply(state, fields, input_record, judged.decision)

    def _judge(self, policy: PolicyThen, answered: _AnsweredInput, state: SessionState) -> _Judged | None:
        """The decision under a policy. Where what was in force then changed while it was made, the candidate
        takes the place in the policy that gives what was recorded."""
        input_record, points = answered.input_record, _list_points(policy, answered)
        if not points:
            return None
        self._state.expire(points[-1], input_record.timestamp_ms)
        shared, which = self._state.share(answered.fields, input_record), -1
        if len(points) > 1:
            which = next((at for at in (-1, 0) if self._agrees(at, answered, state, shared)), -1)
        answers = self._find_answers(which, answered)
        decision = decide(points[which], input_record, state, answers.next, shared)
        return _Judged(decision, answers.unanswered, which)

    def _agrees(self, which: int, answered: _AnsweredInput, state: SessionState, shared: Shared) -> bool:
        """Whether what was in force then gives the recorded outcomes on the state of now."""
        points = _list_points(self.then, answered)
        if not points:
            return False
        answers = self._find_answers(which, answered)
        decision = decide(points[which], answered.input_record, state, answers.next, shared)
        now = [record.body for record in decision.records]
        return not answers.unanswered and not has_changed(answered.fields, now)

    def _find_answers(self, which: int, answered: _AnsweredInput) -> AskedAnswers:
        """The models' answers and the earlier inputs that a decision may ask for."""
        fields, places = answered.fields, (self._state.asking, answered.inputs)
        asked = any(record.get("model_outputs") for record in fields)
        points = _list_points(self.then, answered) if asked else []
        if not points:
            return AskedAnswers({}, places, self._keyring)
        inputs = {**answered.inputs, **self._state.asking}
        by_question = collect_answers(points[which], answered.input_record, fields, inputs, self._keyring)
        return AskedAnswers(by_question, places, self._keyring)

    def _compare(self, answered: _AnsweredInput, state: SessionState, judged: _Judged) -> None:
        """Count what the candidate says otherwise, and why: by itself, or by what its earlier decisions left
        in the state."""
        tally, recorded, input_record = self._tally, answered.fields, answered.input_record
        now = [record.body for record in judged.decision.records]
        tally.count(recorded)
        tally.take_questions(recorded, now)
        tally.unanswered.update(judged.unanswered)
        if not judged.unanswered and not has_changed(recorded, now):
            return
        because: Because = "unknown" if judged.unanswered else "policy"
        shared = self._state.share(recorded, input_record)
        if not judged.unanswered and not self._agrees(judged.which, answered, state, shared):
            because = "state" if self._departed else "not_reproduced"
        tally.take_changes(recorded, now, because, _find_tool(input_record))
        self._departed = self._departed or because in ("policy", "unknown")


def _find_obstacle(fields: list[dict[str, Any]], input_record: InputRecord | None) -> str | None:
    """Why an input cannot be decided again; None where it can."""
    if input_record is None or input_record.coordinates() != fields[0]["input"]:
        return INPUT_GONE
    for record in fields:
        decision = DECISIONS.get(record["schema"])
        if decision is not None and record[decision.read_field] is None:
            return NOT_READ
    return None


def _list_points(policy: PolicyThen, answered: _AnsweredInput) -> list[DecisionPoint]:
    """The decision points that an input can have met under a policy's history."""
    recorded = find_deciding(answered.fields)
    if recorded["schema"] not in DECISIONS:
        recorded = {"registry_hashes": {}, "bundle_hash": None, **recorded}
    possible = policy.find_possible(recorded, answered.input_record.timestamp_ms, answered.written_ms)
    return [points.get_point(recorded) for points in possible.points]


def _find_tool(input_record: InputRecord) -> str | None:
    message = read_input_message(input_record)
    return None if isinstance(message, Unreadable) else getattr(message, "tool_name", None)
