"""Builds the report of a back-test from its numbers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from sluice.core.backtest.backtest_report import (
    BacktestCounts,
    BacktestReport,
    BoundCheck,
    ComparedPeriod,
    ListedChange,
    NewlyAsked,
    OutcomeChange,
    QuestionDay,
    QuestionLoad,
)
from sluice.core.foundation.clock import DAY_MS, rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sluice.core.backtest.backtest_report import BoundName, ChangeBound
    from sluice.core.backtest.backtest_tally import BacktestTally, ChangedDecision, ChangeGroup
    from sluice.core.policy.bundles import Bundle
    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.rerun.policy_then import Candidate

_CHANGED = ("policy", "state")


class BacktestScope(NamedTuple):
    """What a report is about: the candidate, where the ledger was read, and the times, ms; None: open."""

    candidate: Candidate
    source: str
    since_ms: int | None
    until_ms: int | None
    read_ms: int | None


def build_backtest_report(
    tally: BacktestTally, scope: BacktestScope, bounds: Mapping[BoundName, ChangeBound]
) -> BacktestReport:
    """The report of a whole back-test."""
    counts, questions = _build_counts(tally), _build_questions(tally)
    changed = {group: times for group, times in tally.changes.items() if group.because in _CHANGED}
    values: dict[BoundName, int] = {
        "changed": counts.changed,
        "newly_allowed": counts.newly_allowed,
        "newly_stopped": counts.newly_stopped,
        "unknown": counts.unknown,
        "questions_per_day": questions.busiest_day_after,
    }
    return BacktestReport(
        candidate=_name_candidate(scope.candidate),
        source=scope.source,
        period=ComparedPeriod(
            since=_name_moment(scope.since_ms),
            until=_name_moment(scope.until_ms),
            read_from=_name_moment(scope.read_ms),
            days=len(tally.days),
        ),
        decisions=counts,
        transitions=_list_transitions(changed, None),
        by_gate=_list_transitions(changed, "gate"),
        by_tool=_list_transitions(changed, "tool"),
        by_agent=_list_transitions(changed, "agent"),
        by_tenant=_list_transitions(changed, "tenant"),
        questions=questions,
        bounds=[
            BoundCheck(
                bound=name,
                most=str(bound),
                value=values[name],
                exceeded=bound.is_exceeded(values[name], counts.decided),
            )
            for name, bound in bounds.items()
        ],
        listed=[_list_change(change) for change in tally.listed],
        all_listed=len(tally.listed) == sum(tally.changes.values()),
    )


def _build_counts(tally: BacktestTally) -> BacktestCounts:
    decided, by_policy = tally.decided.total(), tally.count_because("policy")
    by_state, unknown = tally.count_because("state"), tally.count_because("unknown")
    not_reproduced = tally.count_because("not_reproduced")
    return BacktestCounts(
        decided=decided,
        by_kind=dict(sorted(tally.decided.items())),
        unchanged=max(0, decided - by_policy - by_state - unknown - not_reproduced),
        changed=by_policy + by_state,
        by_policy=by_policy,
        by_state=by_state,
        newly_allowed=tally.newly_allowed,
        newly_stopped=tally.newly_stopped,
        unknown=unknown,
        not_reproduced=not_reproduced,
        skipped=_drop_nothing(tally.skipped),
        unanswered=_drop_nothing(tally.unanswered),
        sessions_begun_before=tally.begun_before,
    )


def _build_questions(tally: BacktestTally) -> QuestionLoad:
    days = sorted(tally.days | tally.asked_then.keys() | tally.asked_now.keys())
    before, after = tally.asked_then.total(), tally.asked_now.total()
    return QuestionLoad(
        before=before,
        after=after,
        a_day_before=round(before / max(1, len(days)), 2),
        a_day_after=round(after / max(1, len(days)), 2),
        busiest_day_before=max(tally.asked_then.values(), default=0),
        busiest_day_after=max(tally.asked_now.values(), default=0),
        by_day=[
            QuestionDay(
                day=rfc3339(day * DAY_MS)[:10], before=tally.asked_then[day], after=tally.asked_now[day]
            )
            for day in days
        ],
        no_longer_asked=_drop_nothing(tally.dropped),
        still_asked=_drop_nothing(tally.remaining),
        newly_asked=NewlyAsked(
            questions=tally.added.total(),
            by_outcome=_drop_nothing(tally.added),
            carried_out=tally.added_carried,
            outcome_reported=tally.added_reported,
        ),
    )


def _list_transitions(changed: Mapping[ChangeGroup, int], dimension: str | None) -> list[OutcomeChange]:
    """The most frequent first."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for group, times in changed.items():
        name = "" if dimension is None else getattr(group, dimension)
        counts[name, group.kind, group.before, group.after] += times
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [
        OutcomeChange(name=name, kind=kind, before=before, after=after, decisions=times)
        for (name, kind, before, after), times in ordered
    ]


def _list_change(change: ChangedDecision) -> ListedChange:
    return ListedChange(
        id=change.id,
        decided_at=change.decided_at,
        session_id=change.session,
        reason_before=change.reason_before,
        reason_after=change.reason_after,
        **change.group._asdict(),
    )


def _name_candidate(candidate: Candidate) -> list[str]:
    bundles: list[Bundle | QualityBundle] = [*candidate.bundles.values(), *candidate.quality.values()]
    names = [f"bundle {bundle.id}@{bundle.revision} {bundle.hash}" for bundle in bundles]
    return [*names, *(f"entry {entry.key} {entry.hash}" for entry in candidate.entries)]


def _drop_nothing(counts: Mapping[str, int]) -> dict[str, int]:
    items: Iterable[tuple[str, int]] = sorted(counts.items())
    return {name: count for name, count in items if count}


def _name_moment(at_ms: int | None) -> str | None:
    return None if at_ms is None else rfc3339(at_ms)
