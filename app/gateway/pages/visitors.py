"""Who visits the pages: log-ins and their sessions, CSRF tokens, limits of attempts, single sign-on.

Sessions are in this process alone: after a restart people log in again, and several gateways need a proxy
that keeps a browser at one of them.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from app.gateway.http.api_keys import ApiKeyFileError, Caller
from app.gateway.http.http_errors import HttpError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from app.gateway.pages.accounts import Account, PeopleStore

TOKEN_BYTES = 32
MOST_SESSIONS = 10_000
MOST_OF_ONE_ACCOUNT = 8
MOST_REMEMBERED = 10_000
VERIFIED_AT_ONCE = 2
"""Each takes 64 MiB and some 100 ms of a core."""
ATTEMPTS, WITHIN_S = 10, 900.0
ATTEMPTS_OF_AN_ADDRESS = 100
"""Failed log-ins of one name, and of one address, within `WITHIN_S` seconds; further ones are refused."""
COOKIE, LOGIN_COOKIE = "sluice_session", "sluice_login"
CSRF_FIELD = "csrf_token"


class Visits(NamedTuple):
    """How people visit. `url`: the address that they open; with https cookies are Secure. Times in seconds.
    `sso_header` names the person where the request comes from the address `sso_proxy`; None: no such."""

    url: str | None
    idle_s: float
    longest_s: float
    sso_header: str | None = None
    sso_proxy: str | None = None

    @property
    def is_https(self) -> bool:
        """Whether people come by TLS."""
        return self.url is not None and self.url.startswith("https://")


@dataclass(slots=True)
class Session:
    """A person who is logged in. Times are monotonic seconds; `said` is shown on the next page once."""

    id: str
    account: Account
    csrf: str
    began_s: float
    seen_s: float
    by_sso: bool
    said: list[tuple[str, str]] = field(default_factory=list)

    @property
    def caller(self) -> Caller:
        """As the routes of the API know a caller: of all agents of the tenant."""
        return Caller(f"person:{self.account.name}", self.account.tenant_id, None)

    @property
    def handle(self) -> str:
        """Names the session to others than its own browser."""
        return self.csrf[:12]


class Failures:
    """Failed log-ins by what they came from, as many names as fit."""

    def __init__(self) -> None:
        self._times: OrderedDict[str, list[float]] = OrderedDict()

    def wait_s(self, name: str, most: int, now_s: float) -> float | None:
        """Seconds until another attempt may be made; None: now."""
        recent = [at for at in self._times.get(name, ()) if now_s - at < WITHIN_S]
        return None if len(recent) < most else recent[-most] + WITHIN_S - now_s

    def note(self, name: str, now_s: float) -> None:
        """One more."""
        recent = [at for at in self._times.pop(name, ()) if now_s - at < WITHIN_S]
        self._times[name] = [*recent, now_s][-ATTEMPTS_OF_AN_ADDRESS:]
        while len(self._times) > MOST_REMEMBERED:
            self._times.popitem(last=False)

    def take_back(self, name: str) -> None:
        """The last one: it went well."""
        times = self._times.get(name)
        if times:
            times.pop()


class Visitors:
    """Lets people in and out."""

    def __init__(
        self, people: PeopleStore, visits: Visits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` gives seconds."""
        self._people = people
        self._visits = visits
        self._clock = clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._failures = Failures()
        self._verifying = asyncio.Semaphore(VERIFIED_AT_ONCE)
        prefix = "__Host-" if visits.is_https else ""
        self._cookie, self._login_cookie = prefix + COOKIE, prefix + LOGIN_COOKIE

    def session(self, request: Request) -> Session | None:
        """The session of a request that is in force; None: log in first. Raises HttpError."""
        now = self._clock()
        found = self._sessions.get(request.cookies.get(self._cookie, ""))
        if found is not None and not self._is_in_force(found, now):
            self._sessions.pop(found.id, None)
            found = None
        named = self._named_by_proxy(request)
        if found is not None and found.by_sso and found.account.name != named:
            self.log_out(found)
            found = None
        if named is not None and (found is None or found.account.name != named):
            account = self._account(named)
            found = None if account is None else self._begin(account, by_sso=True)
        if found is not None:
            found.seen_s = now
            self._sessions.move_to_end(found.id)
        return found

    def login_token(self, request: Request) -> str:
        """What the form of the log-in carries: the browser's own, else a new one."""
        known = request.cookies.get(self._login_cookie, "")
        return known if len(known) > TOKEN_BYTES else secrets.token_urlsafe(TOKEN_BYTES)

    async def log_in(self, request: Request, form: Mapping[str, str]) -> Session | None:
        """The new session; None: name and password do not fit. Raises HttpError: 403 for a form that is not
        of these pages, 429 after too many failures."""
        known = request.cookies.get(self._login_cookie, "")
        self._check_form(request, form, known)
        name, now = form.get("name", "")[:256], self._clock()
        address = "" if request.client is None else request.client.host
        keys = ((f"name {name}", ATTEMPTS), (f"address {address}", ATTEMPTS_OF_AN_ADDRESS))
        waits = [wait for key, most in keys if (wait := self._failures.wait_s(key, most, now)) is not None]
        if waits:
            raise HttpError(429, "too_many_attempts", "too many failed log-ins").after(round(max(waits) + 1))
        for key, _ in keys:
            self._failures.note(key, now)  # counted before it is verified: many at once get no more
        async with self._verifying:
            try:
                account = await asyncio.to_thread(self._people.verify, name, form.get("password", ""))
            except ApiKeyFileError as error:
                raise HttpError(503, "unavailable", str(error)) from None
        if account is None:
            return None
        for key, _ in keys:
            self._failures.take_back(key)
        return self._begin(account, by_sso=False)

    def check(self, request: Request, form: Mapping[str, str], session: Session) -> None:
        """Refuse a form that was not sent from a page of this session. Raises HttpError: 403."""
        self._check_form(request, form, session.csrf)

    def log_out(self, session: Session) -> None:
        """End a session."""
        self._sessions.pop(session.id, None)

    def of_tenant(self, tenant: str) -> list[Session]:
        """The sessions in force of a tenant's people."""
        now = self._clock()
        found = [one for one in self._sessions.values() if one.account.tenant_id == tenant]
        return [one for one in found if self._is_in_force(one, now)]

    def set_cookie(self, response: Response, session: Session) -> None:
        """Give the browser its session."""
        self._set(response, self._cookie, session.id, int(self._visits.longest_s))

    def set_login_cookie(self, response: Response, token: str) -> None:
        """Give the browser the token of its log-in form."""
        self._set(response, self._login_cookie, token, int(WITHIN_S))

    def clear_cookie(self, response: Response) -> None:
        """Take the session from the browser."""
        self._set(response, self._cookie, "", 0)

    def _begin(self, account: Account, *, by_sso: bool) -> Session:
        now = self._clock()
        own = [one for one in self._sessions.values() if one.account.name == account.name]
        for one in own[: max(0, len(own) - MOST_OF_ONE_ACCOUNT + 1)]:
            del self._sessions[one.id]
        tokens = [secrets.token_urlsafe(TOKEN_BYTES) for _ in range(2)]
        session = Session(tokens[0], account, tokens[1], now, now, by_sso)
        self._sessions[session.id] = session
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def _is_in_force(self, session: Session, now_s: float) -> bool:
        """Within its times, and of an account that is still as it was at the log-in."""
        in_time = (
            now_s - session.seen_s < self._visits.idle_s and now_s - session.began_s < self._visits.longest_s
        )
        return in_time and self._account(session.account.name) == session.account

    def _account(self, name: str) -> Account | None:
        try:
            return self._people.get(name)
        except ApiKeyFileError as error:
            raise HttpError(503, "unavailable", str(error)) from None

    def _named_by_proxy(self, request: Request) -> str | None:
        header, proxy = self._visits.sso_header, self._visits.sso_proxy
        if header is None or request.client is None or request.client.host != proxy:
            return None
        given = request.headers.getlist(header)
        return given[0] if len(given) == 1 and given[0] else None

    def _check_form(self, request: Request, form: Mapping[str, str], token: str) -> None:
        """The token of the page, and where the browser says it comes from: this origin."""
        origin, host = request.headers.get("origin"), request.headers.get("host", "")
        ours = host if self._visits.url is None else urlsplit(self._visits.url).netloc
        foreign = origin is not None and urlsplit(origin).netloc not in (ours, host)
        foreign = foreign or request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
        given = form.get(CSRF_FIELD, "")
        if foreign or not token or not compare_digest(given.encode(), token.encode()):
            told = "this form is no longer of your session: go back, load the page again, and send it again"
            raise HttpError(403, "wrong_form", told)

    def _set(self, response: Response, name: str, value: str, age_s: int) -> None:
        response.set_cookie(
            name,
            value,
            max_age=age_s,
            path="/",
            secure=self._visits.is_https,
            httponly=True,
            samesite="strict",
        )
