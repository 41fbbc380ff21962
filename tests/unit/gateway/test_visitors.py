"""Who gets a session of the pages, for how long, and what is refused: log-ins, forms, single sign-on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio import Redis
from starlette.responses import Response

from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.pages import log_ins, shared_log_ins
from sluice.gateway.pages.log_ins import ATTEMPTS, Session, derive_id
from sluice.gateway.pages.visitors import MOST_OF_ONE_ACCOUNT
from tests.unit.gateway.doors import HASH, PASSWORD, PROXY, Door, person

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from load.installations.redis_server import RedisServer
    from sluice.gateway.pages.accounts import PersonAccount

    OpenDoor = Callable[..., Door]


@pytest.fixture(scope="module")
def redis(real_redis: type[RedisServer], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with real_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(params=["own", "shared"])
async def open_door(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenDoor]:
    """Makes doors whose visitors' sessions are in the process, and in a real Redis."""
    doors: list[Door] = []
    shared = request.getfixturevalue("redis").url if request.param == "shared" else None

    def door(*people: PersonAccount, **visits: Any) -> Door:
        doors.append(Door(tmp_path, shared, *people, **visits))
        return doors[-1]

    yield door
    for one in doors:
        for session in await one.log_ins.list_all():
            await one.log_ins.forget(session)
        await one.visitors.close()


def same(one: Session | None, other: Session | None) -> bool:
    return one is not None and other is not None and one.id == other.id


async def test_a_log_in_lasts_while_it_is_used_and_not_for_ever(open_door: OpenDoor) -> None:
    door = open_door(person())
    session = await door.log_in()
    assert session is not None
    for _ in range(9):
        door.now += 99
        assert same(await door.visit(), session)
    door.now += 100
    assert await door.visit() is None, "idle"
    again = await door.log_in()
    assert again is not None
    for _ in range(11):
        door.now += 90
        assert same(await door.visit(), again)
    door.now += 20
    assert await door.visit() is None, "used all the time, and over"


@pytest.mark.parametrize(("name", "password"), [("ann", "wrong"), ("nobody", PASSWORD), ("sso", PASSWORD)])
async def test_name_and_password_have_to_fit(open_door: OpenDoor, name: str, password: str) -> None:
    door = open_door(person(), person("sso", hash=None), person("gone", revoked_at="2026-11-23"))
    assert await door.log_in(name, password) is None
    assert await door.log_in("gone") is None


async def test_a_changed_or_revoked_account_has_no_session_any_more(open_door: OpenDoor) -> None:
    door = open_door(person())
    for after in (person(roles=["admin"]), person(revoked_at="2026-11-23")):
        door.write(person())
        assert await door.log_in() is not None
        assert await door.visit() is not None
        door.write(after)
        assert await door.visit() is None


async def count_failures(*doors: Door, name: str = "ann") -> tuple[int, int]:
    """How many wrong passwords count before one is refused, at each door by turns, and the seconds that it is
    told to wait. Where the clock is a Redis's, the first waits may be over before the next attempt."""
    for count in range(ATTEMPTS + 16):
        try:
            assert await doors[count % len(doors)].log_in(name, "guess") is None
        except HttpError as refused:
            return count, refused.retry_after_s or 0
    pytest.fail("any number of wrong passwords counts")


async def test_failed_log_ins_wait_longer_each_time_and_never_the_person_elsewhere(
    open_door: OpenDoor, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mend 22.10: ten wrong passwords of a stranger do not lock the right one out."""
    door = open_door(person(), person("ben"), person("cleo"))
    count, wait_s = await count_failures(door)
    assert count >= ATTEMPTS
    assert wait_s <= 2 ** (count - ATTEMPTS) + 1, "a second, and twice as long each time"
    assert await door.log_in(address="10.1.1.1") is not None, "the person, elsewhere"
    if "own" in request.node.name:
        waits = [wait_s]
        for _ in range(5):
            door.now += waits[-1]
            assert await door.log_in("ann", "guess") is None
            waits.append((await count_failures(door))[1])
        assert waits == [2, 3, 5, 9, 17, 33]
    assert await door.log_in("ben") is not None
    for _ in range(2 * ATTEMPTS):
        assert await door.log_in("cleo") is not None, "log-ins that go well are not limited"
    for module in (log_ins, shared_log_ins):
        monkeypatch.setattr(module, "WITHIN_S", 0.0)
    assert await door.log_in() is not None, "later"


async def test_gateways_share_log_ins_and_a_stranger_in_the_redis_makes_none(
    redis: RedisServer, tmp_path: Path
) -> None:
    one, two = (Door(tmp_path, redis.url, person(), person("eve", roles=["vp"])) for _ in range(2))
    session = await one.log_in()
    assert session is not None
    two.cookies = one.cookies
    there = await two.visitors.find_session(two.request())
    assert there is not None
    assert same(there, session)
    at_once = await two.visitors.find_session(two.request())
    assert at_once is not None
    await two.visitors.add_notice(there, ("good", "Counted."))
    await two.visitors.keep(there)
    await two.visitors.keep(at_once)
    for told in ([("good", "Counted.")], []):
        found = await one.visitors.find_session(one.request())
        assert found is not None
        assert found.take_notices() == told
        await one.visitors.keep(found)
    count, _ = await count_failures(one, two, name="mallory")
    assert count >= ATTEMPTS

    raw: Any = Redis.from_url(redis.url)
    kept = f"{tmp_path.name}.sluice:log_ins"
    ((name, entry),) = (await raw.hgetall(kept)).items()
    assert session.token.encode() not in name + entry
    assert HASH.encode() not in entry
    await raw.hset(kept, name, entry[:40] + bytes([entry[40] ^ 1]) + entry[41:])
    assert await one.visit() is None
    elsewhere = derive_id("another token")
    await raw.hset(kept, elsewhere, entry)
    one.cookies = {"sluice_session": "another token"}
    assert await one.visit() is None
    await raw.hset(kept, name, entry)

    one.cookies = two.cookies
    found = await two.visit()
    assert found is not None
    assert same(found, session)
    await two.visitors.log_out(found)
    await one.visitors.keep(session)
    assert await one.visit() is None, "ended by the other gateway, and kept by nobody"
    assert not await one.visitors.is_open(session)
    await raw.aclose()
    for door in (one, two):
        await door.visitors.close()


async def test_without_the_redis_nobody_gets_in(real_redis: type[RedisServer], tmp_path: Path) -> None:
    with real_redis(tmp_path) as server:
        door = Door(tmp_path, server.url, person())
        assert await door.log_in() is not None
        server.stop()
        with pytest.raises(HttpError) as away:
            await door.visit()
        assert (away.value.status, away.value.code) == (503, "unavailable")
        server.start()
        assert await door.visit() is None, "and a Redis that lost everything knows nobody"
        await door.visitors.close()


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
    open_door: OpenDoor, token: str | None, headers: dict[str, str]
) -> None:
    door = open_door(person())
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
    open_door: OpenDoor, url: str | None, secure: bool
) -> None:
    door = open_door(person(), url=url)
    session, response = await door.log_in(), Response()
    assert session is not None
    door.visitors.set_cookie(response, session)
    ((name, cookie),) = door.keep(response).items()
    assert (bool(cookie["httponly"]), cookie["samesite"], cookie["path"]) == (True, "strict", "/")
    assert (bool(cookie["secure"]), name.startswith("__Host-")) == (secure, secure)


async def test_the_oldest_sessions_of_an_account_make_room(open_door: OpenDoor) -> None:
    door = open_door(person(), person("ben"))
    other = await door.log_in("ben")
    sessions = []
    for _ in range(MOST_OF_ONE_ACCOUNT + 2):
        door.now += 1
        sessions.append(await door.log_in())
    found = await door.visitors.list_sessions("acme")
    assert [one.id for one in found] == [one.id for one in (other, *sessions[2:]) if one is not None]
    assert await door.visitors.list_sessions("globex") == []


async def test_a_proxys_header_counts_from_the_proxys_address_alone(open_door: OpenDoor) -> None:
    door = open_door(person("sso", hash=None), sso_header="X-User", sso_proxy=PROXY)
    assert await door.visit("10.0.0.8", x_user="sso") is None
    assert await door.visit(PROXY) is None
    assert await door.visit(PROXY, x_user="stranger") is None
    session = await door.visit(PROXY, x_user="sso")
    assert session is not None
    response = Response()
    door.visitors.set_cookie(response, session)
    door.keep(response)
    assert same(await door.visit(PROXY, x_user="sso"), session)
    assert await door.visit(PROXY) is None, "the proxy no longer names the person"
    without = open_door(person("sso", hash=None))
    assert await without.visit(PROXY, x_user="sso") is None
