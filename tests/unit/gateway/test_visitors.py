"""Who gets a session of the pages, for how long, and what is refused: log-ins, forms, single sign-on."""

from __future__ import annotations

from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from app.gateway.http.api_keys import write_keys
from app.gateway.http.http_errors import HttpError
from app.gateway.pages.accounts import Account, PeopleFile, PeopleStore, hash_of
from app.gateway.pages.visitors import ATTEMPTS, MOST_OF_ONE_ACCOUNT, WITHIN_S, Session, Visitors, Visits

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD = "correct horse battery"  # noqa: S105 - of a person who lives as long as the test
HASH = hash_of(PASSWORD)
PROXY = "10.0.0.7"


def person(name: str = "ann", **changed: Any) -> Account:
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
    return Account.model_validate(fields)


class Door:
    """Visitors with a clock that the test sets, and a browser that keeps cookies."""

    def __init__(self, folder: Path, *people: Account, **visits: Any) -> None:
        self.path, self.now = folder / "people.json", 1000.0
        self.write(*people)
        given = {"url": None, "idle_s": 100.0, "longest_s": 1000.0, **visits}
        self.visitors = Visitors(PeopleStore(self.path), Visits(**given), lambda: self.now)
        self.cookies: dict[str, str] = {}

    def write(self, *people: Account) -> None:
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
        response, given = Response(), self.visitors.login_token(self.request())
        self.visitors.set_login_cookie(response, given)
        self.keep(response)
        form = {"name": name, "password": password, "csrf_token": given if token is None else token}
        session = await self.visitors.log_in(self.request(**headers), form)
        if session is not None:
            response = Response()
            self.visitors.set_cookie(response, session)
            self.keep(response)
        return session


async def test_a_log_in_lasts_while_it_is_used_and_not_for_ever(tmp_path: Path) -> None:
    door = Door(tmp_path, person())
    session = await door.log_in()
    assert session is not None
    for _ in range(9):
        door.now += 99
        assert door.visitors.session(door.request()) is session
    door.now += 100
    assert door.visitors.session(door.request()) is None, "idle"
    again = await door.log_in()
    assert again is not None
    for _ in range(11):
        door.now += 90
        assert door.visitors.session(door.request()) is again
    door.now += 20
    assert door.visitors.session(door.request()) is None, "used all the time, and over"


@pytest.mark.parametrize(("name", "password"), [("ann", "wrong"), ("nobody", PASSWORD), ("sso", PASSWORD)])
async def test_name_and_password_have_to_fit(tmp_path: Path, name: str, password: str) -> None:
    door = Door(tmp_path, person(), person("sso", hash=None), person("gone", revoked_at="2026-11-23"))
    assert await door.log_in(name, password) is None
    assert await door.log_in("gone") is None


async def test_a_changed_or_revoked_account_has_no_session_any_more(tmp_path: Path) -> None:
    door = Door(tmp_path, person())
    for after in (person(roles=["admin"]), person(revoked_at="2026-11-23")):
        door.write(person())
        assert await door.log_in() is not None
        assert door.visitors.session(door.request()) is not None
        door.write(after)
        assert door.visitors.session(door.request()) is None


async def test_failed_log_ins_are_limited_by_name(tmp_path: Path) -> None:
    door = Door(tmp_path, person(), person("ben"))
    for _ in range(ATTEMPTS):
        assert await door.log_in("ann", "guess") is None
    with pytest.raises(HttpError) as refused:
        await door.log_in()
    assert (refused.value.status, refused.value.retry_after_s) == (429, WITHIN_S + 1)
    assert await door.log_in("ben") is not None
    door.now += WITHIN_S
    for _ in range(2 * ATTEMPTS):
        assert await door.log_in() is not None, "log-ins that go well are not limited"


@pytest.mark.parametrize(
    ("token", "headers"),
    [
        ("guessed", {}),
        ("", {}),
        (None, {"origin": "https://evil.example"}),
        (None, {"origin": "null"}),
        (None, {"sec_fetch_site": "cross-site"}),
        (None, {"sec_fetch_site": "same-site"}),
    ],
)
async def test_forms_from_elsewhere_are_refused(
    tmp_path: Path, token: str | None, headers: dict[str, str]
) -> None:
    door = Door(tmp_path, person())
    with pytest.raises(HttpError) as refused:
        await door.log_in(token=token, **headers)
    assert refused.value.status == 403
    session = await door.log_in(origin="http://gate", sec_fetch_site="same-origin")
    assert session is not None
    form = {"csrf_token": session.csrf if token is None else token}
    with pytest.raises(HttpError):
        door.visitors.check(door.request(**headers), form, session)
    door.visitors.check(door.request(), {"csrf_token": session.csrf}, session)


@pytest.mark.parametrize(("url", "secure"), [(None, False), ("https://gate.example.com", True)])
async def test_cookies_are_for_this_origin_alone_and_secure_with_tls(
    tmp_path: Path, url: str | None, secure: bool
) -> None:
    door = Door(tmp_path, person(), url=url)
    session, response = await door.log_in(), Response()
    assert session is not None
    door.visitors.set_cookie(response, session)
    ((name, cookie),) = door.keep(response).items()
    assert (bool(cookie["httponly"]), cookie["samesite"], cookie["path"]) == (True, "strict", "/")
    assert (bool(cookie["secure"]), name.startswith("__Host-")) == (secure, secure)


async def test_the_oldest_sessions_of_an_account_make_room(tmp_path: Path) -> None:
    door = Door(tmp_path, person(), person("ben"))
    other = await door.log_in("ben")
    sessions = [await door.log_in() for _ in range(MOST_OF_ONE_ACCOUNT + 2)]
    assert door.visitors.of_tenant("acme") == [other, *sessions[2:]]
    assert door.visitors.of_tenant("globex") == []


def test_a_proxys_header_counts_from_the_proxys_address_alone(tmp_path: Path) -> None:
    door = Door(tmp_path, person("sso", hash=None), sso_header="X-User", sso_proxy=PROXY)
    assert door.visitors.session(door.request("10.0.0.8", x_user="sso")) is None
    assert door.visitors.session(door.request(PROXY)) is None
    assert door.visitors.session(door.request(PROXY, x_user="stranger")) is None
    session = door.visitors.session(door.request(PROXY, x_user="sso"))
    assert session is not None
    response = Response()
    door.visitors.set_cookie(response, session)
    door.keep(response)
    assert door.visitors.session(door.request(PROXY, x_user="sso")) is session
    assert door.visitors.session(door.request(PROXY)) is None, "the proxy no longer names the person"
    without = Door(tmp_path, person("sso", hash=None))
    assert without.visitors.session(without.request(PROXY, x_user="sso")) is None
