"""Which actions of a session an outcome may mean, and whether it may wait for one that has not come."""

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
"""Of one that waits, in the stored form: the names in it are the registry's."""
REPORTERS_THAT_WAIT = 4
"""How many times the outcomes of one reporter wait in a session of all that are not signed."""


def find_meant(draft: SessionDraft, tenant: str, report: EarlyOutcome) -> list[tuple[Who, RecentAction]]:
    """The actions of a tenant that an outcome may mean: of every agent the one under its id, signed only the
    one that it was signed for. A disputed one is remembered past its window, but only a signed outcome finds
    it there."""
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
    """Whether an action under an outcome's id has come at this offset or behind it."""
    found = _under_id(draft, report.tenant or "", report.action_id)
    return any(one.offset >= offset for _, one in found)


def is_waiting(draft: SessionDraft, report: EarlyOutcome) -> bool:
    """Whether a signed outcome that says the same waits already."""
    told = (True, kept_id(report.action_id), report.offset, report.rows)
    return any((one.signed, one.action_id, one.offset, one.rows) == told for one in draft.early)


def may_wait(draft: SessionDraft, report: EarlyOutcome, limits: SessionLimits) -> bool:
    """Whether one more outcome of this reporter can wait. What is signed and what is not have room of their
    own, since anybody may write a reporter's name."""
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
