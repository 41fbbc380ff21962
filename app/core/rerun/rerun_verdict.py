"""A verdict on an action, executed again: the session is what the verdict says of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from app.core.actions.verdict import RERUN_FIELDS
from app.core.decide.replay import decide
from app.core.foundation.limits import SessionLimits
from app.core.registry.registry_entries import UNREGISTERED
from app.core.rerun.rerun_way import Way
from app.core.state.acknowledgement import flags_of
from app.core.state.recent_retrieval import Flagged
from app.core.state.remembered import RecentAction, Remembered, kept_id
from app.core.state.session import NEVER_DUE_MS, Account, SessionState, session_key, who

if TYPE_CHECKING:
    from app.core.foundation.arrival import Arrival
    from app.core.rerun.recorded_answers import RecordedAnswers
    from app.core.rerun.rerun_evidence import Points
    from app.core.state.decision import Decision

_DIGEST_PREFIX = len("sha256:")
_ACTIONS_IN_ROOM = {True: 2, False: 0}
"""How many actions the rebuilt session may remember: the known one and this one, or none."""


def _execute(points: Points, verdict: dict[str, Any], arrival: Arrival, answers: RecordedAnswers) -> Decision:
    limits = _limits(room=verdict["session"]["room"])
    point = points.point(verdict, limits)
    if verdict["action_id"] is None:
        return point.unread(arrival)
    waited = replace(arrival, waited_ms=verdict.get("waited_ms") or 0)
    return decide(point, waited, _session(verdict, arrival), answers.next)


def _limits(*, room: bool) -> SessionLimits:
    """No time passes in a rebuilt session; whether it has room was recorded."""
    return SessionLimits(
        action_window_ms=1,
        idle_timeout_ms=1,
        max_recent_actions=_ACTIONS_IN_ROOM[room],
        max_early_outcomes=0,
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
    remembered = values.get("remembered") or {}
    moved = values["after"] != before or values.get("disputed") is not None or remembered
    if values["room"] or rows or actions or flagged or moved:
        tenant = UNREGISTERED if verdict["tenant_id"] is None else verdict["tenant_id"]
        memory = Remembered(
            _recent(verdict, arrival),
            flagged=_flagged(values["flags"], arrival),
            gates={name: (NEVER_DUE_MS, one, 0) for name, one in remembered.items()},
        )
        agents = {who(tenant, verdict["agent_id"]).agent: memory}
        state.accounts[tenant] = Account(rows, actions, agents, _disputed(values.get("disputed")))
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
        shared=False,
        peak=0,
    )
    return {kept_id(verdict["action_id"]): remembered.stored()}


def _disputed(action_id: str | None) -> dict[str, Any]:
    """A verdict says of a disputed action nothing but its id, and that is all that it takes."""
    return {} if action_id is None else {"0": (action_id, "")}


def _flagged(flags: dict[str, Any], arrival: Arrival) -> dict[str, Any]:
    """Every flagged item, read just now."""
    at_ms = arrival.timestamp_ms
    return {item: tuple(Flagged(tuple(raised), 1, at_ms)) for item, raised in flags_of(flags).items()}


def _kept_no_answers(verdict: dict[str, Any]) -> bool:
    """A fault of the core leaves no gate in its verdict, and no answer that a gate had got."""
    return not verdict["gateResults"] and verdict["session"]["known"] is None


VERDICT = Way("verdict", "Verdict", "verdict_id", RERUN_FIELDS, _execute, _kept_no_answers)
