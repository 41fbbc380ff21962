"""What a back-test comes to: which decisions change and why, and what people are asked before and after.

A tally is of one partition until `close`; then it is numbers alone, which add up with those of other
partitions.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sluice.core.actions.verdict import SCHEMA as VERDICT
from sluice.core.backtest.decision_outcomes import (
    LETS_PASS,
    OUTCOME_FIELDS,
    REFUSED,
    DescribedDecision,
    describe_any,
    describe_decision,
    find_gate,
    find_reason,
    name_outcome,
    pair_decisions,
)
from sluice.core.decide.kinds import DECISIONS
from sluice.core.foundation.clock import DAY_MS, read_milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Because = Literal["policy", "state", "unknown", "not_reproduced"]
"""Why a decision is not the one that was recorded: the candidate judges otherwise; what its earlier decisions
left in the state makes it so; it asks a model what nobody asked then; or what was in force then does not give
the recorded one either."""
LISTED = 1000
"""Changed decisions that are listed one by one, of all partitions together."""
_QUESTIONS = {
    "sluice/escalation_opened/v1": "escalation_id",
    "sluice/retrieval_escalation_opened/v1": "escalation_id",
    "sluice/quarantine_entered/v1": "memory_id",
}
"""What asks a person, by schema, and the field with its id."""
_DECIDED = {"approve": "approved", "deny": "denied", "reject": "denied"}
_ENDS = {
    "sluice/escalation_resolved/v1": ("escalation_id", None),
    "sluice/retrieval_escalation_resolved/v1": ("escalation_id", None),
    "sluice/escalation_expired/v1": ("escalation_id", "expired"),
    "sluice/retrieval_escalation_expired/v1": ("escalation_id", "expired"),
    "sluice/quarantine_approved/v1": ("memory_id", "approved"),
    "sluice/quarantine_rejected/v1": ("memory_id", "denied"),
    "sluice/quarantine_expired/v1": ("memory_id", "expired"),
    "sluice/quarantine_evicted/v1": ("memory_id", "expired"),
}
"""What ends a question, by schema: the field with its id, and how; None: as `decision` says."""
_SETTLED = "sluice/reservation_settled/v1"


class ChangeGroup(NamedTuple):
    """What changed decisions have in common; `before` and `after` are outcomes."""

    kind: str
    gate: str
    tool: str
    agent: str
    tenant: str
    before: str
    after: str
    because: Because


class ChangedDecision(NamedTuple):
    """One changed decision, to look at: its id, when it was decided (RFC 3339), whose it is, and the reasons
    that both decisions give."""

    id: str
    decided_at: str
    session: str
    reason_before: str | None
    reason_after: str | None
    group: ChangeGroup


@dataclass(slots=True)
class _AskedQuestion:
    """Something that a person was asked then, or is asked now. `outcome`: of the recorded decision;
    `carried`: its action was carried out; `reported`: and an outcome of it was reported."""

    day: int
    outcome: str
    carried: bool
    then: bool = False
    now: bool = False
    answer: str = "waiting"
    reported: bool = False


@dataclass
class BacktestTally:
    """`decided`: inputs decided again, by kind; `skipped`: those that could not be, by why; `unanswered`:
    questions to models that nobody asked then, by port. `begun_before`: sessions that began before what was
    read. `asked_then` and `asked_now`: by day (days since 1970), `dropped` and `remaining`: by how people
    answered, `added`: by what had been decided then; `added_carried`: those of them that were carried out,
    `added_reported`: and of which an outcome was reported."""

    decided: Counter[str] = field(default_factory=Counter)
    changes: Counter[ChangeGroup] = field(default_factory=Counter)
    listed: list[ChangedDecision] = field(default_factory=list)
    newly_allowed: int = 0
    newly_stopped: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    unanswered: Counter[str] = field(default_factory=Counter)
    begun_before: int = 0
    days: set[int] = field(default_factory=set)
    asked_then: Counter[int] = field(default_factory=Counter)
    asked_now: Counter[int] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    remaining: Counter[str] = field(default_factory=Counter)
    added: Counter[str] = field(default_factory=Counter)
    added_carried: int = 0
    added_reported: int = 0
    _questions: dict[str, _AskedQuestion] = field(default_factory=dict)
    _of_actions: dict[tuple[str, str], _AskedQuestion] = field(default_factory=dict)

    def skip(self, records: Iterable[Mapping[str, Any]], why: str) -> None:
        """Count decisions that cannot be made again."""
        self.skipped[why] += sum(record["schema"] in OUTCOME_FIELDS for record in records)

    def take_answer(self, record: Mapping[str, Any]) -> None:
        """A record of any kind: it may end a question, or report what became of an action."""
        end = _ENDS.get(record["schema"])
        if end is not None:
            question = self._questions.get(record[end[0]])
            if question is not None:
                question.answer = end[1] or _DECIDED.get(record["decision"], record["decision"])
        elif record["schema"] == _SETTLED:
            question = self._of_actions.get((record["session_id"], record["action_id"]))
            if question is not None:
                question.reported = True

    def take_questions(self, recorded: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> None:
        """What people were asked about an input, and what they are asked now."""
        then_asked, now_asked = set(_list_questions(recorded)), set(_list_questions(now))
        if not (then_asked or now_asked):
            return
        deciding = next((record for record in recorded if record["schema"] in OUTCOME_FIELDS), recorded[0])
        described = describe_decision(deciding)
        outcome = REFUSED if described is None else described.outcome
        carried = described is not None and (
            described.published in LETS_PASS or deciding.get("mode") == "standard"
        )
        for name in then_asked | now_asked:
            question = _AskedQuestion(
                _get_day(recorded[0]), outcome, carried, name in then_asked, name in now_asked
            )
            self._questions[name] = question
            if deciding["schema"] == VERDICT and not question.then:
                self._of_actions[deciding["session_id"], deciding["action_id"]] = question

    def count(self, recorded: Sequence[Mapping[str, Any]]) -> None:
        """Count the decisions of an input."""
        for record in recorded:
            if record["schema"] in OUTCOME_FIELDS:
                self.decided[DECISIONS[record["schema"]].word] += 1
                self.days.add(_get_day(record))

    def take_changes(
        self,
        recorded: Sequence[Mapping[str, Any]],
        now: Sequence[Mapping[str, Any]],
        because: Because,
        tool: str | None,
    ) -> None:
        """Count what the candidate decides otherwise; where it asked what nobody answered (`because` is
        "unknown"), all that it decides."""
        for then_record, now_record in pair_decisions(recorded, now):
            before, after = describe_any(then_record), describe_any(now_record)
            if because != "unknown" and name_outcome(before) == name_outcome(after):
                continue
            subject = now_record if then_record is None else then_record
            group = ChangeGroup(
                (before or after).kind,  # type: ignore[union-attr]
                find_gate(then_record, now_record),
                tool or "-",
                str(subject["agent_id"] or "-"),  # type: ignore[index]
                str(subject["tenant_id"] or "-"),  # type: ignore[index]
                name_outcome(before),
                name_outcome(after),
                because,
            )
            self.changes[group] += 1
            self._list(group, then_record, now_record)
            if because in ("policy", "state"):
                self._count_direction(before, after)

    def close(self) -> BacktestTally:
        """Turn questions into numbers; afterwards nothing more can be taken."""
        for question in self._questions.values():
            self.asked_then[question.day] += question.then
            self.asked_now[question.day] += question.now
            if question.then:
                (self.remaining if question.now else self.dropped)[question.answer] += 1
            else:
                self.added[question.outcome] += 1
                self.added_carried += question.carried
                self.added_reported += question.reported
        self._questions, self._of_actions = {}, {}
        return self

    def add(self, other: BacktestTally) -> None:
        """Add the numbers of another partition."""
        for name in ("decided", "changes", "skipped", "unanswered", "asked_then", "asked_now"):
            getattr(self, name).update(getattr(other, name))
        for name in ("dropped", "remaining", "added"):
            getattr(self, name).update(getattr(other, name))
        for name in ("newly_allowed", "newly_stopped", "begun_before", "added_carried", "added_reported"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.days |= other.days
        self.listed = sorted([*self.listed, *other.listed], key=lambda change: change.decided_at)[:LISTED]

    def count_because(self, *reasons: Because) -> int:
        """Decisions that are not the recorded ones, for these reasons."""
        return sum(times for group, times in self.changes.items() if group.because in reasons)

    def _list(
        self, group: ChangeGroup, then: Mapping[str, Any] | None, now: Mapping[str, Any] | None
    ) -> None:
        if len(self.listed) < LISTED:
            subject: Mapping[str, Any] = then or now or {}
            name = describe_decision(subject)
            self.listed.append(
                ChangedDecision(
                    "" if name is None else name.id,
                    subject["decided_at"],
                    str(subject["session_id"] or ""),
                    find_reason(then),
                    find_reason(now),
                    group,
                )
            )

    def _count_direction(self, before: DescribedDecision | None, after: DescribedDecision | None) -> None:
        were = (False, False) if before is None else before.lets_pass
        are = (False, False) if after is None else after.lets_pass
        pairs = list(zip(were, are, strict=True))
        self.newly_allowed += (False, True) in pairs
        self.newly_stopped += (True, False) in pairs


def _get_day(record: Mapping[str, Any]) -> int:
    return read_milliseconds(record["decided_at"]) // DAY_MS


def _list_questions(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for record in records:
        id_field = _QUESTIONS.get(record["schema"])
        if id_field is not None:
            yield record[id_field]
