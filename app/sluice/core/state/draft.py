"""A draft of the session after one input: read through it, change it, and take out the finished transition.

The draft never changes the state itself. It copies an account before the first change, so an abandoned draft
has no effect.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sluice.core.registry.registry_entries import UNREGISTERED
from sluice.core.state.recent_retrieval import (
    LOST,
    MAX_FLAGGED,
    add_flagged,
    add_read,
    flags_of_all,
    join_all,
)
from sluice.core.state.remembered import (
    ACTION_BYTES,
    FLAGGED_BYTES,
    SOURCE_BYTES,
    WRITE_BYTES,
    RecentWrite,
    Remembered,
    kept_id,
    recent_action,
)
from sluice.core.state.session import NEVER_DUE_MS, Account, Transition, Who

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sluice.core.foundation.limits import SessionLimits
    from sluice.core.state.recent_retrieval import ReadKind, RecentRetrieval
    from sluice.core.state.remembered import GateMemory, RecentAction
    from sluice.core.state.session import EarlyOutcome, SessionState

NOTHING = Remembered()
SHARES_IN_ALL = 4
"""How many times the bytes that one agent may fill alone a state may have of many: each has a share of it."""


class SessionDraft:
    """The draft of one session. `now` is the input's broker time, never before the session's last; `folded`:
    the session was idle too long and starts anew; `refused`: early outcomes whose time is over."""

    __slots__ = (
        "_at_ms",
        "_base",
        "_changed",
        "_cut_ms",
        "_limits",
        "_opened_at",
        "_own",
        "early",
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
        self._changed: dict[str, Account] = {}
        self._own: set[Who] = set()
        self.early: list[EarlyOutcome] = state.early
        self.refused: list[EarlyOutcome] = []
        if self.early:
            self.refused = [one for one in self.early if one.at_ms <= self._cut_ms]
            self.early = [one for one in self.early if one.at_ms > self._cut_ms]
        self.folded = bool(state.accounts) and state.last_at + limits.idle_timeout_ms <= self.now
        self._base = {} if self.folded else state.accounts
        self._opened_at = self.now if self.folded or state.gone else state.opened_at

    def account(self, tenant: str) -> Account | None:
        """For reading."""
        return self._changed.get(tenant) or self._base.get(tenant)

    def tenants(self) -> list[str]:
        """Every tenant that has an account in the session."""
        return [*self._base, *(tenant for tenant in self._changed if tenant not in self._base)]

    def action(self, owner: Who, action_id: str) -> RecentAction | None:
        """What is remembered of an agent's action id; None outside its window."""
        kept = kept_id(action_id)
        stored = self._read(owner).recent.get(kept)
        return None if stored is None or not self.in_window(stored[2]) else recent_action(stored)

    def change(self, tenant: str) -> Account:
        """The tenant's account for changing, opened if missing, without agents whose memories have all left
        the window."""
        account = self._changed.get(tenant)
        if account is None:
            base = self._base.get(tenant)
            account = Account(0, 0) if base is None else base.copied(self._cut_ms)
            self._changed[tenant] = account
        return account

    def remember(self, owner: Who, action_id: str, action: RecentAction) -> None:
        """Keep an action for its window, or replace what is kept of it."""
        kept, account = kept_id(action_id), self.change(owner.tenant)
        if self.in_window(action.at_ms):
            self._keep_action(account, owner, kept, action.stored())
        if action.disputed:
            account.disputed[str(action.offset)] = (kept, owner.agent, *action.stored())
        elif account.disputed:
            account.disputed.pop(str(action.offset), None)

    def remember_first(self, account: Account, owner: Who, action_id: str, stored: tuple[Any, ...]) -> None:
        """Keep an action that has just come, in its stored form, for its window. `account`: the tenant's, as
        `change` gave it."""
        self._keep_action(account, owner, kept_id(action_id), stored)

    def _keep_action(self, account: Account, owner: Who, kept: str, stored: tuple[Any, ...]) -> None:
        self._memory(owner, account).recent[kept] = stored

    def has_room(self, owner: Who) -> bool:
        """Whether one more action of this agent can be remembered. An unregistered agent needs no room,
        because its actions are not remembered."""
        most = self._limits.max_recent_actions
        if owner.tenant == UNREGISTERED:
            return most > 0
        account = self.account(owner.tenant)
        if account is not None and account.disputed:
            most -= sum(stored[1] == owner.agent for stored in account.disputed.values())
        memory = NOTHING if account is None else account.agents.get(owner.agent, NOTHING)
        if len(memory.recent) < most and self._fits(memory, ACTION_BYTES):
            return True
        return self._finds_room(owner, ACTION_BYTES, lambda one: len(one.recent) < most)

    def write(self, owner: Who, write_id: str) -> RecentWrite | None:
        """What is remembered of a memory write's id; None outside its window."""
        found = self._read(owner).write(write_id)
        return None if found is None or not self.in_window(found.at_ms) else found

    def writes(self, tenant: str) -> list[RecentWrite]:
        """All that is remembered of writes of a tenant's agents."""
        return [RecentWrite(*kept) for one in self._of_tenant(tenant) for kept in one.writes.values()]

    def remember_write(self, owner: Who, write_id: str, write: RecentWrite) -> None:
        """Keep a memory write for its window, or replace what is kept of it."""
        self._memory(owner).writes[kept_id(write_id)] = tuple(write)

    def source(self, tenant: str, source_id: str) -> tuple[str | None, int | None]:
        """The type of a memory source and the time of its last write in this session, ms, by any agent of the
        tenant; None if nothing is kept."""
        kept = kept_id(source_id)
        entries = [one.sources[kept] for one in self._of_tenant(tenant) if kept in one.sources]
        return (entries[0][0], max(one[1] for one in entries)) if entries else (None, None)

    def has_room_for_write(self, owner: Who) -> bool:
        """Whether one more memory write of this agent can be remembered; see `has_room`."""
        most = self._limits.max_recent_writes
        if owner.tenant == UNREGISTERED:
            return most > 0
        return self._finds_room(owner, WRITE_BYTES, lambda one: len(one.writes) < most)

    def remember_source(self, owner: Who, source_id: str, source_type: str, at_ms: int) -> None:
        """Keep a source's last write; if the agent's room is full, it replaces the agent's oldest source."""
        memory, kept = self._memory(owner), kept_id(source_id)
        sources, most = memory.sources, self._limits.max_known_sources
        sources.pop(kept, None)
        while sources and (len(sources) >= most or not self._fits(memory, SOURCE_BYTES)):
            del sources[next(iter(sources))]
        if most > 0 and self._fits(memory, SOURCE_BYTES):
            sources[kept] = (source_type, at_ms)

    def retrieval(self, tenant: str, request_id: str) -> RecentRetrieval | None:
        """What is remembered under a request's id, for all agents of the tenant, with the tier of the last
        request; None outside its window."""
        every = (memory.retrieval(request_id) for memory in self._of_tenant(tenant))
        return join_all([one for one in every if one is not None and self.in_window(one.at_ms)])

    def remember_retrieval(self, owner: Who, request_id: str, retrieval: RecentRetrieval) -> None:
        """Keep the decided items of a retrieval; of those for which there is no room a store's report counts
        as uncovered."""
        if owner.tenant == UNREGISTERED:
            return
        memory = self._memory(owner)
        memory.keep_retrieval(request_id, retrieval, self._limits, partial(self._fits, memory))

    def remember_flags(self, owner: Who, items: Mapping[str, Iterable[str]]) -> None:
        """Keep the flags of served items; without room for them, keep that there were some."""
        if owner.tenant == UNREGISTERED or not items:
            return
        memory = self._memory(owner)
        fits = self._fits(memory, FLAGGED_BYTES * min(len(items), MAX_FLAGGED))
        for item, flags in (items if fits else LOST).items():
            add_flagged(memory.flagged, kept_id(item), flags, self.now)

    def remember_read(self, owner: Who, kind: ReadKind, last: str, times: int = 1) -> None:
        """Keep that untrusted content came in, `last` the id of the last of it. There are three kinds, which
        need no room: without them an agent could fill the session first. The time is the input's own, which
        follows from the input alone."""
        if owner.tenant != UNREGISTERED:
            add_read(self._memory(owner).read, kind, times, kept_id(last), self._at_ms)

    def served_flags(self, owner: Who, account: Account) -> dict[str, list[str]]:
        """The flags of items that the tenant's agents were served within the window, by kept id: all of this
        agent, and of the other agents as many as one agent may have. `account`: the tenant's."""
        flagged = {agent: one.flagged for agent, one in account.agents.items() if one.flagged}
        if not flagged:
            return {}
        return flags_of_all(flagged.pop(owner.agent, {}), flagged.values(), self._cut_ms)

    def remembered_by_gates(self, owner: Who, account: Account) -> Mapping[str, Any]:
        """What gates remember of an agent, by the gate's name. `account`: the tenant's."""
        return account.agents.get(owner.agent, NOTHING).values_of_gates()

    def remember_for_gate(self, owner: Who, gate: str, kept: GateMemory | None) -> None:
        """Keep what a gate remembers of an agent from here on, in place of what it did; None: nothing."""
        if kept is not None or gate in self._read(owner).gates:
            self._memory(owner).keep_for_gate(gate, kept)

    def _of_tenant(self, tenant: str) -> Iterable[Remembered]:
        account = self.account(tenant)
        return () if account is None else account.agents.values()

    def _memory(self, owner: Who, account: Account | None = None) -> Remembered:
        """The memories of an agent, for changing, without those that have left the window. `account`: the
        tenant's, where it is open for changing already."""
        agents = (account or self.change(owner.tenant)).agents
        if owner not in self._own:
            self._own.add(owner)
            agents[owner.agent] = agents.get(owner.agent, NOTHING).copied(self._cut_ms)
        return agents[owner.agent]

    def _finds_room(self, owner: Who, size: int, has_less: Callable[[Remembered], bool]) -> bool:
        """Whether there is room; if needed, drop memories outside the window first, then actions that a
        signed outcome has settled."""
        memory = self._read(owner)
        if has_less(memory) and self._fits(memory, size):
            return True
        for tenant in self.tenants():
            self.change(tenant)
        memory = self._memory(owner)
        if has_less(memory) and self._fits(memory, size):
            return True
        memory.fold()
        return has_less(memory) and self._fits(memory, size)

    def _fits(self, memory: Remembered, size: int) -> bool:
        """Whether this number of further bytes stays within the agent's share, which each of several may fill
        however much the others hold, and within the whole state."""
        most, agents, filled = self._limits.max_state_bytes, int(memory is NOTHING), 0
        for account in ({**self._base, **self._changed} if self._changed else self._base).values():
            agents += len(account.agents)
            filled += account.size
        return memory.size + size <= most // agents and filled + size <= SHARES_IN_ALL * most

    def _read(self, owner: Who) -> Remembered:
        account = self.account(owner.tenant)
        return NOTHING if account is None else account.agents.get(owner.agent, NOTHING)

    def transition(self, *, touched: bool = True) -> Transition:
        """The session's values now. `touched` False: only time acted, so the session is not marked as
        active."""
        last_at = self.now if touched else self.state.last_at
        due = min(last_at + self._limits.idle_timeout_ms, NEVER_DUE_MS)
        if self.early:
            due = min(due, self.early[0].at_ms + self._limits.action_window_ms)
        for tenant, account in self._base.items():
            if tenant not in self._changed and account.has_over(self._cut_ms):
                self.change(tenant)
        for owner in self._own:
            agents = self._changed[owner.tenant].agents
            if owner.agent in agents and agents[owner.agent].is_empty:
                del agents[owner.agent]
        return Transition(self.folded, self._changed, self.early, self._opened_at, last_at, due)

    def in_window(self, at_ms: int) -> bool:
        """Whether an input of this time is still remembered."""
        return at_ms > self._cut_ms
