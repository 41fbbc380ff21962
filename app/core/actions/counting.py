"""How an action that got its ruling enters the session's totals and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.reservations import Sighting, count_only, reserve, share_id

if TYPE_CHECKING:
    from app.core.actions.ruling import Ruling
    from app.core.draft import SessionDraft


def count(draft: SessionDraft, seen: Sighting, ruling: Ruling, *, room: bool) -> int:
    """Count the action and return the rows that were reserved; `room` says whether it can be remembered.

    Carried out, it counts whatever else is wrong with it; the same digest under a known id counts nothing.
    """
    known = draft.action(seen.tenant, seen.action_id)
    if known is not None and known.digest == seen.digest:
        return 0
    if known is None and room:
        reserve(draft, seen, ruling.mark, carried=ruling.carried)
    elif known is not None:
        share_id(draft, seen, known, carried=ruling.carried)
    elif ruling.carried:
        count_only(draft, seen)
    return seen.rows if ruling.carried else 0
