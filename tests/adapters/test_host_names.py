"""Addresses of names, as the operating system knows them."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

from sluice.adapters.checked_network import HostNames
from sluice.adapters.http_target import Unresolvable


async def test_this_machine_has_a_loopback_address() -> None:
    assert {"127.0.0.1", "::1"} & set(await HostNames().look_up("acme", "localhost"))


@pytest.mark.parametrize("host", ["no-such-name.invalid", "x" * 64 + ".example", "a..example"])
async def test_a_name_that_is_none_is_an_os_error(host: str) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - the system's own words
        await HostNames().look_up("acme", host)


async def test_many_who_ask_for_one_name_wait_for_one_answer_and_one_who_leaves_disturbs_nobody() -> None:
    names = HostNames()
    before = threading.active_count()
    asking = [asyncio.create_task(names.look_up("acme", "localhost")) for _ in range(50)]
    await asyncio.sleep(0)
    assert threading.active_count() <= before + 1
    asking[0].cancel()
    found = await asyncio.gather(*asking[1:])
    assert all(one == found[0] for one in found)


async def test_names_that_nobody_answers_for_take_up_the_share_of_the_tenant_that_names_them() -> None:
    over = threading.Event()

    def system(host: str, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        if host.startswith("hang") and over.wait(30):
            raise OSError("no answer")
        return [(0, 0, 0, "", ("192.0.2.1", 0))]

    names = HostNames(system)
    hanging = [asyncio.create_task(names.look_up("evil", f"hang{n}.example")) for n in range(300)]
    await asyncio.sleep(0)
    for task in hanging:
        task.cancel()  # who asked gives up; the system does not
    assert await names.look_up("acme", "good.example") == ("192.0.2.1",)
    with pytest.raises(Unresolvable) as busy:
        await names.look_up("evil", "good.example")
    assert busy.value.failure == "unasked"
    over.set()
    async with asyncio.timeout(10):
        while (found := await _addresses(names, "evil", "good.example")) is None:  # noqa: ASYNC110 - threads end
            await asyncio.sleep(0)
    assert found == ("192.0.2.1",)


async def _addresses(names: HostNames, tenant: str, host: str) -> Any:
    with suppress(Unresolvable):
        return await names.look_up(tenant, host)
