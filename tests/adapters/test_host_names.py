"""Addresses of names, as the operating system knows them."""

from __future__ import annotations

import asyncio
import threading

import pytest

from app.adapters.host_names import HostNames


async def test_this_machine_has_a_loopback_address() -> None:
    assert {"127.0.0.1", "::1"} & set(await HostNames().addresses("localhost"))


@pytest.mark.parametrize("host", ["no-such-name.invalid", "x" * 64 + ".example", "a..example"])
async def test_a_name_that_is_none_is_an_os_error(host: str) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - the system's own words
        await HostNames().addresses(host)


async def test_many_who_ask_for_one_name_wait_for_one_answer_and_one_who_leaves_disturbs_nobody() -> None:
    names = HostNames()
    before = threading.active_count()
    asking = [asyncio.create_task(names.addresses("localhost")) for _ in range(50)]
    await asyncio.sleep(0)
    assert threading.active_count() <= before + 1
    asking[0].cancel()
    found = await asyncio.gather(*asking[1:])
    assert all(one == found[0] for one in found)
