"""Where log-ins of the pages are kept, and failed attempts counted; in this process, for one gateway."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from sluice.gateway.http.api_keys import Caller

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sluice.gateway.pages.accounts import PersonAccount

MOST_REMEMBERED = 10_000
ATTEMPTS, WITHIN_S = 10, 900.0
ATTEMPTS_OF_AN_ADDRESS = 100
"""Failed log-ins of one name from one address, and of one address, within `WITHIN_S` seconds. Before each
further one passes twice the time, from a second on: who is guessed at from elsewhere is not held up."""
MOST_STEPS = 16
Said = tuple[str, str]
"""good or bad, and the text."""


@dataclass(slots=True)
class Session:
    """A person who is logged in. `id` is made of the `token`, which only the browser keeps: "" where no
    browser brought it. Times are seconds since the epoch. `notices`: what the next page says once; `shown`:
    what a page of this request has said."""

    id: str
    account: PersonAccount
    csrf: str
    began_s: float
    seen_s: float
    by_sso: bool
    notices: list[Said] = field(default_factory=list)
    shown: list[Said] = field(default_factory=list)
    token: str = ""

    def take_notices(self) -> list[Said]:
        """Return what a page says now, and forget it."""
        self.shown, self.notices = self.notices, []
        return self.shown

    @property
    def caller(self) -> Caller:
        """The caller that the routes of the API see: of all agents of the tenant."""
        return Caller(f"person:{self.account.name}", self.account.tenant_id, None)

    @property
    def handle(self) -> str:
        """Names the session to others than its own browser."""
        return self.csrf[:12]


def derive_id(token: str) -> str:
    """Derive the id under which a session is stored."""
    return sha256(f"sluice log-in {token}".encode()).hexdigest()


class LogIns(Protocol):
    """Keeps sessions and counts failed attempts. Where it does not answer, HttpError is raised: 503."""

    async def find(self, token: str) -> Session | None:
        """The session of a browser's token."""

    async def list_all(self) -> list[Session]:
        """All sessions, the oldest first."""

    async def add(self, session: Session) -> None:
        """Keep a new session."""

    async def save(self, session: Session) -> None:
        """Keep when it was seen, unless it has ended, and that something was shown."""

    async def add_notice(self, session: Session, notice: Said) -> None:
        """Have the session's next page say something."""

    async def forget(self, session: Session) -> None:
        """Forget a session."""

    async def attempt(self, limits: Sequence[tuple[str, int]]) -> float | str:
        """Count an attempt under each name, which has so many within `WITHIN_S` before it has to wait: how
        the attempt is called, or the seconds until another may be made."""

    async def take_back(self, limits: Sequence[tuple[str, int]], attempt: str) -> None:
        """An attempt went well: it does not count."""

    async def close(self) -> None:
        """Give up connections."""


class OwnLogIns:
    """The log-ins of one gateway: a restart ends all sessions."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives seconds."""
        self._clock = clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._attempts: OrderedDict[str, dict[str, float]] = OrderedDict()

    async def find(self, token: str) -> Session | None:
        """See LogIns."""
        return self._sessions.get(derive_id(token))

    async def list_all(self) -> list[Session]:
        """See LogIns."""
        return [*self._sessions.values()]

    async def add(self, session: Session) -> None:
        """See LogIns."""
        self._sessions[session.id] = session

    async def save(self, session: Session) -> None:
        """See LogIns."""

    async def add_notice(self, session: Session, notice: Said) -> None:
        """See LogIns."""
        session.notices.append(notice)

    async def forget(self, session: Session) -> None:
        """See LogIns."""
        self._sessions.pop(session.id, None)

    async def attempt(self, limits: Sequence[tuple[str, int]]) -> float | str:
        """See LogIns."""
        now = self._clock()
        waits = []
        for name, most in limits:
            recent = sorted(at for at in self._attempts.get(name, {}).values() if now - at < WITHIN_S)
            if len(recent) >= most:
                waits.append(recent[-1] + min(WITHIN_S, 2.0 ** (len(recent) - most)) - now)
        if waits and max(waits) > 0:
            return max(waits)
        called = secrets.token_hex(8)
        for name, most in limits:
            attempts = self._attempts.pop(name, {})
            stored = {attempt: at for attempt, at in attempts.items() if now - at < WITHIN_S}
            self._attempts[name] = dict([*stored.items(), (called, now)][-most - MOST_STEPS :])
        while len(self._attempts) > MOST_REMEMBERED:
            self._attempts.popitem(last=False)
        return called

    async def take_back(self, limits: Sequence[tuple[str, int]], attempt: str) -> None:
        """See LogIns."""
        for name, _ in limits:
            self._attempts.get(name, {}).pop(attempt, None)

    async def close(self) -> None:
        """See LogIns."""
