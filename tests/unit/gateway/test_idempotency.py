"""What is remembered under an idempotency key, for how long, and for whom."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from redis import Redis

from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.idempotency import (
    KEPT_S,
    OWN_BYTES,
    IdempotencyStore,
    IdempotentRequests,
    RedisAnswers,
    RememberedRequest,
    SqliteAnswers,
    StoredAnswer,
    compute_fingerprint,
    name_request,
)
from sluice.secrets.redis_seal import Seal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.redis_server import RedisServer

OWNER, MOST = "acme/1", 4096
KINDS = ("memory", "file", "redis")
REQUEST = RememberedRequest("f", "agent", True, "session", "a-1", '{"ü": 1}', 10.0)
ANSWER = StoredAnswer(200, "{}", {"schema": "s", "advisories": [{"source": "a", "text": "b"}]})


def test_what_is_written_is_read_back() -> None:
    assert RememberedRequest.parse(REQUEST.serialize()) == REQUEST


def test_a_key_is_its_callers_alone() -> None:
    assert name_request("acme/1", "k") == name_request("acme/1", "k") != name_request("acme/2", "k")
    assert compute_fingerprint(b"a", b"b") != compute_fingerprint(b"ab", b"")


async def test_an_entry_is_kept_for_a_day_and_survives_in_a_file(tmp_path: Path) -> None:
    now = [0.0]
    store = SqliteAnswers(tmp_path / "answers", lambda: now[0])
    assert await store.add("n", b"1", OWNER) is None
    assert await store.add("n", b"2", OWNER) == b"1"
    await store.put("n", b"3", OWNER)
    await store.close()
    store = SqliteAnswers(tmp_path / "answers", lambda: now[0])
    now[0] = KEPT_S
    assert await store.add("n", b"4", OWNER) == b"3"
    now[0] = KEPT_S + 1
    assert await store.add("n", b"5", OWNER) is None


async def test_an_entry_that_is_written_again_is_kept_for_a_day_from_then_on() -> None:
    now = [0.0]
    store = SqliteAnswers(None, lambda: now[0])
    for name in ("put", "replaced", "left"):
        await store.add(name, b"1", OWNER)
    now[0] = KEPT_S / 2
    await store.put("put", b"2", OWNER)
    assert await store.replace("replaced", b"1", b"2", OWNER)
    now[0] = KEPT_S + 1
    assert [await store.get(one) for one in ("put", "replaced", "left")] == [b"2", b"2", None]
    await store.add("sweeps", b"", OWNER)
    assert await store.add("put", b"3", OWNER) == b"2"


async def test_a_file_of_an_earlier_release_is_taken_over(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "answers") as old:
        old.execute(
            "CREATE TABLE answers (name TEXT PRIMARY KEY, entry BLOB NOT NULL, since_s REAL NOT NULL)"
            " WITHOUT ROWID"
        )
        old.execute("INSERT INTO answers VALUES ('n', x'31', 0)")
    old.close()
    store = SqliteAnswers(tmp_path / "answers", lambda: 1.0)
    assert await store.get("n") == b"1"
    assert await store.replace("n", b"1", b"2", OWNER)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[IdempotencyStore]:
    """Each kind of store, in which an owner may keep MOST bytes."""
    if request.param != "redis":
        yield SqliteAnswers(None if request.param == "memory" else tmp_path / "answers", most_bytes=MOST)
        return
    with request.getfixturevalue("real_redis")(tmp_path) as server:
        yield RedisAnswers(server.url, "x.", Seal(lambda: (b"k" * 32,), "idempotent answer"), MOST)


async def test_an_entry_is_replaced_if_it_is_the_one_that_was_read(store: IdempotencyStore) -> None:
    assert not await store.replace("n", b"1", b"2", OWNER), "it is gone, or never was"
    assert await store.get("n") is None
    await store.add("n", b"1", OWNER)
    assert not await store.replace("n", b"0", b"2", OWNER)
    assert await store.replace("n", b"1", b"2", OWNER)
    assert not await store.replace("n", b"1", b"3", OWNER)
    assert await store.get("n") == b"2"
    await store.put("n", b"4", OWNER)
    await store.put("other", b"5", OWNER)
    assert (await store.get("n"), await store.get("other")) == (b"4", b"5")
    await store.close()


async def test_of_many_replacements_at_once_one_succeeds(
    real_redis: type[RedisServer], tmp_path: Path
) -> None:
    with real_redis(tmp_path) as server:
        seal = Seal(lambda: (b"k" * 32,), "idempotent answer")
        stores = [RedisAnswers(server.url, "x.", seal) for _ in range(8)]
        for number in range(20):
            await stores[0].add(f"n{number}", b"free", OWNER)
            tries = [one.replace(f"n{number}", b"free", b"%d" % at, OWNER) for at, one in enumerate(stores)]
            assert sorted(await asyncio.gather(*tries)) == [False] * 7 + [True]
        with Redis.from_url(server.url) as raw:
            raw.set("x.sluice:idempotency:n0", b"planted")
            assert not await stores[0].replace("n0", b"free", b"9", OWNER)
            raw.delete("x.sluice:idempotency:n1")
            assert not await stores[0].replace("n1", b"free", b"9", OWNER)
        for one in stores:
            await one.close()


async def test_what_an_owner_keeps_is_bounded_and_what_shrinks_makes_room(store: IdempotencyStore) -> None:
    for name in ("a", "b"):
        await store.add(name, bytes(MOST // 2 - OWN_BYTES - 100), OWNER)
    with pytest.raises(HttpError) as error:
        await store.add("c", bytes(100), OWNER)
    assert (error.value.status, error.value.code) == (429, "too_much_kept")
    assert await store.get("c") is None
    assert await store.add("c", bytes(100), "acme/2") is None, "another owner's are counted apart"
    assert await store.add("a", b"", OWNER) is not None, "what is there needs no room"
    await store.put("a", b"", OWNER)
    assert await store.add("d", bytes(100), OWNER) is None
    await store.close()


async def test_what_is_a_day_old_is_counted_no_longer() -> None:
    now = [0.0]
    store = SqliteAnswers(None, lambda: now[0], most_bytes=MOST)
    await store.add("a", bytes(MOST - OWN_BYTES - 100), OWNER)
    with pytest.raises(HttpError):
        await store.add("b", bytes(100), OWNER)
    now[0] = KEPT_S + 1
    assert await store.add("b", bytes(100), OWNER) is None


async def test_a_redis_forgets_what_it_counted_a_day_ago_and_what_nobody_of_ours_counted(
    real_redis: type[RedisServer], tmp_path: Path
) -> None:
    counts = f"x.sluice:idempotency_bytes:{OWNER}"
    with real_redis(tmp_path) as server, Redis.from_url(server.url) as raw:
        store = RedisAnswers(server.url, "x.", Seal(lambda: (b"k" * 32,), "idempotent answer"), MOST)
        planted: Any
        for planted in ({"0": MOST}, {"99999999": MOST}, {"x": MOST}, {f"{at}": "y" for at in range(65)}):
            raw.hset(counts, mapping=planted)
            assert await store.add(json.dumps(planted), b"", OWNER) is None
        raw.delete(counts)
        raw.set(counts, "planted")
        assert await store.add("n", b"", OWNER) is None
        assert 0 < int(raw.ttl(counts)) <= KEPT_S + 3600
        await store.close()


async def test_an_answer_is_decided_once_and_another_request_refused() -> None:
    asked = []

    async def decide(request: RememberedRequest) -> StoredAnswer:
        asked.append(request)
        return ANSWER

    requests = IdempotentRequests(SqliteAnswers(None))
    assert await requests.answer("n", OWNER, lambda: REQUEST, decide) == (ANSWER, False)
    assert await requests.answer("n", OWNER, lambda: REQUEST, decide) == (ANSWER, True)
    assert asked == [REQUEST]
    kept = RememberedRequest.parse(await requests.store.get("n") or b"")
    assert (kept.value, kept.fingerprint) == ("", REQUEST.fingerprint), (
        "the answered request itself is dropped"
    )
    other = RememberedRequest("g", "agent", True, "session", "a-1", "{}", 10.0)
    with pytest.raises(HttpError) as error:
        await requests.answer("n", OWNER, lambda: other, decide)
    assert (error.value.status, error.value.code) == (422, "idempotency_conflict")


async def test_what_was_not_answered_is_asked_again_with_the_first_bytes() -> None:
    asked = []

    async def decide(request: RememberedRequest) -> StoredAnswer:
        asked.append(request.value)
        if len(asked) == 1:
            raise HttpError(504, "not_decided", "late")
        return ANSWER

    requests = IdempotentRequests(SqliteAnswers(None))
    with pytest.raises(HttpError):
        await requests.answer("n", OWNER, lambda: REQUEST, decide)
    again = RememberedRequest("f", "agent", True, "other session", "a-2", "{}", 10.0)
    assert await requests.answer("n", OWNER, lambda: again, decide) == (ANSWER, True)
    assert asked == [REQUEST.value, REQUEST.value]
