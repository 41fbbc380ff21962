"""A door to the pages: visitors with a clock of the test, and a browser that keeps cookies."""

from __future__ import annotations

from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Any

from argon2 import PasswordHasher
from starlette.requests import Request
from starlette.responses import Response

from sluice.gateway.http.api_keys import write_keys
from sluice.gateway.pages.accounts import PeopleFile, PeopleStore, PersonAccount
from sluice.gateway.pages.log_ins import LogIns, OwnLogIns, Session
from sluice.gateway.pages.shared_log_ins import SharedLogIns
from sluice.gateway.pages.visitors import Visitors, Visits

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD = "correct horse battery"  # noqa: S105 - of a person who lives as long as the test
HASH = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
"""Verified as any other, without the work that slows a thief down: a test logs in a hundred times."""
PROXY, SECRET = "10.0.0.7", b"a key of these gateways"


def person(name: str = "ann", **changed: Any) -> PersonAccount:
    """An account of acme."""
    fields = {
        "name": name,
        "hash": HASH,
        "tenant_id": "acme",
        "approver_id": name,
        "roles": ["reviewer"],
        "created_at": "2026-11-23T00:00:00.000Z",
        **changed,
    }
    return PersonAccount.model_validate(fields)


class Door:
    """Visitors with a clock that the test sets, and a browser that keeps cookies."""

    def __init__(self, folder: Path, redis: str | None, *people: PersonAccount, **visits: Any) -> None:
        self.path, self.now = folder / "people.json", 1000.0
        self.write(*people)
        given = {"url": None, "idle_s": 100.0, "longest_s": 1000.0, **visits}
        store = PeopleStore(self.path)
        self.log_ins: LogIns = OwnLogIns(lambda: self.now)
        if redis is not None:
            self.log_ins = SharedLogIns(redis, f"{folder.name}.", lambda: (SECRET,), store.get, 1000.0)
        self.visitors = Visitors(store, Visits(**given), self.log_ins, lambda: self.now)
        self.cookies: dict[str, str] = {}

    async def visit(self, address: str = "127.0.0.1", **headers: str) -> Session | None:
        """What a page gets of the browser's session, which is kept behind it."""
        session = await self.visitors.find_session(self.request(address, **headers))
        if session is not None:
            await self.visitors.keep(session)
        return session

    def write(self, *people: PersonAccount) -> None:
        write_keys(self.path, PeopleFile(people=list(people)))

    def request(self, address: str = "127.0.0.1", **headers: str) -> Request:
        named = {"host": "gate", "cookie": "; ".join(f"{name}={one}" for name, one in self.cookies.items())}
        raw = [(name.replace("_", "-").encode(), one.encode()) for name, one in (named | headers).items()]
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": raw}
        return Request({**scope, "client": (address, 5), "server": ("gate", 80), "scheme": "http"})

    def keep(self, response: Response) -> SimpleCookie:
        cookie = SimpleCookie(response.headers["set-cookie"])
        self.cookies |= {name: one.value for name, one in cookie.items()}
        return cookie

    async def log_in(
        self, name: str = "ann", password: str = PASSWORD, token: str | None = None, **headers: str
    ) -> Session | None:
        response, given = Response(), self.visitors.choose_login_token(self.request())
        self.visitors.set_login_cookie(response, given)
        self.keep(response)
        form = {"name": name, "password": password, "csrf_token": given if token is None else token}
        session = await self.visitors.log_in(self.request(**headers), form)
        if session is not None:
            response = Response()
            self.visitors.set_cookie(response, session)
            self.keep(response)
        return session
