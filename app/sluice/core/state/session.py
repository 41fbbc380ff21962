"""A session's state: the totals of its agents' actions, per tenant, and what it still remembers.

Product.md, "Session state". An action that the caller will carry out counts at once (its rows are reserved);
an outcome settles it. Actions that leave the window are dropped from `recent`; their rows are already in the
totals.

An input's decision returns events, which the session's owner applies in their order, in place. Each is
small, whatever the session remembers: it says what is, not by how much it differs. They leave the session as
the view on which the decision was made had it (sluice/core/state/session_view.py).

Stored form, in the table and in its changelog: a head, JSON that starts with a fixed-width due time, so that
timers can find due sessions without reading the rest, and the pages of what is remembered, a few entries
each, so that an input writes what it changed. The forms of the entries: sluice/core/state/remembered.py.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import orjson

from sluice.core.foundation.canonical import MAX_SAFE_INTEGER, wire_int, wire_safe
from sluice.core.registry.registry_entries import UNREGISTERED
from sluice.core.state.recent_retrieval import RecentRetrieval
from sluice.core.state.remembered import (
    ACTION_BYTES,
    AGENT_BYTES,
    FIXED_BYTES,
    TIMED,
    UNSETTLED,
    UNTIMED,
    RecentAction,
    RecentWrite,
    Table,
    entry_bytes,
    is_settled,
    read_recent_action,
    shorten_id,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


KEY_PREFIX = b"s:"
PAGE_PREFIX = b"r:"
NEVER_DUE_MS = 9_999_999_999_999
REMEMBERED_OWNERS = 1 << 12
_DUE_DIGITS = 13
_DUE_PREFIX = b'{"due":'
_DUE_END = len(_DUE_PREFIX) + _DUE_DIGITS


class EarlyOutcome(NamedTuple):
    """An outcome that waits for its action, which may not have arrived yet.

    `signed`: an enforcement point's valid signature binds it to the action at `offset` with the hex
    digest `digest`; both are None for an unsigned one.
    """

    action_id: str
    tenant: str | None
    at_ms: int
    rows: int
    signed: bool
    reported_by: str
    origin: list[Any]
    offset: int | None
    digest: str | None

    @property
    def own_offset(self) -> int:
        """Its own offset, which no other outcome of the session has."""
        return int(self.origin[2])

    def coordinates(self) -> dict[str, Any]:
        """The `input` field of the ledger record about it."""
        names = ("topic", "partition", "offset", "timestamp", "digest")
        return dict(zip(names, self.origin, strict=True))

    def means(self, action: RecentAction) -> bool:
        """Whether this remembered action of its id is the one it was signed for; an unsigned outcome means
        any."""
        return self.offset is None or (self.offset, self.digest) == (action.offset, action.digest)


class Who(NamedTuple):
    """The author of an input: a tenant, and the agent's kept id. For an unregistered agent the id is "", and
    nothing is remembered of it."""

    tenant: str
    agent: str


@lru_cache(maxsize=REMEMBERED_OWNERS)
def who(tenant: str, agent_id: str) -> Who:
    """The agent of a tenant."""
    return Who(tenant, "" if tenant == UNREGISTERED else shorten_id(agent_id))


@dataclass(slots=True)
class Remembered:
    """The memories of one agent. Ids are `shorten_id`s. `recent` maps action id to a stored RecentAction,
    oldest first, `writes` write id to a stored RecentWrite, `sources` a memory source's id to its type and
    last write (ms), `retrievals` a request's id to a stored RecentRetrieval, `flagged` an item's id to a
    stored Flagged, `gates` a gate's name to what it remembers: until_ms, the value and its bytes, `read` a
    kind of untrusted content to a stored ReadTally, `values` an input's name to a stored SeenEntry, `lessons`
    an action's offset to a stored Lesson, which its outcome will teach.

    `size`: bytes that it takes at most in the stored form. `settled`: the names of those in `recent` that a
    signed outcome has settled.
    """

    recent: dict[str, Any] = field(default_factory=dict)
    writes: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, Any] = field(default_factory=dict)
    retrievals: dict[str, Any] = field(default_factory=dict)
    flagged: dict[str, Any] = field(default_factory=dict)
    gates: dict[str, Any] = field(default_factory=dict)
    read: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    lessons: dict[str, Any] = field(default_factory=dict)
    size: int = field(default=AGENT_BYTES, init=False, compare=False)
    settled: dict[str, None] = field(default_factory=dict, init=False, compare=False)

    def __post_init__(self) -> None:
        """Reckon what it was made with."""
        self.settled.update((name, None) for name, stored in self.recent.items() if is_settled(stored))
        for table in (*TIMED, *UNTIMED):
            for stored in getattr(self, table).values():
                self.size += entry_bytes(table, stored)

    def put(self, table: Table, name: str, stored: Any) -> None:
        """Keep an entry, in its place where there is one of the name."""
        entries = getattr(self, table)
        previous, size = entries.get(name), FIXED_BYTES.get(table)
        if previous is not None:
            self.size -= size or entry_bytes(table, previous)
        entries[name] = stored
        self.size += size or entry_bytes(table, stored)
        if table == "recent" and (self.settled or len(stored) > UNSETTLED):
            self._settle(name, stored)

    def drop(self, table: Table, name: str) -> None:
        """Forget an entry. Raises KeyError where there is none of the name."""
        self.size -= entry_bytes(table, getattr(self, table).pop(name))
        if table == "recent":
            self.settled.pop(name, None)

    def _settle(self, name: str, stored: Any) -> None:
        if is_settled(stored):
            self.settled[name] = None
        elif self.settled:
            self.settled.pop(name, None)

    def action(self, action_id: str) -> RecentAction | None:
        """What is remembered of an action id."""
        stored = self.recent.get(shorten_id(action_id))
        return None if stored is None else read_recent_action(stored)

    def write(self, write_id: str) -> RecentWrite | None:
        """What is remembered of a write's id."""
        stored = self.writes.get(shorten_id(write_id))
        return None if stored is None else RecentWrite(*stored)

    def retrieval(self, request_id: str) -> RecentRetrieval | None:
        """What is remembered of a retrieval."""
        stored = self.retrievals.get(shorten_id(request_id))
        return None if stored is None else RecentRetrieval(*stored)

    def values_of_gates(self, cut_ms: int) -> Mapping[str, Any]:
        """What gates remember, by the gate's name, without what is over."""
        return {name: memory[1] for name, memory in self.gates.items() if memory[0] > cut_ms}

    def list_expired(self, cut_ms: int) -> Iterator[tuple[str, Table]]:
        """The names of the entries of this time or before, with their tables."""
        for table in TIMED:
            for name, stored in getattr(self, table).items():
                if stored[2] > cut_ms:
                    break
                yield name, table
        for name, memory in self.gates.items():
            if memory[0] <= cut_ms:
                yield name, "gates"

    def is_over(self, cut_ms: int) -> bool:
        """Whether there is something of this time or before, or nothing, and nothing later. What it knows of
        sources, untrusted content and values has no time; what gates remember has a later one of its own."""
        timed = False
        for table in (self.recent, self.writes, self.retrievals, self.flagged, self.lessons):
            if table:
                if table[next(reversed(table))][2] > cut_ms:
                    return False
                timed = True
        for until_ms, *_ in self.gates.values():
            if until_ms > cut_ms:
                return False
        return timed or bool(self.gates) or not (self.sources or self.read or self.values)

    def drop_timed(self) -> Remembered | None:
        """What is left of it when everything with a time is over."""
        if not (self.sources or self.read or self.values):
            return None
        return Remembered(sources=self.sources, read=self.read, values=self.values)

    def names(self, tables: Iterable[Table]) -> Iterator[tuple[Table, str]]:
        """The entries of some tables."""
        return ((table, name) for table in tables for name in getattr(self, table))


PAGE = 4
"""Slots of a page: what an input writes is at most this many entries for each page that it changes."""
PLACES = (
    "recent",
    "writes",
    "sources",
    "retrievals",
    "flagged",
    "gates",
    "read",
    "disputed",
    "early",
    "values",
    "lessons",
)
"""The tables by the number under which an entry names its own."""


EntryName = tuple[str, str, str, str]
"""An entry's tenant, agent, table and name. Tenant and agent are "" for outcomes that wait, the agent for
disputes."""


class Pages:
    """The entries of one session by slot. `count`: how many pages there have been.

    Each entry has a slot, and `PAGE` slots are a page. A change marks its page, and only marked pages are
    written again: a page takes as many bytes in a large session as in a small one. A slot that is free is
    taken again, so a session that forgets as much as it learns stays as long as it is. Each entry carries its
    order, so that the tables can be built again with the oldest first.
    """

    __slots__ = ("_free", "_marked", "_next", "_slots", "_where")

    def __init__(self) -> None:
        self._slots: list[tuple[int, EntryName, Any] | None] = []
        self._where: dict[EntryName, int] = {}
        self._free: list[int] = []
        self._marked: set[int] = set()
        self._next = 0

    @property
    def count(self) -> int:
        """How many pages there are, empty ones among them."""
        return -(-len(self._slots) // PAGE)

    def put(self, name: EntryName, stored: Any) -> None:
        """Keep an entry: in its slot and order where there is one of the name, else as the newest."""
        slot = self._where.get(name)
        if slot is None:
            if self._free:
                slot = heapq.heappop(self._free)
            else:
                slot = len(self._slots)
                self._slots.append(None)
            self._where[name] = slot
            self._next += 1
            order = self._next
        else:
            order = self._slots[slot][0]  # type: ignore[index]
        self._slots[slot] = order, name, stored
        self._marked.add(slot // PAGE)

    def drop(self, name: EntryName) -> None:
        """Forget an entry. Raises KeyError where there is none of the name."""
        slot = self._where.pop(name)
        self._slots[slot] = None
        heapq.heappush(self._free, slot)
        self._marked.add(slot // PAGE)

    def take_marked(self) -> list[int]:
        """The pages that changed since the last time."""
        marked, self._marked = self._marked, set()
        return sorted(marked)

    def encode(self, page: int) -> bytes | None:
        """A page as it is stored; None for an empty one."""
        agents: dict[tuple[str, str], int] = {}
        entries = []
        for slot in range(page * PAGE, min((page + 1) * PAGE, len(self._slots))):
            entry = self._slots[slot]
            if entry is not None:
                order, (tenant, agent, table, name), stored = entry
                whose = agents.setdefault((tenant, agent), len(agents))
                entries.append([slot, order, whose, PLACES.index(table), name, stored])
        if not entries:
            return None
        value = [[*agents], entries]
        try:
            return orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
        except TypeError:
            return orjson.dumps(wire_safe(value))

    def restore(self, count: int, pages: Iterable[Any]) -> list[tuple[EntryName, Any]]:
        """Take over stored pages, as JSON; their entries in their order. `count`: what it was then."""
        self._slots = [None] * (count * PAGE)
        for agents, entries in pages:
            for slot, order, whose, table, name, stored in entries:
                self._slots[slot] = order, (*agents[whose], PLACES[table], name), stored
        filled = sorted((entry for entry in self._slots if entry is not None), key=itemgetter(0))
        self._where = {
            slot_entry[1]: slot for slot, slot_entry in enumerate(self._slots) if slot_entry is not None
        }
        self._free = [slot for slot, entry in enumerate(self._slots) if entry is None]
        self._next = filled[-1][0] if filled else 0
        return [(name, stored) for _, name, stored in filled]


@dataclass(slots=True)
class Account:
    """One tenant's totals in the session, and the memories by agent.

    `disputed` maps the offset of a disputed action to its kept id, its agent and the stored RecentAction; it
    outlives the window. `disputes` counts them by agent.
    """

    rows: int
    actions: int
    agents: dict[str, Remembered] = field(default_factory=dict)
    disputed: dict[str, Any] = field(default_factory=dict)
    disputes: Counter[str] = field(default_factory=Counter, init=False, compare=False)

    def __post_init__(self) -> None:
        """Count what it was made with."""
        self.disputes.update(stored[1] for stored in self.disputed.values())

    def put_dispute(self, offset: str, stored: tuple[Any, ...]) -> None:
        """Keep a disputed action, in its place where it is disputed already."""
        if offset not in self.disputed:
            self.disputes[stored[1]] += 1
        self.disputed[offset] = stored

    def end_dispute(self, offset: str) -> None:
        """Dispute an action no longer. Raises KeyError where it is not disputed."""
        self.disputes[self.disputed.pop(offset)[1]] -= 1

    def find_disputed(self, offset: int, action_id: str) -> tuple[str, RecentAction] | None:
        """The agent and the disputed action of this offset and id."""
        stored = self.disputed.get(str(offset))
        if stored is None or stored[0] != shorten_id(action_id):
            return None
        return stored[1], read_recent_action(stored[2:])

    @property
    def dispute(self) -> str | None:
        """The id of an action with a disputed outcome; None if there is none."""
        return str(next(iter(self.disputed.values()))[0]) if self.disputed else None

    @property
    def size(self) -> int:
        """Bytes that it takes at most in the stored form."""
        size = ACTION_BYTES * len(self.disputed)
        for agent in self.agents.values():
            size += agent.size
        return size

    @classmethod
    def decode(cls, stored: list[Any]) -> Account:
        """From the head: without entries, its agents named in their order."""
        rows, actions, agents = stored
        return cls(int(rows), actions, {name: Remembered() for name in agents})


class SessionState:
    """The state of one session. Only events change it. `early`: the outcomes that wait, by their offset, the
    oldest first."""

    __slots__ = ("accounts", "due_ms", "early", "key", "last_at", "opened_at", "pages")

    def __init__(self, key: bytes) -> None:
        """A new session; `key` is the table's key, `session_key(session_id)`."""
        self.key = key
        self.accounts: dict[str, Account] = {}
        self.early: dict[int, EarlyOutcome] = {}
        self.pages = Pages()
        self.opened_at = 0
        self.last_at = 0
        self.due_ms = NEVER_DUE_MS

    @property
    def gone(self) -> bool:
        """Whether the state has nothing left that a later input could need."""
        return not self.accounts and not self.early

    @property
    def session_id(self) -> str:
        """The id in the key."""
        return self.key[len(KEY_PREFIX) :].decode()

    def apply(self, changes: Iterable[SessionChange]) -> None:
        """Take over the changes of a decision that was made on this state."""
        for change in changes:
            change.apply(self)

    def flush(self) -> dict[bytes, bytes | None]:
        """The table's entries that changed since the last time, by key, the head always; None deletes one."""
        changed: dict[bytes, bytes | None] = {}
        for page in self.pages.take_marked():
            if page:
                changed[page_key(self.key, page)] = self.pages.encode(page)
        changed[self.key] = self._head() if self.accounts or self.early else None
        return changed

    def entries(self) -> dict[bytes, bytes]:
        """All of the table's entries, by key; none where the state is gone."""
        if self.gone:
            return {}
        pages = {page_key(self.key, page): self.pages.encode(page) for page in range(1, self.pages.count)}
        return {self.key: self._head(), **{key: value for key, value in pages.items() if value is not None}}

    def _head(self) -> bytes:
        """`{"due":<13 digits of ms>,`, times and totals, how many pages there are, and the first page."""
        accounts = {}
        for name, account in self.accounts.items():
            rows = account.rows if account.rows <= MAX_SAFE_INTEGER else str(account.rows)
            accounts[name] = [rows, account.actions, [*account.agents]]
        rest = {"o": self.opened_at, "t": self.last_at, "a": accounts, "n": self.pages.count}
        first = self.pages.encode(0) or b"null"
        return b'%b%013d,%b,"p":%b}' % (_DUE_PREFIX, self.due_ms, orjson.dumps(rest)[1:-1], first)

    @classmethod
    def read(cls, key: bytes, table: Mapping[bytes, bytes]) -> SessionState:
        """The state whose entries are in the table; a new one where there are none."""
        state, head = cls(key), table.get(key)
        if head is None:
            return state
        rest = orjson.loads(b"{" + head[_DUE_END + 1 :])
        state.due_ms, state.opened_at, state.last_at = due_ms(head), rest["o"], rest["t"]
        state.accounts = {name: Account.decode(account) for name, account in rest["a"].items()}
        pages = [table[page] for number in range(1, rest["n"]) if (page := page_key(key, number)) in table]
        first = [] if rest["p"] is None else [rest["p"]]
        for name, stored in state.pages.restore(rest["n"], [*first, *map(orjson.loads, pages)]):
            state.put(name, stored)
        return state

    def put(self, entry: EntryName, stored: Any) -> None:
        """Take over an entry that is in the pages."""
        tenant, agent, table, name = entry
        if table == "early":
            self.early[int(name)] = _early(stored)
        elif table == "disputed":
            self.accounts[tenant].put_dispute(name, stored)
        else:
            self.accounts[tenant].agents[agent].put(cast("Table", table), name, stored)


def page_key(key: bytes, page: int) -> bytes:
    """A session's page in the table; the first one is in the head."""
    return b"%b%d:%b" % (PAGE_PREFIX, page, key[len(KEY_PREFIX) :])


def session_key(session_id: str) -> bytes:
    """The session's key in the table."""
    return KEY_PREFIX + session_id.encode()


def due_ms(stored: bytes) -> int:
    """The due time of an encoded state, in ms, read without decoding it."""
    return int(stored[len(_DUE_PREFIX) : _DUE_END])


def totals(account: Account) -> dict[str, Any]:
    """An account's totals as ledger records carry them."""
    return describe_totals(account.rows, account.actions)


def describe_totals(rows: int, actions: int) -> dict[str, Any]:
    """Totals as ledger records carry them."""
    return {"aggregateRowsAffected": wire_int(rows), "aggregateActionCount": actions}


class Restarted(NamedTuple):
    """The session was idle too long: every account is gone. Outcomes that wait stay."""

    def apply(self, state: SessionState) -> None:
        """Forget the accounts."""
        for tenant, account in state.accounts.items():
            for agent, memory in account.agents.items():
                for entry in memory.names((*TIMED, *UNTIMED)):
                    state.pages.drop((tenant, agent, *entry))
            for offset in account.disputed:
                state.pages.drop((tenant, "", "disputed", offset))
        state.accounts = {}


class Counted(NamedTuple):
    """A tenant's totals are these; its account opens where there is none."""

    tenant: str
    rows: int
    actions: int

    def apply(self, state: SessionState) -> None:
        """Open the account, or set its totals."""
        account = state.accounts.get(self.tenant)
        if account is None:
            state.accounts[self.tenant] = Account(self.rows, self.actions)
        else:
            account.rows, account.actions = self.rows, self.actions


class EntryKept(NamedTuple):
    """An agent's memory has this entry: in its place where there is one of the name, else as the newest."""

    tenant: str
    agent: str
    table: Table
    name: str
    stored: Any

    def apply(self, state: SessionState) -> None:
        """Put it into the table; the agent's memory opens with its first entry."""
        agents = state.accounts[self.tenant].agents
        memory = agents.get(self.agent)
        if memory is None:
            memory = agents[self.agent] = Remembered()
        memory.put(self.table, self.name, self.stored)
        state.pages.put(self[:4], self.stored)


class EntryDropped(NamedTuple):
    """An agent's memory no longer has this entry."""

    tenant: str
    agent: str
    table: Table
    name: str

    def apply(self, state: SessionState) -> None:
        """Take it out of the table."""
        state.accounts[self.tenant].agents[self.agent].drop(self.table, self.name)
        state.pages.drop(self)


class AgentExpired(NamedTuple):
    """All that an agent's memory has with a time is over, if it has one."""

    tenant: str
    agent: str

    def apply(self, state: SessionState) -> None:
        """Keep what has no time, and the agent only where there is some."""
        agents = state.accounts[self.tenant].agents
        memory = agents.get(self.agent)
        if memory is None:
            return
        for entry in memory.names((*TIMED, "gates")):
            state.pages.drop((self.tenant, self.agent, *entry))
        left = memory.drop_timed()
        if left is not None:
            agents[self.agent] = left
        else:
            del agents[self.agent]


class DisputeOpened(NamedTuple):
    """An action's outcome is disputed: the action's id, its agent and the stored RecentAction, by its
    offset."""

    tenant: str
    offset: str
    stored: tuple[Any, ...]

    def apply(self, state: SessionState) -> None:
        """Keep it until a signed outcome settles it."""
        state.accounts[self.tenant].put_dispute(self.offset, self.stored)
        state.pages.put((self.tenant, "", "disputed", self.offset), self.stored)


class DisputeEnded(NamedTuple):
    """A signed outcome has settled the action of this offset."""

    tenant: str
    offset: str

    def apply(self, state: SessionState) -> None:
        """Dispute it no longer."""
        state.accounts[self.tenant].end_dispute(self.offset)
        state.pages.drop((self.tenant, "", "disputed", self.offset))


class OutcomeWaits(NamedTuple):
    """An outcome came before its action."""

    outcome: EarlyOutcome

    def apply(self, state: SessionState) -> None:
        """Let it wait, after the others."""
        state.early[self.outcome.own_offset] = self.outcome
        state.pages.put(("", "", "early", str(self.outcome.own_offset)), [*self.outcome])


class OutcomeAnswered(NamedTuple):
    """An outcome waits no longer: its action came, or its time is over. `own_offset`: of the outcome."""

    own_offset: int

    def apply(self, state: SessionState) -> None:
        """Let it go."""
        del state.early[self.own_offset]
        state.pages.drop(("", "", "early", str(self.own_offset)))


class Moved(NamedTuple):
    """The session's times, ms: when it opened, its last input, and when time does something to it next."""

    opened_at: int
    last_at: int
    due_ms: int

    def apply(self, state: SessionState) -> None:
        """Set them."""
        state.opened_at, state.last_at, state.due_ms = self


SessionChange = (
    Restarted
    | Counted
    | EntryKept
    | EntryDropped
    | AgentExpired
    | DisputeOpened
    | DisputeEnded
    | OutcomeWaits
    | OutcomeAnswered
    | Moved
)


def _early(stored: list[Any]) -> EarlyOutcome:
    report = EarlyOutcome(*stored)
    return report._replace(
        rows=int(report.rows), offset=None if report.offset is None else int(report.offset)
    )
