"""A verdict on an action, executed again: the session is what the verdict says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.actions.acknowledgement import flags_of
from app.core.actions.verdict import RERUN_FIELDS
from app.core.ledger.rerun_way import Way
from app.core.limits import SessionLimits
from app.core.recent_retrieval import Flagged
from app.core.replay import decide
from app.core.session import (
    UNREGISTERED,
    Account,
    RecentAction,
    SessionState,
    kept_id,
    session_key,
)

if TYPE_CHECKING:
    from app.core.arrival import Arrival
    from app.core.decision import Decision
    from app.core.ledger.recorded_answers import RecordedAnswers
    from app.core.ledger.rerun_evidence import PointsOfThen

_DIGEST_PREFIX = len("sha256:")
_ACTIONS_IN_ROOM = {True: 2, False: 0}
"""How many actions the rebuilt session may remember: the known one and this one, or none."""


def _execute(
    points: PointsOfThen, verdict: dict[str, Any], arrival: Arrival, answers: RecordedAnswers
) -> Decision:
    limits = _limits(room=verdict["session"]["room"])
    point = points.point(verdict["bundle_hash"], verdict["registry_hashes"], verdict["stages"], limits)
    if verdict["action_id"] is None:
        return point.unread(arrival)
    return decide(point, arrival, _session(verdict, arrival), answers.next)


def _limits(*, room: bool) -> SessionLimits:
    """No time passes in a rebuilt session; whether it has room was recorded."""
    return SessionLimits(
        action_window_ms=1,
        idle_timeout_ms=1,
        max_recent_actions=_ACTIONS_IN_ROOM[room],
        max_early_outcomes=0,
        max_tenants=1,
    )


def _session(verdict: dict[str, Any], arrival: Arrival) -> SessionState:
    """A session that says of this action what the session said then: its totals, the known action, room.

    Without room an action is counted for its tenant only if the tenant had an account; that it had one shows
    in totals that are not zero or that moved.
    """
    values = verdict["session"]
    state = SessionState(session_key(verdict["session_id"]))
    state.opened_at = state.last_at = arrival.timestamp_ms
    before = values["before"]
    rows, actions = int(before["aggregateRowsAffected"]), before["aggregateActionCount"]
    flagged = values["flags"]["acknowledged"] or values["flags"]["outstanding"]
    if values["room"] or rows or actions or flagged or values["after"] != before:
        tenant = UNREGISTERED if verdict["tenant_id"] is None else verdict["tenant_id"]
        account = Account(rows, actions, _recent(verdict, arrival))
        account.flagged = _flagged(values["flags"], arrival)
        state.accounts[tenant] = account
    return state


def _recent(verdict: dict[str, Any], arrival: Arrival) -> dict[str, Any]:
    known = verdict["session"]["known"]
    if known is None:
        return {}
    remembered = RecentAction(
        known["digest"][_DIGEST_PREFIX:],
        known["offset"],
        arrival.timestamp_ms,
        known["mark"],
        counted=0,
        carried=0,
        settled=False,
        peak=0,
    )
    return {kept_id(verdict["action_id"]): tuple(remembered)}


def _flagged(flags: dict[str, Any], arrival: Arrival) -> dict[str, Any]:
    """Every flagged item, read just now."""
    at_ms = arrival.timestamp_ms
    return {item: tuple(Flagged(tuple(raised), 1, at_ms)) for item, raised in flags_of(flags).items()}


def _kept_no_answers(verdict: dict[str, Any]) -> bool:
    """A fault of the core leaves no gate in its verdict, and no answer that a gate had got."""
    return not verdict["gateResults"] and verdict["session"]["known"] is None


VERDICT = Way("verdict", "Verdict", "verdict_id", RERUN_FIELDS, _execute, _kept_no_answers)
