"""A session's state: the totals of its agents' actions, per tenant, and what it still remembers.

Product.md, "Session state". An action that the caller will carry out counts at once (its rows are reserved);
an outcome settles it. Actions that leave the window are dropped from `recent`; their rows are already in the
totals.

Stored form, in the table and in its changelog: JSON that starts with a fixed-width due time, so that timers
can find due sessions without reading the rest; see `encode`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sluice.core.foundation.canonical import wire_int, wire_safe
from sluice.core.registry.registry_entries import UNREGISTERED
from sluice.core.state.recent_retrieval import NOTHING_READ, read_by_all
from sluice.core.state.remembered import ACTION_BYTES, RecentAction, Remembered, kept_id, recent_action

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.state.recent_retrieval import ReadSoFar

KEY_PREFIX = b"s:"
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
    return Who(tenant, "" if tenant == UNREGISTERED else kept_id(agent_id))


@dataclass(slots=True)
class Account:
    """One tenant's totals in the session, and the memories by agent.

    `disputed` maps the offset of a disputed action to its kept id, its agent and the stored RecentAction; it
    outlives the window.
    """

    rows: int
    actions: int
    agents: dict[str, Remembered] = field(default_factory=dict)
    disputed: dict[str, Any] = field(default_factory=dict)

    def read_so_far(self) -> Mapping[str, ReadSoFar]:
        """The untrusted content that came to the tenant's agents in the session, by kind."""
        found = [one.read for one in self.agents.values() if one.read]
        return read_by_all(found) if found else NOTHING_READ

    def disputed_at(self, offset: int, action_id: str) -> tuple[str, RecentAction] | None:
        """The agent and the disputed action of this offset and id."""
        stored = self.disputed.get(str(offset))
        if stored is None or stored[0] != kept_id(action_id):
            return None
        return stored[1], recent_action(stored[2:])

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

    def copied(self, cut_ms: int) -> Account:
        """A copy without the memories of agents whose inputs are all of this time or before, but for those
        that last."""
        agents = self.agents.copy()
        if self.has_over(cut_ms):
            for name, one in self.agents.items():
                if one.is_over(cut_ms):
                    left = one.lasting()
                    if left is None:
                        del agents[name]
                    else:
                        agents[name] = left
        return Account(self.rows, self.actions, agents, self.disputed.copy())

    def has_over(self, cut_ms: int) -> bool:
        """Whether there is an agent whose inputs are all of this time or before."""
        for one in self.agents.values():  # noqa: SIM110 - asked at every input, and `any` takes twice as long
            if one.is_over(cut_ms):
                return True
        return False

    def encoded(self) -> list[Any]:
        """As it is stored."""
        agents = {name: one.encoded() for name, one in self.agents.items()}
        return [wire_int(self.rows), self.actions, agents, self.disputed]

    @classmethod
    def decode(cls, stored: list[Any]) -> Account:
        """What `encoded` gave."""
        rows, actions, agents, disputed = stored
        return cls(int(rows), actions, {name: Remembered(*one) for name, one in agents.items()}, disputed)


@dataclass(slots=True)
class Transition:
    """A session's new values, complete and already computed; applying it only assigns them.

    `accounts` has only the changed accounts. With `fresh` it has all of them, and the earlier ones are
    dropped.
    """

    fresh: bool
    accounts: dict[str, Account]
    early: list[EarlyOutcome]
    opened_at: int
    last_at: int
    due_ms: int


class SessionState:
    """The state of one session. Only `apply` changes it."""

    __slots__ = ("accounts", "due_ms", "early", "key", "last_at", "opened_at")

    def __init__(self, key: bytes) -> None:
        """A new session; `key` is the table's key, `session_key(session_id)`."""
        self.key = key
        self.accounts: dict[str, Account] = {}
        self.early: list[EarlyOutcome] = []
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

    def apply(self, transition: Transition | None) -> None:
        """Assign the values of a transition that was evaluated on this state; None changes nothing."""
        if transition is None:
            return
        if transition.fresh:
            self.accounts = transition.accounts
        else:
            self.accounts.update(transition.accounts)
        self.early = transition.early
        self.opened_at = transition.opened_at
        self.last_at = transition.last_at
        self.due_ms = transition.due_ms

    def encode(self) -> bytes:
        """`{"due":<13 digits of ms>,` and the rest of the state as JSON."""
        rest = {
            "o": self.opened_at,
            "t": self.last_at,
            "a": {name: one.encoded() for name, one in self.accounts.items()},
            "e": [list(one) for one in self.early],
        }
        try:
            written = orjson.dumps(rest, option=orjson.OPT_STRICT_INTEGER)
        except TypeError:
            written = orjson.dumps(wire_safe(rest))
        return b"%b%013d,%b" % (_DUE_PREFIX, self.due_ms, written[1:])

    @classmethod
    def decode(cls, key: bytes, stored: bytes) -> SessionState:
        """The state that `encode` wrote."""
        state = cls(key)
        rest = orjson.loads(b"{" + stored[_DUE_END + 1 :])
        state.due_ms = due_ms(stored)
        state.opened_at = rest["o"]
        state.last_at = rest["t"]
        state.accounts = {name: Account.decode(one) for name, one in rest["a"].items()}
        state.early = [_early(one) for one in rest["e"]]
        return state


def session_key(session_id: str) -> bytes:
    """The session's key in the table."""
    return KEY_PREFIX + session_id.encode()


def due_ms(stored: bytes) -> int:
    """The due time of an encoded state, in ms, read without decoding it."""
    return int(stored[len(_DUE_PREFIX) : _DUE_END])


def totals(account: Account) -> dict[str, Any]:
    """An account's totals as ledger records carry them."""
    return totals_of(account.rows, account.actions)


def totals_of(rows: int, actions: int) -> dict[str, Any]:
    """Totals as ledger records carry them."""
    return {"aggregateRowsAffected": wire_int(rows), "aggregateActionCount": actions}


def _early(stored: list[Any]) -> EarlyOutcome:
    one = EarlyOutcome(*stored)
    return one._replace(rows=int(one.rows), offset=None if one.offset is None else int(one.offset))
