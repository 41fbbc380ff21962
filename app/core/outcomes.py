"""Outcomes: what an executed action really did settles what was reserved for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.clock import rfc3339
from app.core.decision import Decision, OutRecord
from app.core.draft import SessionDraft
from app.core.expiry import time_records
from app.core.ids import outcome_id
from app.core.ledger.canonical import wire_int
from app.core.refusals import refused
from app.core.reservations import Settlement, settle
from app.core.session import EarlyOutcome
from app.core.signatures import may_lower
from topics.catalog import SESSION_EVENTS

if TYPE_CHECKING:
    from app.core.arrival import Arrival
    from app.core.point import PointParts
    from app.core.session import SessionState
    from topics.records import ActionOutcome

SCHEMA = "sluice/reservation_settled/v1"


def evaluate(parts: PointParts, arrival: Arrival, outcome: ActionOutcome, state: SessionState) -> Decision:
    """Settle the action in every account that it may mean; keep the outcome when the action has not come.

    A reporter that the registry knows speaks for its own tenant only.
    """
    draft = SessionDraft(state, parts.limits, arrival.timestamp_ms)
    records = time_records(draft)
    report = _report(parts, arrival, outcome, draft.now)
    tenants = draft.tenants() if report.tenant is None else [report.tenant]
    settled = _settled_in(draft, report, tenants)
    if settled:
        records += [
            settled_record(draft, report, one, place, early=False) for place, one in enumerate(settled)
        ]
    elif len(draft.early) >= parts.limits.max_early_outcomes:
        message = "too many outcomes of this session wait for their action"
        records.append(
            refused(
                arrival.coordinates(),
                arrival.timestamp_ms,
                outcome.session_id,
                outcome.action_id,
                "early_outcomes_full",
                message,
            )
        )
    else:
        draft.early = [*draft.early, report]
    return Decision(draft.transition(), records)


def settle_early(draft: SessionDraft, tenant: str, action_id: str) -> list[OutRecord]:
    """Settle an action that has just come by the outcomes that came before it, in their order."""
    if not draft.early:
        return []
    meant = [one for one in draft.early if one.action_id == action_id and one.tenant in (None, tenant)]
    draft.early = [one for one in draft.early if one not in meant]
    return [
        settled_record(draft, one, settlement, 0, early=True)
        for one in meant
        for settlement in _settled_in(draft, one, [tenant])
    ]


def settled_record(
    draft: SessionDraft, report: EarlyOutcome, settlement: Settlement, place: int, *, early: bool
) -> OutRecord:
    """ReservationSettled; `place` counts the accounts that one outcome settles."""
    coordinates: dict[str, Any] = report.coordinates()
    decision_id = f"{coordinates['topic']}:{coordinates['partition']}:{coordinates['offset']}"
    session_id = draft.state.session_id
    body = {
        "schema": SCHEMA,
        "outcome_id": outcome_id(decision_id, place),
        "action_id": report.action_id,
        "session_id": session_id,
        "tenant_id": settlement.tenant,
        "reserved": wire_int(settlement.counted),
        "actual": wire_int(report.rows),
        "aggregateRowsAffected": wire_int(settlement.after),
        "lowered": settlement.lowered,
        "early": early,
        "reported_by": report.reported_by,
        "decided_at": rfc3339(draft.now),
        "input": coordinates,
    }
    return OutRecord(SESSION_EVENTS, "ReservationSettled", body, session_id)


def _report(parts: PointParts, arrival: Arrival, outcome: ActionOutcome, now_ms: int) -> EarlyOutcome:
    return EarlyOutcome(
        outcome.action_id,
        parts.policy.registry.reporter_tenant(outcome.reported_by),
        now_ms,
        outcome.rows_affected,
        may_lower(parts.policy.registry, outcome),
        outcome.reported_by,
        [*arrival.coordinates().values()],
    )


def _settled_in(draft: SessionDraft, report: EarlyOutcome, tenants: list[str]) -> list[Settlement]:
    return [
        settle(draft, tenant, report.action_id, known, report.rows, lowers=report.lowers)
        for tenant in tenants
        if (known := draft.action(tenant, report.action_id)) is not None
    ]
