"""Planted entries: write to the Redis of gateways and workers, so that they say what an attacker says.

The attacker reads and writes the whole Redis, is a tenant's caller too, and has neither the keys that seal
entries nor the machines of the gateways. The Redis and all that asks it are the real ones.
"""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from redis import Redis

from load.attacks.attempt import Attempt
from load.installations.redis_server import RedisServer
from sluice.adapters.models.cached_answers import SharedAnswers
from sluice.gateway.http.rate_limits import OwnRate, SharedRate
from sluice.gateway.idempotency import (
    IdempotentRequests,
    RedisAnswers,
    RememberedRequest,
    StoredAnswer,
    name_request,
)
from sluice.gateway.pages.accounts import PersonAccount
from sluice.gateway.pages.log_ins import Session, derive_id
from sluice.gateway.pages.shared_log_ins import SharedLogIns
from sluice.secrets.redis_seal import Seal, SealKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from load.attacks.attempt import Extent

HUGE = 64 * 1024 * 1024
VICTIM, ATTACKER = "acme/aaaaaaaaaaaa", "globex/bbbbbbbbbbbb"
ASKED = RememberedRequest("f" * 64, "payer", signs=True, session="s", name="a-1", value="{}", wait_s=1.0)
TRUE, FALSE = StoredAnswer(422, '{"verdict":"denied"}', {}), StoredAnswer(200, '{"verdict":"allowed"}', {})
LIE = replace(ASKED, answer=FALSE).serialize()
Plant = tuple[str, "Callable[[Redis, str, bytes], Any]"]
PLANTS: tuple[Plant, ...] = (
    ("nothing at all", lambda redis, name, _: redis.set(name, b"")),
    ("zeros", lambda redis, name, entry: redis.set(name, bytes(len(entry)))),
    ("the answer without a seal", lambda redis, name, _: redis.set(name, LIE)),
    ("a truncated entry", lambda redis, name, entry: redis.set(name, entry[:-7])),
    ("a truncated seal", lambda redis, name, entry: redis.set(name, entry[:11])),
    ("an entry with a bit turned", lambda redis, name, entry: redis.set(name, _turn_bit(entry))),
    ("an entry with more behind it", lambda redis, name, entry: redis.set(name, entry + b" ")),
    ("64 MiB", lambda redis, name, _: redis.setrange(name, HUGE - 1, "x")),
    ("a list", lambda redis, name, entry: redis.rpush(name, entry)),
    ("a hash", lambda redis, name, entry: redis.hset(name, "a", entry)),
)  # fmt: skip


def run(extent: Extent) -> Iterator[Attempt]:
    """Every kind of entry, planted where gateways and workers keep answers, log-ins and counts."""
    plants = PLANTS[::3] if extent == "short" else PLANTS
    with (
        TemporaryDirectory() as folder,
        RedisServer(Path(folder)) as server,
        Redis.from_url(server.url) as redis,
    ):
        keys = SealKeys(server.key_file)
        yield from asyncio.run(_answers(server.url, redis, keys, plants))
        yield from asyncio.run(_model_answers(server.url, redis, keys, plants))
        yield from asyncio.run(_log_ins(server.url, redis, keys, plants))
        yield from asyncio.run(_rates(server.url, redis, plants))


async def _answers(url: str, redis: Redis, keys: SealKeys, plants: tuple[Plant, ...]) -> list[Attempt]:
    seal = Seal(keys, "idempotent answer")
    store = RedisAnswers(url, "x.", seal)
    name, other = name_request(VICTIM, "k"), name_request(ATTACKER, "k")
    key = f"x.sluice:idempotency:{name}"
    attempts = []

    async def try_entry(tried: str, *, harmless: bool = False, replay: bool = False) -> None:
        answer, is_replay = await IdempotentRequests(store).answer(name, VICTIM, lambda: ASKED, _decide)
        held = answer == TRUE and is_replay is replay
        attempts.append(Attempt(f"idempotent answers: {tried}", held, answer.body, harmless))

    await try_entry("the first request")
    entry: Any = redis.get(key)
    await try_entry("the same again", harmless=True, replay=True)
    for tried, plant in plants:
        redis.delete(key)
        plant(redis, key, entry)
        await try_entry(f"{tried} in its place")
    await store.put(other, LIE, ATTACKER)
    redis.copy(f"x.sluice:idempotency:{other}", key, replace=True)
    await try_entry("another tenant's own answer in its place")
    redis.set(key, Seal(keys, "model answer").seal(name.encode(), LIE, time.time() + 60))
    await try_entry("an entry sealed for another purpose in its place")
    redis.set(key, seal.seal(name.encode(), LIE, time.time() - 1))
    await try_entry("an older answer, kept beyond its time")
    await store.close()
    return attempts


async def _decide(_: RememberedRequest) -> StoredAnswer:
    return TRUE


async def _model_answers(url: str, redis: Redis, keys: SealKeys, plants: tuple[Plant, ...]) -> list[Attempt]:
    seal = Seal(keys, "model answer")
    store = SharedAnswers(url, "x.", seal, 60)
    name, other = b"\1" * 32, b"\2" * 32
    key = f"x.sluice:answer:{seal.digest_name(name)}"
    redis.set(key, seal.seal(name, b'{"score":0.1}', time.time() + 60))
    entry: Any = redis.get(key)
    answer = await _find_entry(store, name)
    attempts = [Attempt("model answers: its own", answer == {"score": 0.1}, str(answer), harmless=True)]

    async def absent(tried: str) -> None:
        answer = await store.find(name)
        attempts.append(Attempt(f"model answers: {tried}", answer is None, str(answer)))

    for tried, plant in plants:
        redis.delete(key)
        plant(redis, key, entry)
        await absent(tried)
    redis.set(key, seal.seal(other, b'{"score":1.0}', time.time() + 60))
    await absent("the answer to another tenant's question")
    redis.set(key, Seal(keys, "idempotent answer").seal(name, b'{"score":1.0}', time.time() + 60))
    await absent("an entry sealed for another purpose")
    redis.set(key, seal.seal(name, b'{"score":1.0}', time.time() - 1))
    await absent("an older answer, kept beyond its time")
    await store.close()
    return attempts


async def _find_entry(store: SharedAnswers, name: bytes) -> object:
    """On a busy machine a look may take too long, which is as good as nothing found."""
    for _ in range(600):
        entry = await store.find(name)
        if entry is not None:
            break
        await asyncio.sleep(0.05)
    return entry


async def _log_ins(url: str, redis: Redis, keys: SealKeys, plants: tuple[Plant, ...]) -> list[Attempt]:
    people = {name: _person(name, tenant) for name, tenant in (("ann", "acme"), ("eve", "globex"))}
    store = SharedLogIns(url, "x.", keys, people.get, 1000.0)
    tokens = {"ann": "token of ann", "eve": "token of eve"}
    sessions = {
        name: Session(derive_id(tokens[name]), person, "c" * 20, time.time(), time.time(), by_sso=False)
        for name, person in people.items()
    }
    hashed = "x.sluice:log_ins"
    for session in sessions.values():
        await store.add(session)
    values: list[Any] = [redis.hget(hashed, sessions[name].id) for name in ("ann", "eve")]
    ann, eve = values
    log_in = await store.find(tokens["ann"])
    own = log_in is not None and log_in.account.name == "ann"
    attempts = [Attempt("log-ins: its own", own, str(own), harmless=True)]

    async def nobody(tried: str, token: str) -> None:
        log_in = await store.find(token)
        await store.list_all()
        attempts.append(Attempt(f"log-ins: {tried}", log_in is None, str(log_in)))

    redis.hset(hashed, sessions["eve"].id, ann)
    await nobody("another tenant's session under one's own token", tokens["eve"])
    redis.hset(hashed, derive_id("made up"), eve)
    await nobody("one's own session under a token that is made up", "made up")
    for value in (b"", b"x" * HUGE, ann[:20], Seal(keys, "said on a page").seal(b"", b"[]", 1e12)):
        redis.hset(hashed, derive_id("made up"), value)
        await nobody(f"{len(value)} bytes that no gateway sealed", "made up")
    for tried, plant in plants:
        redis.delete(hashed)
        plant(redis, hashed, b"x")
        if redis.type(hashed) == b"hash":
            redis.hset(hashed, mapping={str(number): b"x" for number in range(30_000)})
        await nobody(f"{tried} in place of all of them", tokens["ann"])
        await store.add(sessions["ann"])
        log_in = await store.find(tokens["ann"])
        description = f"log-ins: a new one after {tried}"
        attempts.append(Attempt(description, log_in is not None, str(log_in is not None), harmless=True))
    await store.close()
    return attempts


def _person(name: str, tenant: str) -> PersonAccount:
    return PersonAccount(
        name=name, hash=None, tenant_id=tenant, approver_id=name, roles=["vp"], created_at="2026-01-01"
    )


async def _rates(url: str, redis: Redis, plants: tuple[Plant, ...]) -> list[Attempt]:
    """A stranger's word counts for no more than a burst; no answer of the Redis is an error."""
    rate, key = SharedRate(url, "x.", OwnRate(1.0, 5), answer_s=30.0), "x.sluice:rate:k"
    attempts = []
    numbers = (b"inf", b"nan", b"1e308", b"-inf", b"-1e308", b"99999999999999")
    written = [
        (repr(number), lambda redis, name, _, number=number: redis.set(name, number)) for number in numbers
    ]
    for tried, plant in (*plants, *written):
        redis.delete(key)
        plant(redis, key, b64encode(json.dumps([1] * 50).encode()))
        wait = await rate.take("k")
        held = wait is None or 0 < wait <= 10
        attempts.append(Attempt(f"rates: {tried}", held, str(wait)))
    redis.delete(key)
    waits = [await rate.take("k") for _ in range(6)]
    limited = waits[:5] == [None] * 5 and waits[5] is not None
    attempts.append(Attempt("rates: a burst and one more", limited, str(waits), harmless=True))
    await rate.close()
    return attempts


def _turn_bit(entry: bytes) -> bytes:
    return entry[:-1] + bytes([entry[-1] ^ 1])
