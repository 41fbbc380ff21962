"""A session as one input finds it, and the events by which the input changes it.

The view reads at the input's time: what is over by then does not count. It never changes the state, so an
abandoned evaluation has no effect; what it changes it reads back at once. No step copies what the session
remembers, or goes through all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.registry.registry_entries import UNREGISTERED
from sluice.core.state.mandates import (
    LARGEST_MANDATE,
    MOST_MANDATES,
    add_others_uses,
    count_mandates,
    find_mandate,
    list_past,
    name_mandate,
)
from sluice.core.state.open_memory import NOTHING, OpenMemory, add_flagged
from sluice.core.state.recent_retrieval import (
    LOST,
    MAX_FLAGGED,
    NOTHING_READ,
    RecentRetrieval,
    add_read,
    join_all,
    join_flags,
    read_by_all,
)
from sluice.core.state.remembered import (
    ACTION_BYTES,
    FLAGGED_BYTES,
    GATE_BYTES,
    RETRIEVAL_BYTES,
    SOURCE_BYTES,
    WRITE_BYTES,
    GateMemory,
    RecentWrite,
    entry_bytes,
    read_recent_action,
    shorten_id,
)
from sluice.core.state.seen_values import (
    CUT,
    ECHO,
    ENTRY_BYTES,
    EXPECTED,
    FINGERPRINT_BYTES,
    LOST_ENTRY,
    MOST_BYTES,
    MOST_ENTRIES,
    MOST_WRITTEN,
    STRANGERS_ENTRY,
    UNEXPECTED,
    WHOLE,
    WRITTEN_ENTRY,
    SeenEntry,
    find_tenant_key,
    look_up,
    pack_fingerprints,
    unpack_fingerprints,
)
from sluice.core.state.session import (
    NEVER_DUE_MS,
    AgentExpired,
    Counted,
    DisputeEnded,
    DisputeOpened,
    Moved,
    OutcomeAnswered,
    OutcomeWaits,
    Restarted,
    Who,
)
from sluice.core.state.usual import Lesson
from sluice_topics.values import collect_values, fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sluice.core.foundation.limits import SessionLimits
    from sluice.core.state.limit_usage import LimitsCorrected, LimitSeen
    from sluice.core.state.recent_retrieval import ReadKind, ReadTally
    from sluice.core.state.remembered import RecentAction, Table
    from sluice.core.state.seen_values import ValuesSeen
    from sluice.core.state.session import Account, EarlyOutcome, Remembered, SessionChange, SessionState


SHARES_IN_ALL = 4
"""How many times the bytes that one agent may fill alone a state may have of many: each has a share of it."""


MOST_LESSONS = 16
"""Actions of an agent in a session whose outcome may still teach something."""
NOTHING_REMEMBERED: Mapping[str, Any] = {}


class ActionSeen(NamedTuple):
    """What a session says of an action. `rows` and `actions`: its tenant's totals before the action.
    `previous`: what is remembered under its id. `has_capacity`: whether one more action can be remembered;
    that is asked only where none is known. `flags`: by kept id those of the items that the agent was let see,
    of other agents of the tenant as many as one may have; `dispute`: the id of an action of its tenant whose
    outcome is disputed; `remembered`: by a gate's name what it remembers of the agent; `read`: by kind the
    untrusted content that came to the tenant's agents before. `mandate`: the one that the action names, None
    where the session has none of that digest; `mandates`: how many the agent has where the action names none;
    `values`: what is known of its destinations and objects, None: that was not asked for; `limits`: what its
    partition has counted for limits that may be about it, by their ids, None: there are none."""

    rows: int
    actions: int
    previous: RecentAction | None
    has_capacity: bool
    flags: Mapping[str, Sequence[str]]
    dispute: str | None
    remembered: Mapping[str, Any] = NOTHING_REMEMBERED
    read: Mapping[str, ReadTally] = NOTHING_READ
    mandate: Mapping[str, Any] | None = None
    mandates: int = 0
    values: ValuesSeen | None = None
    limits: Mapping[str, LimitSeen] | None = None


NOTHING_SEEN = ActionSeen(0, 0, None, has_capacity=True, flags={}, dispute=None)
"""Of an action whose session is not read."""


class SessionView:
    """What an input finds in its session, and what it leaves there. `now` is the input's broker time, never
    before the session's last; `restarted`: the session was idle too long and starts anew; `refused`: early
    outcomes whose time is over; `settled`: what outcomes settled in this input, as limits count it."""

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
        "now",
        "refused",
        "restarted",
        "settled",
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
        self.settled: list[LimitsCorrected] = []
        if state.early:
            self._refuse_early()
        self.restarted = bool(state.accounts) and state.last_at + limits.idle_timeout_ms <= self.now
        self._base = {} if self.restarted else state.accounts
        fresh = self.restarted or not (state.accounts or state.early)
        self._opened_at = self.now if fresh else state.opened_at

    def _refuse_early(self) -> None:
        for report in self.state.early.values():
            if report.at_ms > self._cut_ms:
                break
            self.refused.append(report)
            self.answer(report)

    def is_in_window(self, at_ms: int) -> bool:
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
        if tenant not in self._totals:
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
        return [report for report in every if report.own_offset not in self._answered]

    def wait(self, outcome: EarlyOutcome) -> None:
        """Let an outcome wait for its action."""
        self._waits.append(outcome)
        self._changes.append(OutcomeWaits(outcome))

    def answer(self, outcome: EarlyOutcome) -> None:
        """Let an outcome wait no longer."""
        self._answered.add(outcome.own_offset)
        self._changes.append(OutcomeAnswered(outcome.own_offset))

    def entry(self, owner: Who, table: Table, name: str) -> Any:
        """What an agent's memory has under a name, in its stored form; None for nothing."""
        memory = self._memories.get(owner)
        if memory is not None:
            return memory.table(table).get(name)
        return getattr(self._read_stored(owner), table).get(name)

    def changes(self, *, touched: bool = True) -> tuple[SessionChange, ...]:
        """The events of this input. `touched` False: only time acted, so the session is not marked as
        active."""
        for tenant in self._base:
            if tenant not in self._expired:
                self._expire(tenant)
        for owner, memory in self._memories.items():
            if memory.is_empty:
                self._changes.append(AgentExpired(*owner))
        last_at = self.now if touched else self.state.last_at
        due = min(last_at + self._limits.idle_timeout_ms, NEVER_DUE_MS)
        if self.state.early or self._waits:
            due = min([due, *(report.at_ms + self._limits.action_window_ms for report in self.early[:1])])
        changes: list[SessionChange] = [Restarted()] if self.restarted else []
        for tenant, totals in self._totals.items():
            account = self._base.get(tenant)
            if account is None or (account.rows, account.actions) != totals:
                changes.append(Counted(tenant, *totals))
        return (*changes, *self._changes, Moved(self._opened_at, last_at, due))

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
        cut_ms = self._cut_ms
        for agent, memory in self._base[tenant].agents.items():
            recent = memory.recent
            if not (recent and recent[next(reversed(recent))][2] > cut_ms) and memory.is_over(cut_ms):
                self._left[Who(tenant, agent)] = memory.drop_timed()
                self._changes.append(AgentExpired(tenant, agent))

    def _read_stored(self, owner: Who) -> Remembered:
        """An agent's memory as the session has it."""
        if owner in self._left:
            return self._left[owner] or NOTHING
        account = self._base.get(owner.tenant)
        return NOTHING if account is None else account.agents.get(owner.agent, NOTHING)

    def _memory(self, owner: Who) -> OpenMemory:
        """The memory of an agent, for changing, without what has left the window."""
        memory = self._memories.get(owner)
        if memory is None:
            if owner.tenant not in self._totals:
                self._open(owner.tenant)
            memory = OpenMemory(self._read_stored(owner), owner, self._changes, self._cut_ms)
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
        count = len(getattr(self._read_stored(owner), table)) if memory is None else memory.count(table)
        return count < most and self.fits(owner, size)

    def fits(self, owner: Who, size: int) -> bool:
        """Whether this number of further bytes stays within the agent's share, which each of several may fill
        however much the others hold, and within the whole state."""
        most, agents, filled = self._limits.max_state_bytes, 0, 0
        for account in self._base.values():
            agents += len(account.agents)
            filled += ACTION_BYTES * len(account.disputed)
            for memory in account.agents.values():
                filled += memory.size
        for whose, left in self._left.items():
            filled -= self._base[whose.tenant].agents[whose.agent].size - (0 if left is None else left.size)
            agents -= left is None
        for whose, opened in self._memories.items():
            stored = self._read_stored(whose)
            filled += opened.size - (0 if stored is NOTHING else stored.size)
            agents += stored is NOTHING
        own = self._memories.get(owner) or self._read_stored(owner)
        agents += own is NOTHING
        return own.size + size <= most // agents and filled + size <= SHARES_IN_ALL * most

    def action(self, owner: Who, action_id: str) -> RecentAction | None:
        """What is remembered of an agent's action id; None outside its window."""
        stored = self.entry(owner, "recent", shorten_id(action_id))
        return None if stored is None or stored[2] <= self._cut_ms else read_recent_action(stored)

    def remember(self, owner: Who, action_id: str, action: RecentAction) -> None:
        """Keep an action for its window, or replace what is kept of it."""
        self._open(owner.tenant)
        short_id, stored = shorten_id(action_id), action.encode()
        if self.is_in_window(action.at_ms):
            self._memory(owner).table("recent").put(short_id, stored)
        disputed = owner.tenant, str(action.offset)
        if action.disputed:
            self._changes.append(DisputeOpened(*disputed, (short_id, owner.agent, *stored)))
        elif self._is_disputed(*disputed):
            self._changes.append(DisputeEnded(*disputed))
        self._disputed[disputed] = action.disputed

    def _is_disputed(self, tenant: str, offset: str) -> bool:
        account = self._base.get(tenant)
        disputed = self._disputed.get((tenant, offset))
        return disputed if disputed is not None else account is not None and offset in account.disputed

    def remember_first(self, owner: Who, action_id: str, stored: tuple[Any, ...]) -> None:
        """Keep an action that has just come, in its stored form, for its window."""
        self._memory(owner).table("recent").put(shorten_id(action_id), stored)

    def has_room(self, owner: Who) -> bool:
        """Whether one more action of this agent can be remembered. An unregistered agent needs no room,
        because its actions are not remembered."""
        most = self._limits.max_recent_actions
        if owner.tenant == UNREGISTERED:
            return most > 0
        account = self._base.get(owner.tenant)
        if account is not None and account.disputed:
            most -= account.disputes[owner.agent]
        if (
            not self._memories
            and len(self._read_stored(owner).recent) < most
            and self.fits(owner, ACTION_BYTES)
        ):
            return True
        return self._finds_room(owner, "recent", most, ACTION_BYTES)

    def write(self, owner: Who, write_id: str) -> RecentWrite | None:
        """What is remembered of a memory write's id; None outside its window."""
        stored = self.entry(owner, "writes", shorten_id(write_id))
        return None if stored is None or not self.is_in_window(stored[2]) else RecentWrite(*stored)

    def writes(self, tenant: str) -> list[RecentWrite]:
        """All that is remembered of writes of a tenant's agents."""
        writes = [
            RecentWrite(*write) for agent in self._list_tenant(tenant) for write in agent.writes.values()
        ]
        return [write for write in writes if self.is_in_window(write.at_ms)]

    def remember_write(self, owner: Who, write_id: str, write: RecentWrite) -> None:
        """Keep a memory write for its window, or replace what is kept of it."""
        self._memory(owner).table("writes").put(shorten_id(write_id), tuple(write))

    def source(self, tenant: str, source_id: str) -> tuple[str | None, int | None]:
        """The type of a memory source and the time of its last write in this session, ms, by any agent of the
        tenant; None if nothing is kept."""
        short_id = shorten_id(source_id)
        entries = [
            agent.sources[short_id] for agent in self._list_tenant(tenant) if short_id in agent.sources
        ]
        return (entries[0][0], max(entry[1] for entry in entries)) if entries else (None, None)

    def has_room_for_write(self, owner: Who) -> bool:
        """Whether one more memory write of this agent can be remembered; see `has_room`."""
        most = self._limits.max_recent_writes
        if owner.tenant == UNREGISTERED:
            return most > 0
        return self._finds_room(owner, "writes", most, WRITE_BYTES)

    def remember_source(self, owner: Who, source_id: str, source_type: str, at_ms: int) -> None:
        """Keep a source's last write; if the agent's room is full, it replaces the agent's oldest source."""
        memory, short_id = self._memory(owner), shorten_id(source_id)
        sources, most = memory.table("sources"), self._limits.max_known_sources
        sources.drop(short_id)
        while len(sources) and (len(sources) >= most or not self.fits(owner, SOURCE_BYTES)):
            sources.drop(next(iter(sources)))
        if most > 0 and self.fits(owner, SOURCE_BYTES):
            sources.put(short_id, (source_type, at_ms))

    def retrieval(self, tenant: str, request_id: str) -> RecentRetrieval | None:
        """What is remembered under a request's id, for all agents of the tenant, with the tier of the last
        request; None outside its window."""
        every = (memory.retrieval(request_id) for memory in self._list_tenant(tenant))
        return join_all(
            [retrieval for retrieval in every if retrieval is not None and self.is_in_window(retrieval.at_ms)]
        )

    def remember_retrieval(self, owner: Who, request_id: str, retrieval: RecentRetrieval) -> None:
        """Keep the decided items of a retrieval, together with what is kept under its id; of those for which
        there is no room a store's report counts as uncovered. While there is no room, the oldest ones go; if
        that is not enough, it is not kept."""
        if owner.tenant == UNREGISTERED:
            return
        memory, short_id, limits = self._memory(owner), shorten_id(request_id), self._limits
        table = memory.table("retrievals")
        previous = table.get(short_id)
        table.drop(short_id)
        if previous is not None:
            retrieval = RecentRetrieval(*previous).join(retrieval, limits.max_recent_items)
        size, items = RETRIEVAL_BYTES + len(retrieval.items), memory.marks() + retrieval.size

        def has_room() -> bool:
            few = len(table) < limits.max_recent_retrievals and items <= limits.max_recent_items
            return few and self.fits(owner, size)

        while len(table) and not has_room():
            oldest = next(iter(table))
            items -= RecentRetrieval(*table.get(oldest)).size
            table.drop(oldest)
        if has_room():
            table.put(short_id, tuple(retrieval))

    def remember_flags(self, owner: Who, items: Mapping[str, Iterable[str]]) -> None:
        """Keep the flags of served items; without room for them, keep that there were some."""
        if owner.tenant == UNREGISTERED or not items:
            return
        memory = self._memory(owner)
        fits = self.fits(owner, FLAGGED_BYTES * min(len(items), MAX_FLAGGED))
        for item, flags in (items if fits else LOST).items():
            add_flagged(memory.table("flagged"), shorten_id(item), flags, self.now)

    def remember_read(self, owner: Who, kind: ReadKind, last: str, times: int = 1) -> None:
        """Keep that untrusted content came in, `last` the id of the last of it. There are three kinds, which
        need no room: without them an agent could fill the session first. The time is the input's own, which
        follows from the input alone."""
        if owner.tenant != UNREGISTERED:
            read = self._memory(owner).table("read")
            read.put(kind, add_read(read.get(kind), times, shorten_id(last), self._at_ms))

    def look_up_values(self, owner: Who, fingerprints: Mapping[str, bytes]) -> ValuesSeen:
        """What the session has seen of an action's values, whichever agent of the tenant it came to.
        `fingerprints`: by the argument's path."""
        return look_up(
            [agent.values for agent in self._list_tenant(owner.tenant) if agent.values], fingerprints
        )

    def expect_values(self, owner: Who, name: str, tool: str, own: Sequence[bytes], *, trusted: bool) -> None:
        """Keep that a call whose results count is carried out, and that its values are not known yet. `own`:
        the fingerprints of what the call itself says: a result that repeats them is nobody's word."""
        prints = pack_fingerprints(own)
        self._put_values(owner, name, SeenEntry(trusted, self._at_ms, shorten_id(tool), EXPECTED, prints))

    def remember_values(
        self,
        owner: Who,
        name: str,
        source: str,
        fingerprints: Sequence[bytes],
        *,
        signed: bool = False,
        complete: bool,
    ) -> None:
        """Keep the values of a call's outcome, with those of its name that are there. `signed`: by an
        enforcement point; then they complete the entry of an expected call, and are trusted where that says
        so. Others stand beside it, and what was expected stays incomplete."""
        expected, state = self.entry(owner, "values", name), WHOLE if complete else CUT
        prints = [print_[:FINGERPRINT_BYTES] for print_ in fingerprints]
        if expected is None or not signed:
            source = source if expected is None else expected[2]
            name = f"{name}{UNEXPECTED}"
            expected = self.entry(owner, "values", name)
        trusted = False
        if expected is not None:
            trusted, source = bool(expected[0]) and signed, expected[2]
            expected_prints = unpack_fingerprints(expected[4])
            if expected[3] == EXPECTED:
                echoed = [print_ for print_ in prints if print_ in expected_prints]
                if trusted and echoed:
                    prints = [print_ for print_ in prints if print_ not in expected_prints]
                    entry = SeenEntry(
                        False, self._at_ms, shorten_id(source), WHOLE, pack_fingerprints(echoed)
                    )
                    self._put_values(owner, f"{name}{ECHO}", entry)
            else:
                prints = [*expected_prints, *prints]
                state = max(state, expected[3])
        entry = SeenEntry(trusted, self._at_ms, shorten_id(source), state, pack_fingerprints(prints))
        self._put_values(owner, name, entry)

    def remember_content(self, owner: Who, name: str, source: str, content: Any, master: bytes) -> None:
        """Keep the values in a text, or other JSON, that came in. They are not trusted, whoever wrote it.
        `master`: the key of fingerprints."""
        if owner.tenant == UNREGISTERED:
            return
        key, values = find_tenant_key(master, owner.tenant), collect_values(content)
        if values.values or values.truncated:
            state = CUT if values.truncated else WHOLE
            packed = pack_fingerprints(fingerprint(key, value) for value in values.values)
            self._put_values(owner, name, SeenEntry(False, self._at_ms, shorten_id(source), state, packed))
        else:
            self.remember_strangers(owner, source)

    def remember_strangers(self, owner: Who, source: str) -> None:
        """Keep that text came in that is not trusted, where no values of it are kept."""
        if owner.tenant != UNREGISTERED and self.entry(owner, "values", STRANGERS_ENTRY) is None:
            self._put_values(
                owner, STRANGERS_ENTRY, SeenEntry(False, self._at_ms, shorten_id(source), WHOLE, "")
            )

    def remember_written(self, owner: Who, content: Any, key: bytes) -> None:
        """Keep the values that a carried-out call says and no trusted result has: a system that returns them
        later may only repeat what the call wrote. `key`: the tenant's, of fingerprints."""
        if owner.tenant == UNREGISTERED:
            return
        tables = [agent.values for agent in self._list_tenant(owner.tenant) if agent.values]
        collected = collect_values(content)
        prints = {value.text: fingerprint(key, value) for value in collected.values}
        values = look_up(tables, prints).values
        new = [value for text, value in prints.items() if text not in values or not values[text].trusted]
        before = self.entry(owner, "values", WRITTEN_ENTRY)
        stored = [] if before is None else unpack_fingerprints(before[4])
        every = [*dict.fromkeys([*stored, *(print_[:FINGERPRINT_BYTES] for print_ in new)])]
        cut = collected.truncated or len(every) > MOST_WRITTEN or (before is not None and before[3] == CUT)
        if len(every) > len(stored) or cut:
            state, packed = CUT if cut else WHOLE, pack_fingerprints(every[:MOST_WRITTEN])
            entry = SeenEntry(False, self._at_ms, WRITTEN_ENTRY, state, packed)
            self._put_values(owner, WRITTEN_ENTRY, entry)

    def keep_lesson(self, owner: Who, offset: int, lesson: Lesson) -> None:
        """Keep what a carried-out action will teach once its outcome is signed; where there is no room, it
        teaches nothing."""
        if owner.tenant == UNREGISTERED:
            return
        lessons, stored = self._memory(owner).table("lessons"), lesson.store(self.now)
        while len(lessons) >= MOST_LESSONS:
            lessons.drop(next(iter(lessons)))
        if self.fits(owner, entry_bytes("lessons", stored)):
            lessons.put(str(offset), stored)

    def take_lesson(self, owner: Who, offset: int) -> Lesson | None:
        """What the action of this offset teaches, once."""
        stored = self.entry(owner, "lessons", str(offset))
        if stored is None:
            return None
        self._memory(owner).table("lessons").drop(str(offset))
        return Lesson.read(stored)

    def _put_values(self, owner: Who, name: str, entry: SeenEntry) -> None:
        """Keep an entry of values; while there is no room for it the oldest ones go, and it is kept that some
        went. What agents wrote stays: without room for that, it is kept that not all of it is known."""
        if owner.tenant == UNREGISTERED:
            return
        table = self._memory(owner).table("values")
        table.drop(name)
        others = {
            entry_name: ENTRY_BYTES + len(table.get(entry_name)[4])
            for entry_name in table
            if entry_name != LOST_ENTRY
        }
        stays, lost = others.pop(WRITTEN_ENTRY, 0), False
        while not (has_room := self._takes_values(owner, others, entry, stays)) and others:
            oldest = next(iter(others))
            del others[oldest]
            table.drop(oldest)
            lost = True
        if has_room:
            table.put(name, tuple(entry))
        elif name == WRITTEN_ENTRY:
            table.put(name, tuple(entry._replace(state=CUT, prints="")))
        if (lost or not has_room) and table.get(LOST_ENTRY) is None:
            table.put(LOST_ENTRY, tuple(SeenEntry(False, self._at_ms, LOST_ENTRY, CUT, "")))

    def _takes_values(self, owner: Who, others: Mapping[str, int], entry: SeenEntry, stays: int) -> bool:
        """Whether the entry finds room beside the others, the bytes that stay, LOST_ENTRY and the least form
        of WRITTEN_ENTRY."""
        size = entry.size + 2 * ENTRY_BYTES
        few = len(others) < MOST_ENTRIES and sum(others.values()) + stays + size <= MOST_BYTES
        return few and self.fits(owner, size)

    def see_action(self, owner: Who, action_id: str, mandate_digest: str | None = None) -> ActionSeen:
        """What the session says of an action of `owner`, before it changes anything. `mandate_digest`: of the
        mandate that it names."""
        account = self._base.get(owner.tenant)
        if account is None:
            return ActionSeen(0, 0, None, self.has_room(owner), {}, None)
        flagged: dict[str, dict[str, Any]] = {}
        read: list[Mapping[str, Any]] = []
        for agent, remembered in account.agents.items():
            if remembered.flagged:
                flagged[agent] = remembered.flagged
            if remembered.read:
                read.append(remembered.read)
        memory = account.agents.get(owner.agent, NOTHING)
        action = self.action(owner, action_id) if memory.recent else None
        return ActionSeen(
            account.rows,
            account.actions,
            action,
            action is not None or self.has_room(owner),
            join_flags(flagged.pop(owner.agent, {}), flagged.values(), self._cut_ms) if flagged else {},
            account.dispute if account.disputed else None,
            memory.values_of_gates(self._cut_ms) if memory.gates else NOTHING_REMEMBERED,
            read_by_all(read) if read else NOTHING_READ,
            self._see_mandate(owner, account, mandate_digest) if mandate_digest and memory.gates else None,
            count_mandates(memory.gates, self.now) if memory.gates and not mandate_digest else 0,
        )

    def _see_mandate(self, owner: Who, account: Account, digest: str) -> Mapping[str, Any] | None:
        """An agent's mandate, with what other agents of the tenant have used of the counts in its chain."""
        mandate = find_mandate(account.agents[owner.agent].gates, digest)
        if mandate is None or len(account.agents) == 1:
            return mandate
        others = (
            remembered.gates
            for agent, remembered in account.agents.items()
            if agent != owner.agent and remembered.gates
        )
        return add_others_uses(mandate, others, self.now)

    @property
    def is_set_back(self) -> bool:
        """Whether the input's broker time is before the session's last."""
        return self._at_ms < self.now

    def read_gate_memory(self, owner: Who, account: Account) -> Mapping[str, Any]:
        """What gates remember of an agent, by the gate's name. `account`: the tenant's."""
        memory = account.agents.get(owner.agent, NOTHING)
        return memory.values_of_gates(self._cut_ms) if memory.gates else {}

    def remember_for_gate(self, owner: Who, gate: str, gate_memory: GateMemory | None) -> None:
        """Keep what a gate remembers of an agent from here on, in place of what it did; None: nothing."""
        if gate_memory is None and self.entry(owner, "gates", gate) is None:
            return
        gates = self._memory(owner).table("gates")
        gates.drop(gate)
        if gate_memory is not None:
            gates.put(gate, gate_memory.encode())

    def remember_mandate(self, owner: Who, mandate: Mapping[str, Any]) -> str | None:
        """Keep a mandate (MandateSeen) whose time is not over, in place of the same one. Returns why there is
        no room for it, else None."""
        name, gate_memory = name_mandate(mandate["digest"]), GateMemory(mandate["until_ms"], mandate)
        size, gates = gate_memory.encode()[2], self._read_stored(owner).gates
        if size > LARGEST_MANDATE:
            return f"it takes {size} bytes with the mandates above it, {LARGEST_MANDATE} is the most"
        for past in list_past(gates, self.now):
            self.remember_for_gate(owner, past, None)
        if name not in gates:
            if count_mandates(gates, self.now) >= MOST_MANDATES:
                return f"the agent has {MOST_MANDATES} mandates in the session already"
            if not self.fits(owner, GATE_BYTES + size):
                return "the session has no room for more of this agent"
        self.remember_for_gate(owner, name, gate_memory)
        return None

    def _list_tenant(self, tenant: str) -> list[Remembered]:
        account = self._base.get(tenant)
        return [] if account is None else [*account.agents.values()]
