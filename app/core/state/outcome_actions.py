"""The actions of a session that an outcome may mean, and whether the outcome may wait for a later action."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.state.remembered import kept_id
from app.core.state.session import Who

if TYPE_CHECKING:
    from app.core.foundation.limits import SessionLimits
    from app.core.state.draft import SessionDraft
    from app.core.state.remembered import RecentAction
    from app.core.state.session import EarlyOutcome

EARLY_BYTES = 1024
"""Largest stored form of one waiting outcome; its names come from the registry."""
REPORTERS_THAT_WAIT = 4
"""All unsigned outcomes of a session may wait in this many times the room of one reporter."""


def find_meant(draft: SessionDraft, tenant: str, report: EarlyOutcome) -> list[tuple[Who, RecentAction]]:
    """The actions of a tenant that an outcome may mean: for each agent, the action with this id. A signed
    outcome means only the action that it was signed for. A disputed action is remembered past its window,
    but there only a signed outcome finds it."""
    account = draft.account(tenant)
    if account is None:
        return []
    found = [pair for pair in _under_id(draft, tenant, report.action_id) if report.means(pair[1])]
    if not found and report.offset is not None:
        disputed = account.disputed_at(report.offset, report.action_id)
        if disputed is not None and report.means(disputed[1]):
            found = [(Who(tenant, disputed[0]), disputed[1])]
    return found


def is_past(draft: SessionDraft, report: EarlyOutcome, offset: int) -> bool:
    """Whether an action with the outcome's id has arrived at this offset or a later one."""
    found = _under_id(draft, report.tenant or "", report.action_id)
    return any(one.offset >= offset for _, one in found)


def is_waiting(draft: SessionDraft, report: EarlyOutcome) -> bool:
    """Whether an equal signed outcome already waits."""
    told = (True, kept_id(report.action_id), report.offset, report.rows)
    return any((one.signed, one.action_id, one.offset, one.rows) == told for one in draft.early)


def may_wait(draft: SessionDraft, report: EarlyOutcome, limits: SessionLimits) -> bool:
    """Whether one more outcome of this reporter can wait. Signed and unsigned outcomes have separate room,
    because anyone may write a reporter's name."""
    most = limits.max_early_outcomes
    if EARLY_BYTES * (len(draft.early) + 1) > limits.max_state_bytes:
        return False
    alike = [one for one in draft.early if one.signed == report.signed]
    own = sum((one.tenant, one.reported_by) == (report.tenant, report.reported_by) for one in alike)
    return own < most and (report.signed or len(alike) < REPORTERS_THAT_WAIT * most)


def _under_id(draft: SessionDraft, tenant: str, action_id: str) -> list[tuple[Who, RecentAction]]:
    account = draft.account(tenant)
    agents = {} if account is None else account.agents
    found = [(Who(tenant, agent), memory.action(action_id)) for agent, memory in agents.items()]
    return [(owner, one) for owner, one in found if one is not None and draft.in_window(one.at_ms)]
