"""A session's state: the totals of its agents' actions, per tenant, and what it still remembers.

Product.md, "Session state". An action that the caller will carry out counts at once (its rows are reserved);
an outcome settles it. Actions that leave the window are dropped from `recent`; their rows are already in the
totals.

An input's decision returns events, which the session's owner applies in their order, in place. Each is
small, whatever the session remembers: it says what is, not by how much it differs. They leave the session as
the view on which the decision was made had it (sluice/core/state/session_view.py).

Stored form, in the table and in its changelog: a head, JSON that starts with a fixed-width due time, so that
timers can find due sessions without reading the rest, and the pages of what is remembered
(sluice/core/state/remembered.py).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import orjson

from sluice.core.foundation.canonical import MAX_SAFE_INTEGER, wire_int
from sluice.core.registry.registry_entries import UNREGISTERED
from sluice.core.state.remembered import (
    ACTION_BYTES,
    TIMED,
    UNTIMED,
    EntryName,
    Pages,
    RecentAction,
    Remembered,
    Table,
    read_recent_action,
    shorten_id,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
    def place(self) -> int:
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

    def disputed_at(self, offset: int, action_id: str) -> tuple[str, RecentAction] | None:
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
        for one in self.agents.values():
            size += one.size
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
        for page in self.pages.marked():
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
        for name, one in self.accounts.items():
            rows = one.rows if one.rows <= MAX_SAFE_INTEGER else str(one.rows)
            accounts[name] = [rows, one.actions, [*one.agents]]
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
        state.accounts = {name: Account.decode(one) for name, one in rest["a"].items()}
        pages = [table[one] for number in range(1, rest["n"]) if (one := page_key(key, number)) in table]
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
        left = memory.lasting()
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
        state.early[self.outcome.place] = self.outcome
        state.pages.put(("", "", "early", str(self.outcome.place)), [*self.outcome])


class OutcomeAnswered(NamedTuple):
    """An outcome waits no longer: its action came, or its time is over. `place`: its own offset."""

    place: int

    def apply(self, state: SessionState) -> None:
        """Let it go."""
        del state.early[self.place]
        state.pages.drop(("", "", "early", str(self.place)))


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
    one = EarlyOutcome(*stored)
    return one._replace(rows=int(one.rows), offset=None if one.offset is None else int(one.offset))
