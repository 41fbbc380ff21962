"""Reserving and settling: how an action and its outcome move a session's totals.

The invariant: a total is never below what was really done. An action that the caller carries out counts at
once. An outcome that an enforcement point signed for this action settles it, once, up or down. An unsigned
outcome is an unproved claim: it never lowers a total, and it raises it up to a factor of the reservation. A
higher claim is disputed until a signed outcome comes.

Which actions of the session an outcome may mean is found here too, and whether it may wait for a later
action.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.foundation.canonical import MAX_SAFE_INTEGER, wire_int
from sluice.core.registry.registry_entries import UNREGISTERED
from sluice.core.state.limit_usage import LimitsCorrected
from sluice.core.state.remembered import shorten_id
from sluice.core.state.session import Who

if TYPE_CHECKING:
    from sluice.core.foundation.limits import SessionLimits
    from sluice.core.registry.registry_entries import ToolReturns
    from sluice.core.state.remembered import RecentAction
    from sluice.core.state.session import EarlyOutcome
    from sluice.core.state.session_view import SessionView

EARLY_BYTES = 1024
"""Largest stored form of one waiting outcome; its names come from the registry."""
REPORTERS_THAT_WAIT = 4
"""All unsigned outcomes of a session may wait in this many times the room of one reporter."""


def find_meant(view: SessionView, tenant: str, report: EarlyOutcome) -> list[tuple[Who, RecentAction]]:
    """The actions of a tenant that an outcome may mean: for each agent, the action with this id. A signed
    outcome means only the action that it was signed for. A disputed action is remembered past its window,
    but there only a signed outcome finds it."""
    account = view.account(tenant)
    if account is None:
        return []
    matches = [pair for pair in _find_by_id(view, tenant, report.action_id) if report.means(pair[1])]
    if not matches and report.offset is not None:
        disputed = account.find_disputed(report.offset, report.action_id)
        if disputed is not None and report.means(disputed[1]):
            matches = [(Who(tenant, disputed[0]), disputed[1])]
    return matches


def is_past(view: SessionView, report: EarlyOutcome, offset: int) -> bool:
    """Whether an action with the outcome's id has arrived at this offset or a later one."""
    by_id = _find_by_id(view, report.tenant or "", report.action_id)
    return any(action.offset >= offset for _, action in by_id)


def is_waiting(view: SessionView, report: EarlyOutcome) -> bool:
    """Whether an equal signed outcome already waits."""
    entry = (True, shorten_id(report.action_id), report.offset, report.rows)
    return any(
        (earlier.signed, earlier.action_id, earlier.offset, earlier.rows) == entry for earlier in view.early
    )


def may_wait(view: SessionView, report: EarlyOutcome, limits: SessionLimits) -> bool:
    """Whether one more outcome of this reporter can wait. Signed and unsigned outcomes have separate room,
    because anyone may write a reporter's name."""
    most = limits.max_early_outcomes
    if EARLY_BYTES * (len(view.early) + 1) > limits.max_state_bytes:
        return False
    alike = [other for other in view.early if other.signed == report.signed]
    own = sum((other.tenant, other.reported_by) == (report.tenant, report.reported_by) for other in alike)
    return own < most and (report.signed or len(alike) < REPORTERS_THAT_WAIT * most)


def _find_by_id(view: SessionView, tenant: str, action_id: str) -> list[tuple[Who, RecentAction]]:
    account = view.account(tenant)
    agents = {} if account is None else account.agents
    matches = [(Who(tenant, agent), memory.action(action_id)) for agent, memory in agents.items()]
    return [
        (owner, action) for owner, action in matches if action is not None and view.is_in_window(action.at_ms)
    ]


class ActionUsage(NamedTuple):
    """One action as the session counts it: its agent, its id, the hex digest and offset of the input, its
    rows, and the factor of them that an unsigned outcome may claim. `reads`: its tool, where what that
    returns is content of strangers; `returns`: where the session keeps the values of what it returns;
    `own`: the fingerprints of what the action itself says, where those are trusted."""

    owner: Who
    action_id: str
    digest: str
    offset: int
    rows: int
    unsigned_factor: int
    reads: str | None = None
    returns: ToolReturns | None = None
    own: tuple[bytes, ...] = ()

    @property
    def most(self) -> int:
        """The most rows that an unsigned outcome may count: a factor of the reservation, and of at least one
        row."""
        return max(self.rows, 1) * self.unsigned_factor


class Settlement(NamedTuple):
    """A settled outcome. `reserved`: the rows counted for the action before; `counted`: the rows counted
    now; `after`: the tenant's total. `lowered`: it is now below the reservation. `disputed`: the claim is
    above the limit. `new`: no earlier claim was."""

    tenant: str
    reserved: int
    counted: int
    after: int
    lowered: bool
    disputed: bool
    new: bool


def count(
    view: SessionView, usage: ActionUsage, mark: str, *, carried: bool, is_repeated: bool, has_capacity: bool
) -> None:
    """Count an action that comes for the first time; carried out, it counts whatever else is wrong with it,
    and what its tool returns is read.

    `mark`: of its ruling; `is_repeated`: another action is remembered under its id; `has_capacity`: it can be
    remembered.
    """
    other = view.action(usage.owner, usage.action_id) if is_repeated else None
    if other is not None:
        share_id(view, usage, other, carried=carried)
    elif has_capacity:
        reserve(view, usage, mark, carried=carried)
    elif carried:
        count_only(view, usage)
    if carried and (usage.reads is not None or usage.returns is not None):
        expect_results(view, usage)


def expect_results(view: SessionView, usage: ActionUsage) -> None:
    """Keep that what a carried-out action's tool returns comes into the session."""
    if usage.reads is not None:
        view.remember_read(usage.owner, "external", usage.reads)
    if usage.returns is not None:
        tool, trusted, stated = usage.returns
        if not stated:
            view.remember_strangers(usage.owner, tool)
            return
        view.expect_values(usage.owner, name_results(usage.offset), tool, usage.own, trusted=trusted)


def name_results(offset: int) -> str:
    """The name of the values that the action of this offset brings in."""
    return f"a{offset}"


def reserve(view: SessionView, usage: ActionUsage, mark: str, *, carried: bool) -> None:
    """Remember a new action, of which no outcome has told and which shares its id with no other; if it is
    carried out, count its rows and the action."""
    counted, times = (usage.rows, 1) if carried else (0, 0)
    most = max(usage.rows, 1) * usage.unsigned_factor
    view.count(usage.owner.tenant, counted, times)
    stored: tuple[Any, ...] = usage.digest, usage.offset, view.now, mark, counted, times, False, 0, most
    if max(counted, most) > MAX_SAFE_INTEGER:
        stored = *stored[:4], wire_int(counted), times, False, 0, wire_int(most)
    view.remember_first(usage.owner, usage.action_id, stored)


def share_id(view: SessionView, usage: ActionUsage, action: RecentAction, *, carried: bool) -> None:
    """Record a second action with a known id. If it is still carried out (standard mode, shadow), it counts.

    An outcome can no longer distinguish the two actions: from now on no outcome lowers the total, and one
    that raises it counts for each action.
    """
    if carried:
        view.count(usage.owner.tenant, usage.rows, 1)
        action = action._replace(counted=action.counted + usage.rows, carried=action.carried + 1)
    most = max(action.most, usage.most)
    view.remember(usage.owner, usage.action_id, action._replace(shared=True, most=most))


def count_only(view: SessionView, usage: ActionUsage) -> str:
    """Count an action for which there is no room in the memory; return the tenant of the account that counts
    it."""
    own = usage.owner.tenant
    tenant = own if view.has_account(own) else UNREGISTERED
    view.count(tenant, usage.rows, 1)
    return tenant


def settle(view: SessionView, owner: Who, action: RecentAction, report: EarlyOutcome) -> Settlement:
    """Replace the rows counted for the action by an outcome's rows.

    Several actions carried out under one id each count the largest outcome, because each of them may have
    done it. A denied action that was carried out after all counts too.
    """
    rows = report.rows if report.signed else min(report.rows, action.most)
    final = report.signed and not action.shared and not action.signed
    peak = rows if final else max(action.peak, rows)
    counted = rows if final else max(action.counted, max(action.carried, 1) * peak)
    first = action.carried == 0 and rows > 0
    total = view.count(owner.tenant, counted - action.counted, int(first))
    claims_more = not report.signed and report.rows > action.most
    after = action._replace(
        counted=counted,
        carried=1 if first else action.carried,
        peak=peak,
        signed=action.signed or report.signed,
        disputed=not report.signed and (claims_more or action.disputed),
    )
    view.remember(owner, report.action_id, after)
    new = claims_more and not action.disputed
    stands = final and (first or action.carried > 0)
    by = counted - action.counted if action.shared and not first else None
    view.settled.append(LimitsCorrected(action.offset, counted, stands, first, by))
    return Settlement(
        owner.tenant, action.counted, counted, total, counted < action.counted, claims_more, new
    )


def is_settled_for_good(action: RecentAction, report: EarlyOutcome) -> bool:
    """Whether a signed outcome has already settled the action and this outcome does not change that.

    A signature counts once. A second signed outcome may raise the result of the first. An unsigned outcome
    may not, unless several actions share the id: it may mean one of the others.
    """
    if not action.signed:
        return False
    return report.rows <= action.peak if report.signed else not action.shared
