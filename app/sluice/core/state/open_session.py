"""A session while one input is decided: what it has, and the changes of the input on top.

Nothing here changes the state, copies what it remembers or goes through all of it. What a decision reads and
keeps is in sluice/core/state/session_view.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.state.changes import (
    AgentExpired,
    Counted,
    Moved,
    OutcomeAnswered,
    OutcomeWaits,
    Restarted,
)
from sluice.core.state.open_memory import NOTHING, OpenMemory
from sluice.core.state.session import NEVER_DUE_MS, Who

if TYPE_CHECKING:
    from sluice.core.foundation.limits import SessionLimits
    from sluice.core.state.changes import SessionChange
    from sluice.core.state.remembered import Remembered, Table
    from sluice.core.state.session import Account, EarlyOutcome, SessionState

SHARES_IN_ALL = 4
"""How many times the bytes that one agent may fill alone a state may have of many: each has a share of it."""


class OpenSession:
    """One input's session. `now` is the input's broker time, never before the session's last; `folded`: the
    session was idle too long and starts anew; `refused`: early outcomes whose time is over."""

    __slots__ = (
        "_answered",
        "_at_ms",
        "_base",
        "_changes",
        "_cut_ms",
        "_disputed",
        "_expired",
        "_left",
        "_limits",
        "_memories",
        "_opened_at",
        "_totals",
        "_waits",
        "folded",
        "now",
        "refused",
        "state",
    )

    def __init__(self, state: SessionState, limits: SessionLimits, at_ms: int) -> None:
        self.state = state
        self._limits = limits
        self._at_ms = at_ms
        self.now = max(at_ms, state.last_at)
        self._cut_ms = self.now - limits.action_window_ms
        self._changes: list[SessionChange] = []
        self._totals: dict[str, tuple[int, int]] = {}
        self._memories: dict[Who, OpenMemory] = {}
        self._expired: set[str] = set()
        self._left: dict[Who, Remembered | None] = {}
        self._disputed: dict[tuple[str, str], bool] = {}
        self._waits: list[EarlyOutcome] = []
        self._answered: set[int] = set()
        self.refused: list[EarlyOutcome] = []
        if state.early:
            self._refuse_early()
        self.folded = bool(state.accounts) and state.last_at + limits.idle_timeout_ms <= self.now
        self._base = {} if self.folded else state.accounts
        self._opened_at = self.now if self.folded or state.gone else state.opened_at

    def _refuse_early(self) -> None:
        for one in self.state.early.values():
            if one.at_ms > self._cut_ms:
                break
            self.refused.append(one)
            self.answer(one)

    def in_window(self, at_ms: int) -> bool:
        """Whether an input of this time is still remembered."""
        return at_ms > self._cut_ms

    def account(self, tenant: str) -> Account | None:
        """The tenant's account as it was before this input."""
        return self._base.get(tenant)

    def has_account(self, tenant: str) -> bool:
        """Whether the tenant has one, or gets one by this input."""
        return tenant in self._totals or tenant in self._base

    def tenants(self) -> list[str]:
        """Every tenant that had an account before this input."""
        return [*self._base]

    def count(self, tenant: str, rows: int, actions: int) -> int:
        """Add to a tenant's totals, and open its account where there is none; the rows after."""
        self._open(tenant)
        before = self._totals[tenant]
        self._totals[tenant] = before[0] + rows, before[1] + actions
        return before[0] + rows

    @property
    def early(self) -> list[EarlyOutcome]:
        """The outcomes that wait for their action, the oldest first."""
        if not self.state.early and not self._waits:
            return []
        every = (*self.state.early.values(), *self._waits)
        return [one for one in every if one.place not in self._answered]

    def wait(self, outcome: EarlyOutcome) -> None:
        """Let an outcome wait for its action."""
        self._waits.append(outcome)
        self._changes.append(OutcomeWaits(outcome))

    def answer(self, outcome: EarlyOutcome) -> None:
        """Let an outcome wait no longer."""
        self._answered.add(outcome.place)
        self._changes.append(OutcomeAnswered(outcome.place))

    def entry(self, owner: Who, table: Table, name: str) -> Any:
        """What an agent's memory has under a name, in its stored form; None for nothing."""
        memory = self._memories.get(owner)
        if memory is not None:
            return memory.table(table).get(name)
        return getattr(self._stored(owner), table).get(name)

    def changes(self, *, touched: bool = True) -> tuple[SessionChange, ...]:
        """The events of this input. `touched` False: only time acted, so the session is not marked as
        active."""
        for tenant in self._base:
            self._expire(tenant)
        for owner, memory in self._memories.items():
            if memory.is_empty:
                self._changes.append(AgentExpired(*owner))
        last_at = self.now if touched else self.state.last_at
        due = min(last_at + self._limits.idle_timeout_ms, NEVER_DUE_MS)
        if self.state.early or self._waits:
            due = min([due, *(one.at_ms + self._limits.action_window_ms for one in self.early[:1])])
        restarted = (Restarted(),) if self.folded else ()
        return (*restarted, *self._counted(), *self._changes, Moved(self._opened_at, last_at, due))

    def _counted(self) -> list[Counted]:
        found = []
        for tenant, totals in self._totals.items():
            account = self._base.get(tenant)
            if account is None or (account.rows, account.actions) != totals:
                found.append(Counted(tenant, *totals))
        return found

    def _open(self, tenant: str) -> None:
        """The tenant has an account from here on, without agents whose memories have all left the window."""
        if tenant in self._totals:
            return
        account = self._base.get(tenant)
        if account is None:
            self._totals[tenant] = 0, 0
        else:
            self._totals[tenant] = account.rows, account.actions
            self._expire(tenant)

    def _expire(self, tenant: str) -> None:
        """Let go, once, the agents of an account whose memories have all left the window."""
        if tenant in self._expired:
            return
        self._expired.add(tenant)
        account = self._base[tenant]
        for agent in account.over(self._cut_ms):
            self._left[Who(tenant, agent)] = account.agents[agent].lasting()
            self._changes.append(AgentExpired(tenant, agent))

    def _stored(self, owner: Who) -> Remembered:
        """An agent's memory as the session has it."""
        if owner in self._left:
            return self._left[owner] or NOTHING
        account = self._base.get(owner.tenant)
        return NOTHING if account is None else account.agents.get(owner.agent, NOTHING)

    def _memory(self, owner: Who) -> OpenMemory:
        """The memory of an agent, for changing, without what has left the window."""
        memory = self._memories.get(owner)
        if memory is None:
            self._open(owner.tenant)
            memory = OpenMemory(self._stored(owner), owner, self._changes, self._cut_ms)
            self._memories[owner] = memory
        return memory

    def _finds_room(self, owner: Who, table: Table, most: int, size: int) -> bool:
        """Whether a table takes one entry more; if needed, drop what has left the window first, then actions
        that a signed outcome has settled."""
        if self._takes(owner, table, most, size):
            return True
        for tenant in self._base:
            self._expire(tenant)
        memory = self._memory(owner)
        if self._takes(owner, table, most, size):
            return True
        memory.forget_settled()
        return self._takes(owner, table, most, size)

    def _takes(self, owner: Who, table: Table, most: int, size: int) -> bool:
        memory = self._memories.get(owner)
        count = len(getattr(self._stored(owner), table)) if memory is None else memory.count(table)
        return count < most and self._fits(owner, size)

    def _fits(self, owner: Who, size: int) -> bool:
        """Whether this number of further bytes stays within the agent's share, which each of several may fill
        however much the others hold, and within the whole state."""
        most, agents, filled = self._limits.max_state_bytes, 0, 0
        for account in self._base.values():
            agents += len(account.agents)
            filled += account.size
        for one, left in self._left.items():
            filled -= self._base[one.tenant].agents[one.agent].size - (0 if left is None else left.size)
            agents -= left is None
        for one, opened in self._memories.items():
            stored = self._stored(one)
            filled += opened.size - (0 if stored is NOTHING else stored.size)
            agents += stored is NOTHING
        own = self._memories.get(owner) or self._stored(owner)
        agents += own is NOTHING
        return own.size + size <= most // agents and filled + size <= SHARES_IN_ALL * most
