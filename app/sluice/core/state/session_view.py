"""A session as one input finds it, and the events by which the input changes it.

The view reads at the input's time: what is over by then does not count. It never changes the state, so an
abandoned evaluation has no effect; what it changes it reads back at once. No step copies what the session
remembers, or goes through all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.registry.registry_entries import UNREGISTERED
from sluice.core.state.changes import DisputeEnded, DisputeOpened
from sluice.core.state.open_memory import NOTHING, add_flagged
from sluice.core.state.open_session import OpenSession
from sluice.core.state.recent_retrieval import (
    LOST,
    MAX_FLAGGED,
    RecentRetrieval,
    add_read,
    flags_of_all,
    join_all,
)
from sluice.core.state.remembered import (
    ACTION_BYTES,
    FLAGGED_BYTES,
    RETRIEVAL_BYTES,
    SOURCE_BYTES,
    WRITE_BYTES,
    RecentWrite,
    kept_id,
    recent_action,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sluice.core.state.recent_retrieval import ReadKind
    from sluice.core.state.remembered import GateMemory, RecentAction, Remembered
    from sluice.core.state.session import Account, Who


class SessionView(OpenSession):
    """What an input finds in its session, and what it leaves there."""

    __slots__ = ()

    def action(self, owner: Who, action_id: str) -> RecentAction | None:
        """What is remembered of an agent's action id; None outside its window."""
        stored = self.entry(owner, "recent", kept_id(action_id))
        return None if stored is None or not self.in_window(stored[2]) else recent_action(stored)

    def remember(self, owner: Who, action_id: str, action: RecentAction) -> None:
        """Keep an action for its window, or replace what is kept of it."""
        self._open(owner.tenant)
        kept, stored = kept_id(action_id), action.stored()
        if self.in_window(action.at_ms):
            self._memory(owner).table("recent").put(kept, stored)
        disputed = owner.tenant, str(action.offset)
        if action.disputed:
            self._changes.append(DisputeOpened(*disputed, (kept, owner.agent, *stored)))
        elif self._is_disputed(*disputed):
            self._changes.append(DisputeEnded(*disputed))
        self._disputed[disputed] = action.disputed

    def _is_disputed(self, tenant: str, offset: str) -> bool:
        account = self._base.get(tenant)
        known = self._disputed.get((tenant, offset))
        return known if known is not None else account is not None and offset in account.disputed

    def remember_first(self, owner: Who, action_id: str, stored: tuple[Any, ...]) -> None:
        """Keep an action that has just come, in its stored form, for its window."""
        self._memory(owner).table("recent").put(kept_id(action_id), stored)

    def has_room(self, owner: Who) -> bool:
        """Whether one more action of this agent can be remembered. An unregistered agent needs no room,
        because its actions are not remembered."""
        most = self._limits.max_recent_actions
        if owner.tenant == UNREGISTERED:
            return most > 0
        account = self._base.get(owner.tenant)
        if account is not None and account.disputed:
            most -= account.disputes[owner.agent]
        return self._finds_room(owner, "recent", most, ACTION_BYTES)

    def write(self, owner: Who, write_id: str) -> RecentWrite | None:
        """What is remembered of a memory write's id; None outside its window."""
        stored = self.entry(owner, "writes", kept_id(write_id))
        return None if stored is None or not self.in_window(stored[2]) else RecentWrite(*stored)

    def writes(self, tenant: str) -> list[RecentWrite]:
        """All that is remembered of writes of a tenant's agents."""
        found = [RecentWrite(*kept) for one in self._of_tenant(tenant) for kept in one.writes.values()]
        return [one for one in found if self.in_window(one.at_ms)]

    def remember_write(self, owner: Who, write_id: str, write: RecentWrite) -> None:
        """Keep a memory write for its window, or replace what is kept of it."""
        self._memory(owner).table("writes").put(kept_id(write_id), tuple(write))

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
        return self._finds_room(owner, "writes", most, WRITE_BYTES)

    def remember_source(self, owner: Who, source_id: str, source_type: str, at_ms: int) -> None:
        """Keep a source's last write; if the agent's room is full, it replaces the agent's oldest source."""
        memory, kept = self._memory(owner), kept_id(source_id)
        sources, most = memory.table("sources"), self._limits.max_known_sources
        sources.drop(kept)
        while len(sources) and (len(sources) >= most or not self._fits(owner, SOURCE_BYTES)):
            sources.drop(next(iter(sources)))
        if most > 0 and self._fits(owner, SOURCE_BYTES):
            sources.put(kept, (source_type, at_ms))

    def retrieval(self, tenant: str, request_id: str) -> RecentRetrieval | None:
        """What is remembered under a request's id, for all agents of the tenant, with the tier of the last
        request; None outside its window."""
        every = (memory.retrieval(request_id) for memory in self._of_tenant(tenant))
        return join_all([one for one in every if one is not None and self.in_window(one.at_ms)])

    def remember_retrieval(self, owner: Who, request_id: str, retrieval: RecentRetrieval) -> None:
        """Keep the decided items of a retrieval, together with what is kept under its id; of those for which
        there is no room a store's report counts as uncovered. While there is no room, the oldest ones go; if
        that is not enough, it is not kept."""
        if owner.tenant == UNREGISTERED:
            return
        memory, kept, limits = self._memory(owner), kept_id(request_id), self._limits
        table = memory.table("retrievals")
        known = table.get(kept)
        table.drop(kept)
        if known is not None:
            retrieval = RecentRetrieval(*known).joined(retrieval, limits.max_recent_items)
        size, items = RETRIEVAL_BYTES + len(retrieval.items), memory.marks() + retrieval.size

        def has_room() -> bool:
            few = len(table) < limits.max_recent_retrievals and items <= limits.max_recent_items
            return few and self._fits(owner, size)

        while len(table) and not has_room():
            oldest = next(iter(table))
            items -= RecentRetrieval(*table.get(oldest)).size
            table.drop(oldest)
        if has_room():
            table.put(kept, tuple(retrieval))

    def remember_flags(self, owner: Who, items: Mapping[str, Iterable[str]]) -> None:
        """Keep the flags of served items; without room for them, keep that there were some."""
        if owner.tenant == UNREGISTERED or not items:
            return
        memory = self._memory(owner)
        fits = self._fits(owner, FLAGGED_BYTES * min(len(items), MAX_FLAGGED))
        for item, flags in (items if fits else LOST).items():
            add_flagged(memory.table("flagged"), kept_id(item), flags, self.now)

    def remember_read(self, owner: Who, kind: ReadKind, last: str, times: int = 1) -> None:
        """Keep that untrusted content came in, `last` the id of the last of it. There are three kinds, which
        need no room: without them an agent could fill the session first. The time is the input's own, which
        follows from the input alone."""
        if owner.tenant != UNREGISTERED:
            read = self._memory(owner).table("read")
            read.put(kind, add_read(read.get(kind), times, kept_id(last), self._at_ms))

    def served_flags(self, owner: Who, account: Account) -> dict[str, list[str]]:
        """The flags of items that the tenant's agents were served within the window, by kept id: all of this
        agent, and of the other agents as many as one agent may have. `account`: the tenant's."""
        flagged = {agent: one.flagged for agent, one in account.agents.items() if one.flagged}
        if not flagged:
            return {}
        return flags_of_all(flagged.pop(owner.agent, {}), flagged.values(), self._cut_ms)

    def remembered_by_gates(self, owner: Who, account: Account) -> Mapping[str, Any]:
        """What gates remember of an agent, by the gate's name. `account`: the tenant's."""
        memory = account.agents.get(owner.agent, NOTHING)
        return memory.values_of_gates(self._cut_ms) if memory.gates else {}

    def remember_for_gate(self, owner: Who, gate: str, kept: GateMemory | None) -> None:
        """Keep what a gate remembers of an agent from here on, in place of what it did; None: nothing."""
        if kept is None and self.entry(owner, "gates", gate) is None:
            return
        gates = self._memory(owner).table("gates")
        gates.drop(gate)
        if kept is not None:
            gates.put(gate, kept.stored())

    def _of_tenant(self, tenant: str) -> list[Remembered]:
        account = self._base.get(tenant)
        return [] if account is None else [*account.agents.values()]
