"""Reserving and settling: how an action and its outcome move a session's totals.

The invariant: a total is never below what was really done. An action that the caller carries out counts at
once. An outcome that an enforcement point signed for this very action settles it, once, up or down. One that
is not signed is somebody's bare word: it never lowers, and raises up to a factor of the reservation; what it
claims beyond that is disputed until a signed outcome comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from app.core.registry.registry_entries import UNREGISTERED
from app.core.state.remembered import RecentAction

if TYPE_CHECKING:
    from app.core.state.draft import SessionDraft
    from app.core.state.session import EarlyOutcome, Who


class Sighting(NamedTuple):
    """One action as the session counts it: whose, which id, the input's hex digest and offset, its rows, and
    how many times these an unsigned outcome may claim."""

    owner: Who
    action_id: str
    digest: str
    offset: int
    rows: int
    unsigned_factor: int

    @property
    def most(self) -> int:
        """The rows that an unsigned outcome may count: a factor of the reservation, at least of one row."""
        return max(self.rows, 1) * self.unsigned_factor


class Settlement(NamedTuple):
    """`reserved` is what was counted for the action before, `counted` what is now, `after` the tenant's
    total; `lowered` when it went below the reservation, `disputed` when the claim is beyond what may count,
    and `new` when none before it was."""

    tenant: str
    reserved: int
    counted: int
    after: int
    lowered: bool
    disputed: bool
    new: bool


def reserve(draft: SessionDraft, seen: Sighting, mark: str, *, carried: bool) -> None:
    """Remember a new action; one that is carried out counts its rows and itself."""
    account = draft.change(seen.owner.tenant)
    if carried:
        account.rows += seen.rows
        account.actions += 1
    counted, times = (seen.rows, 1) if carried else (0, 0)
    draft.remember(
        seen.owner,
        seen.action_id,
        RecentAction(
            seen.digest, seen.offset, draft.now, mark, counted, times, shared=False, peak=0, most=seen.most
        ),
    )


def share_id(draft: SessionDraft, seen: Sighting, known: RecentAction, *, carried: bool) -> None:
    """Another action came under a known id. Carried out all the same (standard mode, shadow), it counts.

    No outcome can tell the two apart any more: none lowers from here on, and one that raises counts for each.
    """
    if carried:
        account = draft.change(seen.owner.tenant)
        account.rows += seen.rows
        account.actions += 1
        known = known._replace(counted=known.counted + seen.rows, carried=known.carried + 1)
    most = max(known.most or 0, seen.most)
    draft.remember(seen.owner, seen.action_id, known._replace(shared=True, most=most))


def count_only(draft: SessionDraft, seen: Sighting) -> str:
    """Count an action that finds no room to be remembered; returns the tenant whose account took it."""
    own = seen.owner.tenant
    tenant = own if draft.account(own) is not None else UNREGISTERED
    account = draft.change(tenant)
    account.rows += seen.rows
    account.actions += 1
    return tenant


def settle(
    draft: SessionDraft, owner: Who, known: RecentAction, report: EarlyOutcome, most_of_old: int
) -> Settlement:
    """Put an outcome's rows in place of what is counted for the action.

    Several actions carried out under one id count as many times the largest outcome, since any of them may
    have done it. A denied action that was carried out after all counts too. `most_of_old`: what an unsigned
    outcome may count for an action of which an older worker kept no bound.
    """
    account = draft.change(owner.tenant)
    most = most_of_old if known.most is None else known.most
    rows = report.rows if report.signed else min(report.rows, most)
    final = report.signed and not known.shared and not known.signed
    peak = rows if final else max(known.peak, rows)
    counted = rows if final else max(known.counted, max(known.carried, 1) * peak)
    account.rows += counted - known.counted
    carried = known.carried
    if carried == 0 and rows > 0:
        carried = 1
        account.actions += 1
    claims_more = not report.signed and report.rows > most
    after = known._replace(
        counted=counted,
        carried=carried,
        peak=peak,
        signed=known.signed or report.signed,
        disputed=not report.signed and (claims_more or known.disputed),
    )
    draft.remember(owner, report.action_id, after)
    new = claims_more and not known.disputed
    return Settlement(
        owner.tenant, known.counted, counted, account.rows, counted < known.counted, claims_more, new
    )


def settled_for_good(known: RecentAction, report: EarlyOutcome) -> bool:
    """Whether a signed outcome has settled the action already, and this one says no more than that.

    A signature counts once. A second one may raise what the first left; an unsigned outcome may not, except
    where several actions share the id: one of the others may be meant.
    """
    if not known.signed:
        return False
    return report.rows <= known.peak if report.signed else not known.shared
