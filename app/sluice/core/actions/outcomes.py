"""Outcomes: what an executed action really did settles what was reserved for it.

An outcome that is not signed is a bare word, whatever name it gives as its reporter. What a signed one
settles stands under its signature: the digest and the coordinates of one action.
"""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Any

from sluice.core.actions.limits import list_corrections
from sluice.core.foundation.canonical import wire_int
from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.input_record import outcome_id
from sluice.core.foundation.refusals import Objection, refuse
from sluice.core.registry.agent_keys import UNSIGNED_AGENT
from sluice.core.registry.keys import is_signed
from sluice.core.state.decision import Decision
from sluice.core.state.expiry import make_time_records
from sluice.core.state.nonces import keep_nonce
from sluice.core.state.remembered import shorten_id
from sluice.core.state.reservations import (
    Settlement,
    find_meant,
    is_past,
    is_settled_for_good,
    is_waiting,
    may_wait,
    name_results,
    settle,
)
from sluice.core.state.session import EarlyOutcome, who
from sluice.core.state.session_view import SessionView
from sluice.core.state.usual import AgentName, record_use
from sluice_topics.catalog import ACTIONS, ALARMS, SESSION_EVENTS

if TYPE_CHECKING:
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.policy.policy import PointParts
    from sluice.core.state.decision import Shared
    from sluice.core.state.remembered import RecentAction
    from sluice.core.state.session import SessionState, Who
    from sluice_topics.records import ActionOutcome

SCHEMA = "sluice/reservation_settled/v1"
ALARM_SCHEMA = "sluice/outcome_alarm/v1"
DISPUTED = "outcome_disputed"


def evaluate(
    parts: PointParts, input_record: InputRecord, outcome: ActionOutcome, state: SessionState, shared: Shared
) -> Decision:
    """Settle the action in every account that it may mean; keep the outcome when the action has not come.

    A reporter that the registry knows speaks for its own tenant only. A signed outcome counts for the one
    action that it names under its signature, and once. One that a signing agent did not sign is refused and
    changes nothing.
    """
    view, signature = SessionView(state, parts.limits, input_record.timestamp_ms), input_record.signature
    if signature is not None and signature.refusal is not None:
        unsigned = Objection(UNSIGNED_AGENT, signature.refusal)
        return Decision((), [_refuse(view, outcome, input_record.coordinates(), unsigned)])
    records = make_time_records(view)
    signed = is_signed(parts.policy.registry, outcome)
    why = _unbound(input_record, outcome) if signed else None
    if signature is not None and signature.novelty == "replayed":
        why = REPEATED
    if why is None:
        report = _report(parts, input_record, outcome, view.now, signed=signed)
        tenants = view.tenants() if report.tenant is None else [report.tenant]
        matches = [match for tenant in tenants for match in find_meant(view, tenant, report)]
        why = _spent(view, parts, outcome, report, matches)
    if why is not None:
        records.append(_refuse(view, outcome, input_record.coordinates(), why))
        return Decision(view.changes(), records)
    if report.tenant is not None:
        keep_nonce(view, who(report.tenant, outcome.reported_by), input_record)
    records += _learn(parts, view, outcome, matches, signed=signed)
    if matches:
        open_ = [match for match in matches if not is_settled_for_good(match[1], report)]
        for index, match in enumerate(open_):
            records += _settle(parts, view, report, match, index, early=False)
    else:
        view.wait(report._replace(action_id=shorten_id(report.action_id)))
    return Decision(view.changes(), records, list_corrections(view, shared.book))


def _learn(
    parts: PointParts,
    view: SessionView,
    outcome: ActionOutcome,
    matches: list[tuple[Who, RecentAction]],
    *,
    signed: bool,
) -> list[OutRecord]:
    """Keep the values that the action's tool returned; the records on what it used, for the agents' counts:
    each once, and nothing of a disputed action. Of an outcome that comes before its action nothing is
    learnt: what that returned is then not known. What an action returned that was not to be carried out is
    nobody's word."""
    taught = []
    for owner, action in matches:
        if outcome.values is not None and parts.values_key is not None:
            if not action.carried:
                view.remember_strangers(owner, "a tool's result")
            view.remember_values(
                owner,
                name_results(action.offset),
                "a tool's result",
                [b64decode(fingerprint) for fingerprint in outcome.values.fingerprints],
                signed=signed,
                complete=not outcome.values.truncated,
            )
        if signed and outcome.error is None and not action.disputed:
            lesson = view.take_lesson(owner, action.offset)
            if lesson is not None:
                taught.append(record_use(AgentName(*owner), lesson, outcome.action_id, view.now))
    return taught


def settle_early(
    parts: PointParts, view: SessionView, owner: Who, action_id: str, offset: int
) -> list[OutRecord]:
    """Settle an action that has just come by the outcomes that came before it, in their order.

    One that is signed for this offset or an earlier one and finds its action by now nowhere never will: the
    actions of a session are decided in the order of their offsets.
    """
    records: list[OutRecord] = []
    for report in view.early:
        mine = report.tenant in (None, owner.tenant) and report.action_id in (
            action_id,
            shorten_id(action_id),
        )
        action = view.action(owner, action_id) if mine else None
        if action is not None and not report.means(action):
            action = None
        if action is not None and not is_settled_for_good(action, report):
            full_report = report._replace(action_id=action_id)
            records += _settle(parts, view, full_report, (owner, action), 0, early=True)
        elif action is not None:
            records.append(_refuse(view, report, report.coordinates(), USED if report.signed else SETTLED))
        elif report.offset is not None and report.offset <= offset:
            records.append(_refuse(view, report, report.coordinates(), OF_ANOTHER))
        else:
            continue
        view.answer(report)
    return records


UNBOUND = Objection(
    "outcome_unbound",
    "a signed outcome needs action_digest and input, the digest and the coordinates of the action it settles",
)
MISBOUND = Objection(
    "outcome_misbound", "input is no action of this partition, or action_digest is not the digest in input"
)
USED = Objection("outcome_replayed", "a signed outcome has settled this action already")
SETTLED = Objection(
    "already_settled", "a signed outcome has settled this action, and one that is not signed says no more"
)
OF_ANOTHER = Objection(
    "outcome_replayed", "the action that this outcome is signed for is not remembered here, or no longer"
)
REPEATED = Objection("outcome_replayed", "this signed record was decided before")
WAITS = Objection("outcome_replayed", "the same signed outcome waits for its action already")
UNKNOWN = Objection(
    "unknown_subject", "no such action is known, and an outcome of a reporter nobody registered does not wait"
)
FULL = Objection("early_outcomes_full", "too many outcomes of this session wait for their action")


def _unbound(input_record: InputRecord, outcome: ActionOutcome) -> Objection | None:
    bound = outcome.input
    if bound is None or outcome.action_digest is None:
        return UNBOUND
    here = (bound.topic, bound.partition, bound.digest) == (
        ACTIONS,
        input_record.partition,
        outcome.action_digest,
    )
    return None if here else MISBOUND


def _spent(
    view: SessionView,
    parts: PointParts,
    outcome: ActionOutcome,
    report: EarlyOutcome,
    matches: list[tuple[Who, RecentAction]],
) -> Objection | None:
    """Why a well-formed outcome neither settles anything nor waits; None where it does."""
    if matches:
        spent = all(is_settled_for_good(action, report) for _, action in matches)
        return (USED if report.signed else SETTLED) if spent else None
    if report.signed and outcome.input is not None:
        gone = outcome.input.timestamp + parts.limits.action_window_ms <= view.now
        if gone or is_past(view, report, outcome.input.offset):
            return OF_ANOTHER
        if is_waiting(view, report):
            return WAITS
    if report.tenant is None:
        return UNKNOWN
    return None if may_wait(view, report, parts.limits) else FULL


def _refuse(
    view: SessionView,
    outcome: ActionOutcome | EarlyOutcome,
    coordinates: dict[str, Any],
    why: Objection,
) -> OutRecord:
    session_id = view.state.session_id
    return refuse(coordinates, view.now, session_id, outcome.action_id, why)


def _settle(
    parts: PointParts,
    view: SessionView,
    report: EarlyOutcome,
    match: tuple[Who, RecentAction],
    index: int,
    *,
    early: bool,
) -> list[OutRecord]:
    """The settlement of an action, and an alarm where nothing claimed too much for it before."""
    owner, action = match
    settlement = settle(view, owner, action, report)
    records = [_record_settlement(view, report, settlement, index, early=early)]
    if settlement.new:
        recipient = parts.policy.default.outcomes.alarm_recipient
        records.append(_alarm(view, report, settlement, index, recipient))
    return records


def _record_settlement(
    view: SessionView, report: EarlyOutcome, settlement: Settlement, index: int, *, early: bool
) -> OutRecord:
    """ReservationSettled; `index` counts the accounts that one outcome settles."""
    body = {
        "schema": SCHEMA,
        "outcome_id": outcome_id(_decision_id(report), index),
        "action_id": report.action_id,
        "session_id": view.state.session_id,
        "tenant_id": settlement.tenant,
        "reserved": wire_int(settlement.reserved),
        "actual": wire_int(report.rows),
        "counted": wire_int(settlement.counted),
        "aggregateRowsAffected": wire_int(settlement.after),
        "lowered": settlement.lowered,
        "signed": report.signed,
        "disputed": settlement.disputed,
        "early": early,
        "reported_by": report.reported_by,
        "decided_at": rfc3339(view.now),
        "input": report.coordinates(),
    }
    return OutRecord(SESSION_EVENTS, "ReservationSettled", body, view.state.session_id)


def _alarm(
    view: SessionView, report: EarlyOutcome, settlement: Settlement, index: int, recipient: str
) -> OutRecord:
    now = rfc3339(view.now)
    body = {
        "schema": ALARM_SCHEMA,
        "alarm_id": f"alarm:{DISPUTED}:{outcome_id(_decision_id(report), index)}",
        "kind": DISPUTED,
        "severity": "critical",
        "recipient": recipient,
        "subject": report.action_id,
        "message": "an outcome that is not signed claims more rows than it may count; the session's actions "
        "need a person until a signed outcome settles this one",
        "session_id": view.state.session_id,
        "tenant_id": settlement.tenant,
        "claimed": wire_int(report.rows),
        "counted": wire_int(settlement.counted),
        "reported_by": report.reported_by,
        "raised_at": now,
        "decided_at": now,
        "input": report.coordinates(),
    }
    return OutRecord(ALARMS, "OutcomeAlarm", body, view.state.session_id)


def _decision_id(report: EarlyOutcome) -> str:
    coordinates = report.coordinates()
    return f"{coordinates['topic']}:{coordinates['partition']}:{coordinates['offset']}"


def _report(
    parts: PointParts, input_record: InputRecord, outcome: ActionOutcome, now_ms: int, *, signed: bool
) -> EarlyOutcome:
    bound = outcome.input if signed else None
    return EarlyOutcome(
        outcome.action_id,
        parts.policy.registry.find_reporter_tenant(outcome.reported_by),
        now_ms,
        outcome.rows_affected,
        signed,
        outcome.reported_by,
        [*input_record.coordinates().values()],
        None if bound is None else bound.offset,
        None if bound is None else bound.digest.removeprefix("sha256:"),
    )
