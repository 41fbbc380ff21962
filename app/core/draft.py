"""What one input will make of a session: read through it, change it, and take the finished transition out.

The state itself is never touched. An account is copied the first time that it changes, so a draft that is
abandoned leaves nothing behind.
"""

from __future__ import annotations

from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from app.core.recent_retrieval import MARK_DIGITS, RecentRetrieval, add_flagged, flags_in
from app.core.session import (
    NEVER_DUE_MS,
    UNREGISTERED,
    Account,
    EarlyOutcome,
    RecentAction,
    RecentWrite,
    SessionState,
    Transition,
    kept_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from app.core.limits import SessionLimits

_MARKS_OF = itemgetter(1)


class SessionDraft:
    """`now` is the input's broker time, never before the session's last; `folded` says that the session had
    been idle for too long and starts anew; `refused` are the early outcomes that time has run out for."""

    __slots__ = ("_base", "_changed", "_limits", "_opened_at", "early", "folded", "now", "refused", "state")

    def __init__(self, state: SessionState, limits: SessionLimits, at_ms: int) -> None:
        self.state = state
        self._limits = limits
        self.now = max(at_ms, state.last_at)
        self._changed: dict[str, Account] = {}
        self.early: list[EarlyOutcome] = state.early
        self.refused: list[EarlyOutcome] = []
        if self.early:
            self._expire_early()
        self.folded = bool(state.accounts) and state.last_at + limits.idle_timeout_ms <= self.now
        self._base = {} if self.folded else state.accounts
        self._opened_at = self.now if self.folded or state.gone else state.opened_at

    def _expire_early(self) -> None:
        cut = self.now - self._limits.action_window_ms
        self.refused = [one for one in self.early if one.at_ms <= cut]
        self.early = [one for one in self.early if one.at_ms > cut]

    def account(self, tenant: str) -> Account | None:
        """For reading."""
        return self._changed.get(tenant) or self._base.get(tenant)

    def tenants(self) -> list[str]:
        """Every tenant that has an account in the session."""
        return [*self._base, *(tenant for tenant in self._changed if tenant not in self._base)]

    def action(self, tenant: str, action_id: str) -> RecentAction | None:
        """What is remembered of an action id; None outside its window."""
        account = self.account(tenant)
        found = None if account is None else account.action(action_id)
        return found if found is not None and self._in_window(found.at_ms) else None

    def change(self, tenant: str) -> Account:
        """The tenant's account for changing, opened when missing; what left the window is dropped from it."""
        account = self._changed.get(tenant)
        if account is None:
            account = self._changed[tenant] = self._copied(self._base.get(tenant))
        return account

    def remember(self, tenant: str, action_id: str, action: RecentAction) -> None:
        """Keep an action for its window, or replace what is kept of it."""
        self.change(tenant).recent[kept_id(action_id)] = tuple(action)

    def has_room(self, tenant: str) -> bool:
        """Whether one more action of this tenant can be remembered."""
        most = self._limits.max_recent_actions
        return self._has_room_for(tenant) and self._has_less(most, lambda one: len(one.recent))

    def write(self, tenant: str, write_id: str) -> RecentWrite | None:
        """What is remembered of a memory write's id; None outside its window."""
        account = self.account(tenant)
        found = None if account is None else account.write(write_id)
        return found if found is not None and self._in_window(found.at_ms) else None

    def remember_write(self, tenant: str, write_id: str, write: RecentWrite) -> None:
        """Keep a memory write for its window, or replace what is kept of it."""
        self.change(tenant).writes[kept_id(write_id)] = tuple(write)

    def source(self, tenant: str, source_id: str) -> tuple[str | None, int | None]:
        """The type of a memory source and its last write in this session, ms; None where nothing is kept."""
        account = self.account(tenant)
        entry = None if account is None else account.sources.get(kept_id(source_id))
        return (None, None) if entry is None else (entry[0], entry[1])

    def has_room_for_write(self, tenant: str) -> bool:
        """Whether one more memory write of this tenant can be remembered.

        Those of unregistered agents have room of their own: whoever names a session must not fill it.
        """
        return self._has_room_for(tenant) and self._fewer_writes(tenant)

    def remember_source(self, tenant: str, source_id: str, source_type: str, at_ms: int) -> None:
        """Keep what a source's last write was, in place of the tenant's oldest where the session is full.

        Where other tenants fill it, it is not kept: then only its history across sessions is known.
        """
        sources = self.change(tenant).sources
        others = self._sum(lambda one: len(one.sources)) - len(sources)
        room = self._limits.max_known_sources - others
        kept = kept_id(source_id)
        sources.pop(kept, None)
        while sources and len(sources) >= room:
            del sources[next(iter(sources))]
        if room > 0:
            sources[kept] = (source_type, at_ms)

    def retrieval(self, tenant: str, request_id: str) -> RecentRetrieval | None:
        """What is remembered of a retrieval; None outside its window."""
        account = self.account(tenant)
        found = None if account is None else account.retrieval(request_id)
        return found if found is not None and self._in_window(found.at_ms) else None

    def remember_retrieval(self, tenant: str, request_id: str, retrieval: RecentRetrieval) -> None:
        """Keep what a retrieval's items came to, beside what is kept under its id, and in place of the
        tenant's oldest where the session is full.

        Those of unregistered agents have room of their own. Where other tenants fill it, it is not kept, and
        a store's report of it counts as uncovered.
        """
        if not self._has_room_for(tenant):
            return
        known = self.retrieval(tenant, request_id)
        kept = self.change(tenant).retrievals
        kept.pop(kept_id(request_id), None)
        if known is not None:
            retrieval = known.joined(retrieval, self._limits.max_recent_items)
        others = [self.account(name) for name in self.tenants() if name != tenant and _alike(name, tenant)]
        beside = [account.retrievals for account in others if account is not None]
        room = self._limits.max_recent_retrievals - sum(map(len, beside))
        left = self._limits.max_recent_items - sum(map(_items_in, beside)) - retrieval.size
        while kept and (len(kept) >= room or _items_in(kept) > left):
            del kept[next(iter(kept))]
        if room > 0 and left >= 0:
            kept[kept_id(request_id)] = tuple(retrieval)

    def remember_flags(self, tenant: str, item_id: str, flags: Iterable[str]) -> None:
        """Keep the flags of an item that was let through."""
        if self._has_room_for(tenant):
            add_flagged(self.change(tenant).flagged, kept_id(item_id), flags, self.now)

    def served_flags(self, tenant: str) -> dict[str, list[str]]:
        """The flags of items that the tenant's agents were let see within the window, by kept id."""
        account = self.account(tenant)
        if account is None or not account.flagged:
            return {}
        return flags_in(account.flagged, self.now - self._limits.action_window_ms)

    def _fewer_writes(self, tenant: str) -> bool:
        most = self._limits.max_recent_writes

        def count() -> int:
            alike = [name for name in self.tenants() if _alike(name, tenant)]
            return sum(len(account.writes) for name in alike if (account := self.account(name)))

        if count() < most:
            return True
        for known in self.tenants():
            self.change(known)
        return count() < most

    def _has_less(self, most: int, size: Callable[[Account], int]) -> bool:
        """Whether all tenants together have less than `most`, if need be without what left the window."""
        if self._sum(size) < most:
            return True
        for known in self.tenants():
            self.change(known)
        return self._sum(size) < most

    def _sum(self, size: Callable[[Account], int]) -> int:
        accounts = {**self._base, **self._changed} if self._changed else self._base
        return sum([size(account) for account in accounts.values()])

    def _has_room_for(self, tenant: str) -> bool:
        if tenant == UNREGISTERED or self.account(tenant) is not None:
            return True
        named = sum(known != UNREGISTERED for known in self.tenants())
        return named < self._limits.max_tenants

    def transition(self, *, touched: bool = True) -> Transition:
        """The session's values now. `touched` False: time alone acted, which is no sign of life."""
        last_at = self.now if touched else self.state.last_at
        due = last_at + self._limits.idle_timeout_ms
        if self.early:
            due = min(due, self.early[0].at_ms + self._limits.action_window_ms)
        return Transition(
            self.folded, self._changed, self.early, self._opened_at, last_at, min(due, NEVER_DUE_MS)
        )

    def _in_window(self, at_ms: int) -> bool:
        return at_ms + self._limits.action_window_ms > self.now

    def _copied(self, account: Account | None) -> Account:
        if account is None:
            return Account(0, 0, {})
        recent, writes = self._still_known(account.recent), self._still_known(account.writes)
        return Account(
            account.rows,
            account.actions,
            recent,
            writes,
            account.sources.copy(),
            self._still_known(account.retrievals),
            self._still_known(account.flagged),
        )

    def _still_known(self, remembered: dict[str, Any]) -> dict[str, Any]:
        """A copy without what left the window; the oldest come first, with their time in third place."""
        gone = 0
        for stored in remembered.values():
            if self._in_window(stored[2]):
                break
            gone += 1
        return dict(islice(remembered.items(), gone, None)) if gone else remembered.copy()


def _items_in(retrievals: dict[str, Any]) -> int:
    return sum(map(len, map(_MARKS_OF, retrievals.values()))) // MARK_DIGITS


def _alike(tenant: str, other: str) -> bool:
    """Whether two tenants share the session's room: unregistered agents share it with nobody."""
    return (tenant == UNREGISTERED) == (other == UNREGISTERED)
