"""Is a broker there? Asked with a real admin call, under a deadline."""

from __future__ import annotations

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

ATTEMPT_S = 5.0
PAUSE_S = 0.1


def answers(bootstrap_servers: str, attempt_s: float = ATTEMPT_S) -> bool:
    """Whether the cluster at `bootstrap_servers` lists at least one live broker within `attempt_s` seconds.

    Runs its own event loop in its own thread, so that it may be called from inside another loop.
    """
    if not _listens(bootstrap_servers, attempt_s):
        return False  # aiokafka would say so too, but with a line on standard error for each try
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, _answers(bootstrap_servers, attempt_s)).result()


def wait_until_ready(bootstrap_servers: str, deadline_s: float, still_there: Callable[[], bool]) -> bool:
    """Ask until it answers (True), `deadline_s` seconds have passed or `still_there()` says no (False)."""
    end = time.monotonic() + deadline_s
    while (left := end - time.monotonic()) > 0 and still_there():
        if answers(bootstrap_servers, min(ATTEMPT_S, left)):
            return True
        time.sleep(PAUSE_S)
    return False


def _listens(bootstrap_servers: str, attempt_s: float) -> bool:
    return any(_accepts(server.strip(), attempt_s) for server in bootstrap_servers.split(","))


def _accepts(server: str, attempt_s: float) -> bool:
    host, _, port = server.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=attempt_s):
            return True
    except (OSError, ValueError, OverflowError):
        return False


async def _answers(bootstrap_servers: str, attempt_s: float) -> bool:
    try:
        async with asyncio.timeout(attempt_s):
            return await _live_brokers(bootstrap_servers, attempt_s) > 0
    except (KafkaError, OSError, TimeoutError):
        return False


async def _live_brokers(bootstrap_servers: str, attempt_s: float) -> int:
    admin = AIOKafkaAdminClient(
        bootstrap_servers=bootstrap_servers, request_timeout_ms=max(1, int(attempt_s * 1000))
    )
    try:
        await admin.start()
        return len((await admin.describe_cluster())["brokers"])
    finally:
        await admin.close()
