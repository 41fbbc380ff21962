"""Who visits the pages: log-ins and their sessions, CSRF tokens, limits of attempts, single sign-on."""

from __future__ import annotations

import asyncio
import secrets
import time
from hmac import compare_digest
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from sluice.gateway.http.api_keys import ApiKeyFileError
from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.pages.log_ins import (
    ATTEMPTS,
    ATTEMPTS_OF_AN_ADDRESS,
    WITHIN_S,
    OwnLogIns,
    Session,
    derive_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from sluice.gateway.pages.accounts import PeopleStore, PersonAccount
    from sluice.gateway.pages.log_ins import LogIns, Said

TOKEN_BYTES = 32
MOST_SESSIONS = 10_000
MOST_OF_ONE_ACCOUNT = 8
VERIFIED_AT_ONCE = 2
"""Each takes 64 MiB and some 100 ms of a core."""
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


class Visitors:
    """Lets people in and out."""

    def __init__(
        self,
        people: PeopleStore,
        visits: Visits,
        log_ins: LogIns | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`log_ins`: where sessions are kept; None: in this process. `clock` gives seconds."""
        self._people = people
        self._visits = visits
        self._clock = clock
        self._log_ins = OwnLogIns(clock) if log_ins is None else log_ins
        self._verifying = asyncio.Semaphore(VERIFIED_AT_ONCE)
        prefix = "__Host-" if visits.is_https else ""
        self._cookie, self._login_cookie = prefix + COOKIE, prefix + LOGIN_COOKIE

    async def find_session(self, request: Request) -> Session | None:
        """The session of a request that is in force; None: log in first. Raises HttpError."""
        token = request.cookies.get(self._cookie, "")
        session = await self._log_ins.find(token) if token else None
        if session is not None and not self._is_in_force(session):
            await self.log_out(session)
            session = None
        named = self._read_proxy_name(request)
        if session is not None and session.by_sso and session.account.name != named:
            await self.log_out(session)
            session = None
        if named is not None and (session is None or session.account.name != named):
            account = self._find_account(named)
            session = None if account is None else await self._begin(account, by_sso=True)
        if session is not None:
            session.seen_s = self._clock()
        return session

    async def keep(self, session: Session) -> None:
        """Keep what a request changed in its session. Raises HttpError."""
        await self._log_ins.save(session)

    async def add_notice(self, session: Session, notice: Said) -> None:
        """Have the session's next page say something. Raises HttpError."""
        await self._log_ins.add_notice(session, notice)

    def choose_login_token(self, request: Request) -> str:
        """Return the token for the form of the log-in: the browser's own, else a new one."""
        token = request.cookies.get(self._login_cookie, "")
        return token if len(token) > TOKEN_BYTES else secrets.token_urlsafe(TOKEN_BYTES)

    async def log_in(self, request: Request, form: Mapping[str, str]) -> Session | None:
        """The new session; None: name and password do not fit. Raises HttpError: 403 for a form that is not
        of these pages, 429 after too many failures."""
        token = request.cookies.get(self._login_cookie, "")
        self._check_form(request, form, token)
        name = form.get("name", "")[:256]
        address = "" if request.client is None else request.client.host
        limits = ((f"name {name} from {address}", ATTEMPTS), (f"address {address}", ATTEMPTS_OF_AN_ADDRESS))
        attempt = await self._log_ins.attempt(limits)  # before it is verified: many at once get no more
        if not isinstance(attempt, str):
            raise HttpError(429, "too_many_attempts", "too many failed log-ins").set_retry_after(
                round(attempt + 1)
            )
        async with self._verifying:
            try:
                account = await asyncio.to_thread(self._people.verify, name, form.get("password", ""))
            except ApiKeyFileError as error:
                raise HttpError(503, "unavailable", str(error)) from None
        if account is None:
            return None
        await self._log_ins.take_back(limits, attempt)
        return await self._begin(account, by_sso=False)

    def check(self, request: Request, form: Mapping[str, str], session: Session) -> None:
        """Refuse a form that was not sent from a page of this session. Raises HttpError: 403."""
        self._check_form(request, form, session.csrf)

    async def log_out(self, session: Session) -> None:
        """End a session."""
        await self._log_ins.forget(session)

    async def list_sessions(self, tenant: str) -> list[Session]:
        """The sessions in force of a tenant's people."""
        return [
            session
            for session in await self._log_ins.list_all()
            if session.account.tenant_id == tenant and self._is_in_force(session)
        ]

    async def is_open(self, session: Session) -> bool:
        """Whether this session is still in force."""
        stored = await self._log_ins.find(session.token)
        return stored is not None and self._is_in_force(stored)

    def read_clock(self) -> float:
        """Read the clock of the sessions' times, in s."""
        return self._clock()

    async def close(self) -> None:
        """Give up connections."""
        await self._log_ins.close()

    def set_cookie(self, response: Response, session: Session) -> None:
        """Give the browser its session."""
        self._set(response, self._cookie, session.token, int(self._visits.longest_s))

    def set_login_cookie(self, response: Response, token: str) -> None:
        """Give the browser the token of its log-in form."""
        self._set(response, self._login_cookie, token, int(WITHIN_S))

    def clear_cookie(self, response: Response) -> None:
        """Take the session from the browser."""
        self._set(response, self._cookie, "", 0)

    async def _begin(self, account: PersonAccount, *, by_sso: bool) -> Session:
        now, sessions = self._clock(), {other.id: other for other in await self._log_ins.list_all()}
        in_force = [other for other in sessions.values() if self._is_in_force(other)]
        own = [other for other in in_force if other.account.name == account.name]
        continuing = {other.id for other in in_force[max(0, len(in_force) - MOST_SESSIONS + 1) :]}
        continuing -= {other.id for other in own[: max(0, len(own) - MOST_OF_ONE_ACCOUNT + 1)]}
        for over in sessions.keys() - continuing:
            await self.log_out(sessions[over])
        token, csrf = (secrets.token_urlsafe(TOKEN_BYTES) for _ in range(2))
        session = Session(derive_id(token), account, csrf, now, now, by_sso, token=token)
        await self._log_ins.add(session)
        return session

    def _is_in_force(self, session: Session) -> bool:
        """Within its times, and of an account that is still as it was at the log-in."""
        now_s = self._clock()
        in_time = (
            now_s - session.seen_s < self._visits.idle_s and now_s - session.began_s < self._visits.longest_s
        )
        return in_time and self._find_account(session.account.name) == session.account

    def _find_account(self, name: str) -> PersonAccount | None:
        try:
            return self._people.get(name)
        except ApiKeyFileError as error:
            raise HttpError(503, "unavailable", str(error)) from None

    def _read_proxy_name(self, request: Request) -> str | None:
        header, proxy = self._visits.sso_header, self._visits.sso_proxy
        if header is None or request.client is None or request.client.host != proxy:
            return None
        names = request.headers.getlist(header)
        return names[0] if len(names) == 1 and names[0] else None

    def _check_form(self, request: Request, form: Mapping[str, str], token: str) -> None:
        """The token of the page, and where the browser says it comes from: this origin."""
        origin, host = request.headers.get("origin"), request.headers.get("host", "")
        ours = host if self._visits.url is None else urlsplit(self._visits.url).netloc
        foreign = origin is not None and urlsplit(origin).netloc not in (ours, host)
        foreign = foreign or request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
        token_in_form = form.get(CSRF_FIELD, "")
        if foreign or not token or not compare_digest(token_in_form.encode(), token.encode()):
            notice = "this form is no longer of your session: go back, load the page again, and send it again"
            raise HttpError(403, "wrong_form", notice)

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
