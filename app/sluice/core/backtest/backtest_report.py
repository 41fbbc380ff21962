"""The report of a back-test: what a candidate policy would have decided otherwise in a period, what it would
have asked people, and the bounds that a policy's CI sets."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import Field

from sluice.core.backtest.backtest_tally import Because  # noqa: TC001 - pydantic reads the annotations
from sluice.core.foundation.strict import StrictModel

Count = Annotated[int, Field(ge=0)]
BoundName = Literal["changed", "newly_allowed", "newly_stopped", "unknown", "questions_per_day"]
BOUNDS: tuple[BoundName, ...] = get_args(BoundName)


class BacktestCounts(StrictModel):
    """Decisions of the period. `decided`: made again; `changed`: with another outcome, `by_policy` because
    the candidate judges otherwise, `by_state` because of what its earlier decisions left; `unknown`: it asks
    a model what nobody asked then; `not_reproduced`: even the policy of then gives another outcome than the
    record; `skipped`: not made again, by why."""

    decided: Count
    by_kind: dict[str, Count]
    unchanged: Count
    changed: Count
    by_policy: Count
    by_state: Count
    newly_allowed: Count
    newly_stopped: Count
    unknown: Count
    not_reproduced: Count
    skipped: dict[str, Count]
    unanswered: Annotated[dict[str, Count], Field(description="questions that nobody asked then, by port")]
    sessions_begun_before: Annotated[
        Count, Field(description="of which only the totals are known with which they came into what was read")
    ]


class OutcomeChange(StrictModel):
    """So many decisions of a kind, from one outcome to another. `name`: of the gate, tool, agent or tenant;
    empty for all."""

    name: str
    kind: str
    before: str
    after: str
    decisions: Count


class QuestionDay(StrictModel):
    """QuestionLoad to people on one day, in UTC."""

    day: str
    before: Count
    after: Count


class NewlyAsked(StrictModel):
    """QuestionLoad that only the candidate asks, by what was decided then. `carried_out`: their actions were
    carried out then; `outcome_reported`: and an outcome was reported."""

    questions: Count
    by_outcome: dict[str, Count]
    carried_out: Count
    outcome_reported: Count


class QuestionLoad(StrictModel):
    """Escalations and memories in quarantine. `a_day`: over the days that have decisions; `busiest_day`: the
    most of one day. `no_longer_asked` and `still_asked`: by how people had answered: approved, denied,
    expired, waiting."""

    before: Count
    after: Count
    a_day_before: float
    a_day_after: float
    busiest_day_before: Count
    busiest_day_after: Count
    by_day: list[QuestionDay]
    no_longer_asked: dict[str, Count]
    still_asked: dict[str, Count]
    newly_asked: NewlyAsked


class ListedChange(StrictModel):
    """One decision that is not the recorded one. The reasons are those of both decisions."""

    id: str
    decided_at: str
    session_id: str
    kind: str
    gate: str
    tool: str
    agent: str
    tenant: str
    before: str
    after: str
    because: Because
    reason_before: str | None
    reason_after: str | None


class BoundCheck(StrictModel):
    """A bound as it was given, what it bounds, and whether that is above it."""

    bound: BoundName
    most: str
    value: Count
    exceeded: bool


class ComparedPeriod(StrictModel):
    """What was compared. `since` null: from the first record on; `until` null: to the last. `read_from`: the
    records before it were not read; null: all were."""

    since: str | None
    until: str | None
    read_from: str | None
    days: Count


class BacktestReport(StrictModel):
    """What `sluice backtest --json` prints. `candidate`: its bundles and entries, with their revisions.
    `listed`: the first changed decisions, by time; `all_listed`: whether these are all."""

    schema_name: Annotated[Literal["sluice/backtest_report/v1"], Field(alias="schema")] = (
        "sluice/backtest_report/v1"
    )
    candidate: list[str]
    source: str
    period: ComparedPeriod
    decisions: BacktestCounts
    transitions: list[OutcomeChange]
    by_gate: list[OutcomeChange]
    by_tool: list[OutcomeChange]
    by_agent: list[OutcomeChange]
    by_tenant: list[OutcomeChange]
    questions: QuestionLoad
    bounds: list[BoundCheck]
    listed: list[ListedChange]
    all_listed: bool

    @property
    def is_within_bounds(self) -> bool:
        """Whether no bound is exceeded."""
        return not any(check.exceeded for check in self.bounds)


class ChangeBound(NamedTuple):
    """At most so many, or so many per cent of the decisions made again."""

    amount: float
    is_share: bool

    def is_exceeded(self, value: int, whole: int) -> bool:
        """Whether the value is above it."""
        return value * 100 > self.amount * whole if self.is_share else value > self.amount

    def __str__(self) -> str:
        """As it was given."""
        return f"{self.amount:g}%" if self.is_share else f"{self.amount:g}"


def read_bound(text: str) -> ChangeBound:
    """A bound such as 20 or 0.5%. Raises ValueError."""
    number, is_share = text.removesuffix("%"), text.endswith("%")
    if not number.replace(".", "", is_share).isdecimal():
        raise ValueError(f"{text!r} is no number such as 20 and no share such as 0.5%")
    return ChangeBound(float(number), is_share)
