"""Mend 22.10: what one caller does costs the others nothing, and tells nobody which API keys there are."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Literal

import pytest
from argon2 import PasswordHasher
from starlette.requests import Request

from sluice.gateway.http.api_keys import ApiKeyFile, ApiKeyStore, make_key, write_keys
from sluice.gateway.http.edge import FACTS
from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.http.rate_limits import MOST_KEPT, OwnRate
from sluice.gateway.http.response_headers import ResponseFacts
from sluice.gateway.recent_advisories import AdvisoriesByAgent
from sluice.gateway.routes.callers import STRANGERS, Callers, TenantTurns

if TYPE_CHECKING:
    from pathlib import Path


class Counting(PasswordHasher):
    """Counts the hashes that it works out."""

    count = 0

    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:  # noqa: A002 - as argon2 has it
        self.count += 1
        return super().verify(hash, password)


def store(path: Path) -> tuple[ApiKeyStore, Counting, str]:
    hasher = Counting(time_cost=1, memory_cost=64, parallelism=1)
    key, words = make_key("acme", None, "", "2026-11-24T00:00:00.000Z")
    write_keys(path, ApiKeyFile(keys=[key]))
    return ApiKeyStore(path, hasher), hasher, words


def test_an_unknown_key_id_costs_what_a_wrong_secret_costs(tmp_path: Path) -> None:
    keys, hasher, words = store(tmp_path / "keys.json")
    head, secret = words.rpartition("_")[::2]
    wrong_secret = f"{head}_{'A' * len(secret)}"
    unknown_id = f"sluice_{'0' * 12}_{secret}"
    for presented in (wrong_secret, unknown_id, "no key at all"):
        before = hasher.count
        assert keys.verify(presented) is None
        assert hasher.count == before + 1, presented
    assert keys.verify(words) is not None


def ask(key: str, address: str) -> Request:
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "client": (address, 1)}
    state = {FACTS: ResponseFacts("r")}
    return Request({**scope, "headers": [(b"x-mnemom-api-key", key.encode())], "state": state})


async def test_who_shows_many_unknown_keys_is_held_up_and_no_one_else(tmp_path: Path) -> None:
    keys, hasher, words = store(tmp_path / "keys.json")
    callers = Callers(keys, OwnRate(1000, 1000))
    assert await callers.identify(ask(words, "10.0.0.2"))
    statuses = []
    for number in range(2 * STRANGERS[1]):
        with pytest.raises(HttpError) as refused:
            await callers.identify(ask(f"sluice_{number:012x}_{'A' * 43}", "10.0.0.1"))
        statuses.append(refused.value.status)
    assert set(statuses) == {401, 429}
    assert hasher.count < 2 * STRANGERS[1]
    assert await callers.identify(ask(words, "10.0.0.1")), "a key that was verified once is not held up"


async def test_a_rate_of_many_names_forgets_those_that_are_whole_again() -> None:
    now = 0.0
    rate = OwnRate(1.0, 1, lambda: now)
    for number in range(3 * MOST_KEPT):
        now += 0.01
        await rate.take(str(number))
    assert len(rate._whole_at) <= MOST_KEPT + 1  # noqa: SLF001 - what is kept is what this is about
    assert await rate.take(str(3 * MOST_KEPT - 1)) is not None


def verdict(agent: str, number: int, advisories: int, tenant: str = "acme") -> dict[str, Any]:
    return {
        "advisories": [{"source": "s", "text": str(one)} for one in range(advisories)],
        "agent_id": agent,
        "decided_at": f"2026-11-24T00:00:{number:09d}Z",
        "request_id": "r",
        "session_id": "s",
        "tenant_id": tenant,
        "verdict_id": f"v{number}",
    }


def test_an_agent_with_many_advisories_pushes_out_none_of_anothers() -> None:
    kept = AdvisoriesByAgent(most_of_an_agent=50, most=120)
    kept.take(verdict("quiet", 0, 3))
    for number in range(1, 2000):
        kept.take(verdict(f"loud-{number % 5}", number, 2, tenant="globex"))
    assert [one["verdict_id"] for one in kept.list_advisories("acme", "quiet")] == ["v0"] * 3
    assert kept.list_advisories("globex", "quiet") == kept.list_advisories("acme", "loud-1") == []
    assert len(kept) <= 120
    newest = kept.list_advisories("globex", "loud-4")
    assert newest[0]["verdict_id"] == "v1999"
    assert [one["decided_at"] for one in newest] == sorted(
        (one["decided_at"] for one in newest), reverse=True
    )
    kept.take(verdict("quiet", 2001, 0))
    assert len(kept.list_advisories("acme", "quiet")) == 3


async def test_a_tenants_readings_go_one_by_one_and_leave_the_gateway_to_others_in_between() -> None:
    turns, order = TenantTurns(pause_ratio=3.0, most_waiting=8), []

    async def read(tenant: str, number: int) -> None:
        async with turns.take_turn(tenant):
            order.append((tenant, number, "begins"))
            await asyncio.sleep(0.02)
            order.append((tenant, number, "ends"))

    began = time.monotonic()
    busy = [asyncio.create_task(read("busy", number)) for number in range(8)]
    await asyncio.sleep(0)
    with pytest.raises(HttpError) as refused:
        await read("busy", 9)
    assert refused.value.status == 429
    await read("other", 0)
    other_at = order.index(("other", 0, "ends"))
    await asyncio.gather(*busy)
    assert time.monotonic() - began >= 7 * 4 * 0.02
    assert other_at < 6, "it did not wait for the busy tenant's eight"
    of_busy = [one[1:] for one in order if one[0] == "busy"]
    assert of_busy == [(number, what) for number in range(8) for what in ("begins", "ends")]
    await read("busy", 10)
