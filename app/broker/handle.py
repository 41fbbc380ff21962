"""What every broker offers, however it runs: its handle, what can go wrong, and whether it answers."""

from __future__ import annotations

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

THREE_WAYS = """\
Any one of these gives Sluice a broker:
  1. one that runs already: set KAFKA_BOOTSTRAP_SERVERS=host:port
  2. Docker: start its daemon (the official apache/kafka image is used)
  3. a JDK (17 or later) and Maven on the PATH: a local Apache Kafka is resolved, checked and started"""


class BrokerError(Exception):
    """No broker, or it did not do what was asked; the message says what to do next."""


class NoBrokerError(BrokerError):
    """None of the three ways works here; the message names them and why each was passed over."""

    def __init__(self, reasons: dict[str, str]) -> None:
        tried = "\n".join(f"  {way}: {reason}" for way, reason in reasons.items())
        super().__init__(f"No Kafka broker.\nTried:\n{tried}\n{THREE_WAYS}")


class JarsError(BrokerError):
    """The broker's jars are not those of the manifest; each difference is named."""


class Broker(Protocol):
    """A Kafka broker that answered an admin call.

    `stop`, `kill` and `start` are for fault runs: data and address survive them. A broker that is not ours
    (`kind == "external"`) refuses all three with BrokerError.
    """

    @property
    def kind(self) -> str:
        """`external`, `docker` or `jvm`."""

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`, the same before and after a restart."""

    def stop(self) -> None:
        """SIGTERM, and wait until it has gone."""

    def kill(self) -> None:
        """SIGKILL, and wait until it has gone."""

    def start(self) -> None:
        """Start it again on the same data and address, and wait until it answers."""

    def close(self) -> None:
        """Stop it for good if it is ours. Calling it twice is harmless."""


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
