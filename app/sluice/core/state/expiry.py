"""The effect of time alone on a session. A timer and the session's next input have the same effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.refusals import Objection, refuse
from sluice.core.state.decision import Decision
from sluice.core.state.session import totals
from sluice.core.state.session_view import SessionView
from sluice_topics.catalog import SESSION_EVENTS

if TYPE_CHECKING:
    from sluice.core.foundation.limits import SessionLimits
    from sluice.core.state.session import SessionState

SCHEMA_FOLDED = "sluice/session_folded/v1"
NEVER_CAME = Objection("unknown_subject", "no such action came within the window")


def expire(limits: SessionLimits, key: bytes, state: SessionState, now_ms: int) -> Decision | None:
    """The decision on the session `key` at `now_ms`; None if nothing is due."""
    if key != state.key:
        raise ValueError(f"state of {state.key!r} given for {key!r}")
    view = SessionView(state, limits, now_ms)
    records = make_time_records(view)
    return Decision(view.changes(touched=False), records) if records else None


def make_time_records(view: SessionView) -> list[OutRecord]:
    """The records of everything whose time was over before the view's `now`."""
    if not view.refused and not view.restarted:
        return []
    session_id = view.state.session_id
    records = [
        refuse(report.coordinates(), view.now, session_id, report.action_id, NEVER_CAME)
        for report in view.refused
    ]
    return [*records, _expire_session(view)] if view.restarted else records


def _expire_session(view: SessionView) -> OutRecord:
    state = view.state
    body = {
        "schema": SCHEMA_FOLDED,
        "session_id": state.session_id,
        "tenants": {tenant: totals(account) for tenant, account in state.accounts.items()},
        "opened_at": rfc3339(state.opened_at),
        "last_at": rfc3339(state.last_at),
        "reason": "idle",
        "decided_at": rfc3339(view.now),
        "input": None,
    }
    return OutRecord(SESSION_EVENTS, "SessionFolded", body, state.session_id)
