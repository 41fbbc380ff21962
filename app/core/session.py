"""A session's state: what its agents may have done so far, per tenant, and what is still remembered.

Product.md, "Session state". An action that the caller will carry out counts at once (its rows are reserved);
an outcome settles it. What leaves the window is dropped from `recent`: its rows are in the totals already.

Stored form, in the table and in its changelog: JSON that starts with a fixed-width due time, so that timers
find what is due without reading the rest; see `encode`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from app.core.ledger.canonical import wire_int, wire_safe
from app.core.recent_retrieval import RecentRetrieval

KEY_PREFIX = b"s:"
NEVER_DUE_MS = 9_999_999_999_999
LONGEST_KEPT_ID = 64
UNREGISTERED = "unregistered"
"""The tenant of actions whose agent nobody registered, and of what finds no room elsewhere; no registry may
name a tenant so."""
_DUE_DIGITS = 13
_TOTALS = 3
_DUE_PREFIX = b'{"due":'
_DUE_END = len(_DUE_PREFIX) + _DUE_DIGITS


class RecentAction(NamedTuple):
    """An action id inside its window.

    `digest` is the hex digest of the raw input, `offset` the first input's, `at_ms` broker time, `mark` the
    published outcome and the shadow outcome ("ALLOW", "ALLOW/BLOCK"). `counted` is what the totals hold for
    it, `carried` how many carried-out actions bear the id (0: it was denied; 2: a conflicting one in standard
    mode was carried out too), `settled` whether an outcome has come or can no longer tell which action it
    means: nothing lowers what is counted any more; `peak` the largest outcome.
    """

    digest: str
    offset: int
    at_ms: int
    mark: str
    counted: int
    carried: int
    settled: bool
    peak: int


class RecentWrite(NamedTuple):
    """A memory write's id inside its window.

    `digest` is the hex digest of the raw input, `offset` the input's; `action` was published, `shadow` is the
    one that shadow mode hid; `trust` is what memories derived from this one may have at most.
    """

    digest: str
    offset: int
    at_ms: int
    action: str
    shadow: str | None
    trust: float | None


class EarlyOutcome(NamedTuple):
    """An outcome whose action has not come yet. `lowers`: its signature allows to lower a total."""

    action_id: str
    tenant: str | None
    at_ms: int
    rows: int
    lowers: bool
    reported_by: str
    origin: list[Any]

    def coordinates(self) -> dict[str, Any]:
        """The `input` field of the ledger record about it."""
        names = ("topic", "partition", "offset", "timestamp", "digest")
        return dict(zip(names, self.origin, strict=True))


@dataclass(slots=True)
class Account:
    """One tenant's totals in the session. Ids are `kept_id`s. `recent` maps action id to a stored
    RecentAction, oldest first, `writes` write id to a stored RecentWrite, `sources` a memory source's id to
    its type and last write (ms), `retrievals` a request's id to a stored RecentRetrieval, `flagged` an item's
    id to a stored Flagged.
    """

    rows: int
    actions: int
    recent: dict[str, Any]
    writes: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, Any] = field(default_factory=dict)
    retrievals: dict[str, Any] = field(default_factory=dict)
    flagged: dict[str, Any] = field(default_factory=dict)

    def action(self, action_id: str) -> RecentAction | None:
        """What is remembered of an action id."""
        stored = self.recent.get(kept_id(action_id))
        return None if stored is None else _recent(stored)

    def write(self, write_id: str) -> RecentWrite | None:
        """What is remembered of a write's id."""
        stored = self.writes.get(kept_id(write_id))
        return None if stored is None else RecentWrite(*stored)

    def retrieval(self, request_id: str) -> RecentRetrieval | None:
        """What is remembered of a retrieval."""
        stored = self.retrievals.get(kept_id(request_id))
        return None if stored is None else RecentRetrieval(*stored)

    def encoded(self) -> list[Any]:
        """As it is stored: a session without memories spends nothing on them."""
        stored = [
            self.rows,
            self.actions,
            self.recent,
            self.writes,
            self.sources,
            self.retrievals,
            self.flagged,
        ]
        while len(stored) > _TOTALS and not stored[-1]:
            stored.pop()
        return stored


@dataclass(slots=True)
class Transition:
    """A session's new values, complete and already computed; to apply it is to assign them.

    `accounts` holds only those that changed unless `fresh`, which drops what was there before.
    """

    fresh: bool
    accounts: dict[str, Account]
    early: list[EarlyOutcome]
    opened_at: int
    last_at: int
    due_ms: int


class SessionState:
    """The state of one session. Changes only through `apply`; everything else reads."""

    __slots__ = ("accounts", "due_ms", "early", "key", "last_at", "opened_at")

    def __init__(self, key: bytes) -> None:
        """A session that nobody has seen yet; `key` is the table's key, `session_key(session_id)`."""
        self.key = key
        self.accounts: dict[str, Account] = {}
        self.early: list[EarlyOutcome] = []
        self.opened_at = 0
        self.last_at = 0
        self.due_ms = NEVER_DUE_MS

    @property
    def gone(self) -> bool:
        """Nothing is left that a later input could need."""
        return not self.accounts and not self.early

    @property
    def session_id(self) -> str:
        """The id in the key."""
        return self.key[len(KEY_PREFIX) :].decode()

    def apply(self, transition: Transition | None) -> None:
        """Take over the values of a transition that was evaluated on this state; None changes nothing."""
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
        for name, (rows, actions, recent, *memory) in rest["a"].items():
            state.accounts[name] = Account(int(rows), actions, recent, *memory)
        state.early = [_early(one) for one in rest["e"]]
        return state


def kept_id(an_id: str) -> str:
    """An id as states keep it: itself, or "#" and its digest where it is long or JSON would write it longer.

    Ids come from outside: 1024 of 256 control characters each would pass the size of a record.
    """
    plain = len(an_id) <= LONGEST_KEPT_ID and an_id.isascii() and an_id.isprintable()
    if plain and an_id[0] != "#" and '"' not in an_id and "\\" not in an_id:
        return an_id
    return "#" + sha256(an_id.encode("utf-8", "surrogatepass")).hexdigest()


def session_key(session_id: str) -> bytes:
    """The session's key in the table."""
    return KEY_PREFIX + session_id.encode()


def due_ms(stored: bytes) -> int:
    """The due time of an encoded state, in ms, read without decoding it."""
    return int(stored[len(_DUE_PREFIX) : _DUE_END])


def totals(account: Account | None) -> dict[str, Any]:
    """An account's totals as ledger records carry them."""
    if account is None:
        return {"aggregateRowsAffected": 0, "aggregateActionCount": 0}
    return {
        "aggregateRowsAffected": wire_int(account.rows),
        "aggregateActionCount": account.actions,
    }


def _recent(stored: Any) -> RecentAction:
    digest, offset, at_ms, mark, counted, carried, settled, peak = stored
    return RecentAction(digest, offset, at_ms, mark, int(counted), carried, settled, int(peak))


def _early(stored: list[Any]) -> EarlyOutcome:
    one = EarlyOutcome(*stored)
    return one._replace(rows=int(one.rows))
