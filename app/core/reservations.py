"""Reserving and settling: how an action and its outcome move a session's totals.

The invariant: a total is never below what was really done. An action that the caller carries out counts at
once; an outcome may raise that, and lowers it only once and only with an enforcement point's signature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from app.core.session import UNREGISTERED, RecentAction

if TYPE_CHECKING:
    from app.core.draft import SessionDraft


class Sighting(NamedTuple):
    """One action as the session counts it: whose, which id, the input's hex digest and offset, its rows."""

    tenant: str
    action_id: str
    digest: str
    offset: int
    rows: int


class Settlement(NamedTuple):
    """`counted` before and the total `after`; `lowered` when the total went below the reservation."""

    tenant: str
    counted: int
    after: int
    lowered: bool


def reserve(draft: SessionDraft, seen: Sighting, mark: str, *, carried: bool) -> None:
    """Remember a new action; one that is carried out counts its rows and itself."""
    account = draft.change(seen.tenant)
    if carried:
        account.rows += seen.rows
        account.actions += 1
    counted, times = (seen.rows, 1) if carried else (0, 0)
    draft.remember(
        seen.tenant,
        seen.action_id,
        RecentAction(seen.digest, seen.offset, draft.now, mark, counted, times, settled=False, peak=0),
    )


def share_id(draft: SessionDraft, seen: Sighting, known: RecentAction, *, carried: bool) -> None:
    """Another action came under a known id. Carried out all the same (standard mode, shadow), it counts.

    No outcome can tell the two apart any more: none lowers from here on, and one that raises counts for each.
    """
    if carried:
        account = draft.change(seen.tenant)
        account.rows += seen.rows
        account.actions += 1
        known = known._replace(counted=known.counted + seen.rows, carried=known.carried + 1)
    draft.remember(seen.tenant, seen.action_id, known._replace(settled=True))


def count_only(draft: SessionDraft, seen: Sighting) -> str:
    """Count an action that finds no room to be remembered; returns the tenant whose account took it."""
    tenant = seen.tenant if draft.account(seen.tenant) is not None else UNREGISTERED
    account = draft.change(tenant)
    account.rows += seen.rows
    account.actions += 1
    return tenant


def settle(
    draft: SessionDraft, tenant: str, action_id: str, known: RecentAction, rows: int, *, lowers: bool
) -> Settlement:
    """Put an outcome's `rows` in place of what is counted for the action.

    Several actions carried out under one id count as many times the largest outcome, since any of them may
    have done it. A denied action that was carried out after all counts too.
    """
    account = draft.change(tenant)
    lowered = lowers and not known.settled and rows < known.counted
    peak = max(known.peak, rows)
    counted = rows if lowered else max(known.counted, max(known.carried, 1) * peak)
    account.rows += counted - known.counted
    carried = known.carried
    if carried == 0 and rows > 0:
        carried = 1
        account.actions += 1
    draft.remember(
        tenant, action_id, known._replace(counted=counted, carried=carried, settled=True, peak=peak)
    )
    return Settlement(tenant, known.counted, account.rows, lowered)
