"""The rows of actions and their outcomes in the table of kinds, and the answers where the core itself failed.

Such an action is denied; in standard mode it is allowed with an advisory (product.md, "Bad input"). These
answers run no stage, and they read as little as possible of the input that made the core raise.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sluice.core.actions import outcomes, proposal
from sluice.core.actions.assessment import find_lateness
from sluice.core.actions.pipeline import Evaluation
from sluice.core.actions.proposal import count_rows, select_seen
from sluice.core.actions.verdict import (
    NO_IDS,
    RERUN_FIELDS,
    collect_ids,
    find_ruling,
    make_verdict_record,
    read_recorded_seen,
    record_session,
)
from sluice.core.foundation.canonical import extract_hex, wire_int
from sluice.core.foundation.input_record import verdict_id
from sluice.core.foundation.refusals import INTERNAL_ERROR, subject_of
from sluice.core.policy.bundle_cases import Case
from sluice.core.policy.kind import AnswerKind, CaseKind, DecisionKind, Kind
from sluice.core.registry.registry_entries import collect_hashes, find_returns, find_untrusted_source
from sluice.core.state.acknowledgement import NOTHING as NO_FLAGS
from sluice.core.state.acknowledgement import acknowledgement
from sluice.core.state.book import UseCounted
from sluice.core.state.decision import Decision
from sluice.core.state.expiry import make_time_records
from sluice.core.state.nonces import keep_nonce
from sluice.core.state.reservations import ActionUsage, count
from sluice.core.state.session_view import NOTHING_SEEN, SessionView
from sluice.core.state.usual import AgentName, UseChanges, UsualName, record_usual
from sluice_topics.catalog import ACTIONS, DESTINATION_USES, OUTCOMES, SESSION_EVENTS, VERDICTS
from sluice_topics.records import (
    ActionOutcome,
    DestinationUsed,
    ProposedAction,
    ReservationSettled,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sluice.core.actions.verdict import Ruling
    from sluice.core.foundation.chain import OutRecord
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.policy.policy import PointParts, Policy, Principal
    from sluice.core.state.decision import Shared
    from sluice.core.state.session import SessionState
    from sluice.core.state.session_view import ActionSeen

DENIED = find_ruling("BLOCK", None, "high_stakes")
FAILED = {
    "source": "sluice.core",
    "text": "the gates failed on this action (internal_error); its dead letter has the reason",
    "severity": "critical",
}
"""The advisory of a verdict that no gate stands behind."""


def deny_unread(parts: PointParts, input_record: InputRecord, dead_letter: OutRecord) -> Decision:
    """Deny an action without reading it; `dead_letter` is its dead letter."""
    about: dict[str, Any] = {
        **NO_IDS,
        "mode": "high_stakes",
        "enforcement": "enforce",
        "policy_bundle_id": None,
        "bundle_hash": parts.policy.default.hash,
        "registry_hashes": {},
        "stages": (),
        "advisories": (),
        "session": record_session(NOTHING_SEEN, NO_FLAGS, None),
    }
    evaluation = Evaluation("BLOCK", INTERNAL_ERROR)
    return Decision(
        (),
        [make_verdict_record(input_record, about, evaluation, DENIED, subject_of(input_record)), dead_letter],
    )


def answer_fault(
    parts: PointParts,
    input_record: InputRecord,
    action: ProposedAction,
    state: SessionState,
    dead_letter: OutRecord,
) -> Decision:
    """Answer an action that made the core raise: read its session, judge it, and keep what came of it."""
    view = SessionView(state, parts.limits, input_record.timestamp_ms)
    principal = parts.policy.find_principal(action.agent_id)
    observed = view.see_action(principal.owner, action.action_id)._replace(
        has_capacity=view.has_room(principal.owner)
    )
    verdict, ruling, counted = _judge(parts, input_record, action, principal, observed)
    keep_nonce(view, principal.owner, input_record)
    if counted is not None:
        has_capacity = observed.has_capacity and principal.agent is not None
        is_known = observed.previous is not None
        count(
            view,
            counted,
            ruling.mark,
            carried=ruling.carried,
            is_repeated=is_known,
            has_capacity=has_capacity,
        )
    return Decision(view.changes(), [*make_time_records(view), verdict, dead_letter])


def answer_fault_again(
    parts: PointParts,
    input_record: InputRecord,
    action: ProposedAction,
    verdict: Mapping[str, Any],
    dead_letter: OutRecord,
) -> Decision:
    """Answer an action that made the core raise, on what `verdict` says of the session, which stays."""
    waited = replace(input_record, waited_ms=verdict.get("waited_ms") or 0)
    principal = parts.policy.find_principal(action.agent_id)
    judged = _judge(parts, waited, action, principal, read_recorded_seen(verdict))
    return Decision((), [judged[0], dead_letter])


def lacks_answers(verdict: Mapping[str, Any]) -> bool:
    """A fault of the core leaves no gate in its verdict, and no answer that a gate had got."""
    return not verdict["gateResults"] and verdict["session"]["known"] is None


def _judge(
    parts: PointParts,
    input_record: InputRecord,
    action: ProposedAction,
    principal: Principal,
    observed: ActionSeen,
) -> tuple[OutRecord, Ruling, ActionUsage | None]:
    """The verdict, its ruling, and the action as the session counts it: None where it was counted before."""
    org, bundle = principal.org, principal.bundle
    mode = action.mode or "high_stakes"
    late = find_lateness(action, input_record.waited_ms)
    ruled = _rule_action(mode, org.enforcement, late=late is not None)
    most = bundle.largest_rows_upper_bound
    rows = count_rows(parts.policy.registry.tools.get(action.tool_name), action.rows_affected, most) or most
    digest = extract_hex(input_record.digest)
    if observed.remembered:
        observed = select_seen(observed, bundle.stages)
    repeats = observed.previous is not None and observed.previous.digest == digest
    counted = rows if ruled.carried and not repeats else None
    about: dict[str, Any] = {
        **collect_ids(action),
        "tenant_id": principal.tenant_id,
        "mode": mode,
        "enforcement": org.enforcement,
        "policy_bundle_id": action.policy_bundle_id or principal.bundle_asked_for,
        "bundle_hash": bundle.hash,
        "registry_hashes": _entries(parts.policy, principal, action),
        "stages": bundle.stages,
        "advisories": (FAILED,),
        "session": record_session(
            observed, acknowledgement(observed.flags, action.acknowledged_flags), counted
        ),
        "rows_reserved": wire_int(counted or 0),
    }
    if action.deadline_ms is not None:
        about["waited_ms"] = input_record.waited_ms
    evaluation = Evaluation(ruled.real, None if ruled.real == "ALLOW" else INTERNAL_ERROR)
    factor = bundle.outcomes.unsigned_factor
    tool = parts.policy.registry.tools.get(action.tool_name)
    returns = None if parts.values_key is None else find_returns(tool, action.tool_name, ())
    if returns is not None:
        returns = returns._replace(trusted=False)
    sighting = ActionUsage(
        principal.owner,
        action.action_id,
        digest,
        input_record.offset,
        rows,
        factor,
        find_untrusted_source(tool),
        returns,
    )
    verdict = make_verdict_record(input_record, about, evaluation, ruled, action.session_id)
    return verdict, ruled, None if repeats else sighting


def _entries(policy: Policy, principal: Principal, action: ProposedAction) -> dict[str, str]:
    """Hashes of what stood in the registry for this action, as far as it can be told without a stage."""
    tool = policy.registry.tools.get(action.tool_name)
    freezes = policy.find_freezes(principal, action.session_id)
    return collect_hashes(principal.agent, tool, principal.org, *freezes)


def _rule_action(mode: str, enforcement: str, *, late: bool) -> Ruling:
    """In standard the caller goes on; too late for its deadline, it is not told that it may."""
    if mode == "standard":
        real = "ESCALATE" if late else "ALLOW"
        shadow = enforcement == "shadow"
        return find_ruling("ALLOW" if shadow else real, real if shadow else None, mode)
    if enforcement == "shadow":
        return find_ruling("ALLOW", "BLOCK", mode)
    return DENIED


ACTION = Kind(
    "action",
    ACTIONS,
    ProposedAction,
    attrgetter("session_id"),
    "action_id",
    proposal.evaluate,
    unread=deny_unread,
    fault=answer_fault,
    answer=AnswerKind(
        Verdict,
        VERDICTS,
        "verdict_id",
        (("session",),),
        DecisionKind(
            "verdict",
            "verdict",
            "verdicts",
            verdict_id,
            "action_id",
            RERUN_FIELDS,
            proposal.judge_again,
            answer_fault_again,
            lacks_answers,
        ),
    ),
    case=CaseKind(Case, "action", "action"),
    signer="agent_id",
    by_stages=True,
)
OUTCOME = Kind(
    "outcome",
    OUTCOMES,
    ActionOutcome,
    attrgetter("session_id"),
    "action_id",
    outcomes.evaluate,
    marked_by="reported_by",
    answer=AnswerKind(
        ReservationSettled,
        SESSION_EVENTS,
        "outcome_id",
        (
            ("tenant_id",),
            ("action_id",),
            ("reserved",),
            ("actual",),
            ("aggregateRowsAffected",),
            ("lowered",),
        ),
    ),
    signer="reported_by",
)


def _name_user(used: DestinationUsed) -> str:
    return AgentName(used.tenant_id, used.agent_id).key()


def _list_fingerprints(by_role: Mapping[Any, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Each role and fingerprint, once."""
    return ((role, fingerprint) for role, prints in by_role.items() for fingerprint in dict.fromkeys(prints))


def count_use(
    parts: PointParts, input_record: InputRecord, used: DestinationUsed, _: SessionState, shared: Shared
) -> Decision:
    """The next counts of what an agent used, for the table and for all workers; where there is no room, what
    was not used for longest goes."""
    del parts
    records: list[OutRecord] = []
    changes: list[UseCounted] = []
    counting, whose = UseChanges(shared.book.uses), (used.tenant_id, used.agent_id, used.tool)
    answered_ms = used.used_at if used.answered_at is None else used.answered_at
    uses = (used.used, used.used_at, None), (used.answered or {}, answered_ms, used.known_until or 0)
    for by_role, at_ms, until_ms in uses:
        for role, fingerprint in _list_fingerprints(by_role):
            name = UsualName(*whose, role, fingerprint)
            for usage, after in counting.change(name, at_ms, until_ms):
                records.append(record_usual(usage, after, input_record.timestamp_ms))
                changes.append(UseCounted(usage, after))
    return Decision((), records, tuple(changes))


USE = Kind("use", DESTINATION_USES, DestinationUsed, _name_user, "action_id", count_use, session=None)
