"""Mend 22.23: an outage of the broker is two lines of ours in each process, and those of Kafka's client are
thinned out. An outage of 17 s made 4 455 lines, none of them ours."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import httpx2
import pytest

from load import PLAIN
from load.installations import neutral_policy
from load.installations.slack_api import slack_api, slack_settings
from load.installations.worker_process import WorkerProcess
from sluice.client.async_client import AsyncGateClient
from sluice.client.kafka_lines import CLIENTS
from sluice.client.sender import ClientOptions
from tests.kafka.gateway_process import run_gateway
from tests.kafka.installation import DEADLINE_S, END_S, make_small_installation
from tests.kafka.notifier_process import run_notifier

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from sluice.broker.handle import Broker

pytestmark = pytest.mark.kafka
OUTAGE_S = 8.0
MOST_LINES = 60
"""Of a process in an outage: one of each kind, and tracebacks of some. They grew with its length before."""
AWAY, BACK = "broker away since", "broker back after"


def test_an_outage_is_told_in_two_lines_and_readiness_follows(
    own_broker: Broker, prefix: str, tmp_path: Path
) -> None:
    installation = make_small_installation(own_broker.bootstrap_servers, tmp_path, prefix.rstrip("."))
    with ExitStack() as stack:
        api = stack.enter_context(slack_api())
        worker = WorkerProcess(installation, "deciding", 0.0)
        stack.callback(worker.end, END_S)
        stack.enter_context(run_notifier(installation, slack_settings(api, [{"channel": "C0ANY"}])))
        gateway = stack.enter_context(run_gateway(installation))
        logs = {"worker": worker.log, "notifier": tmp_path / "notifier.log"}
        logs["gateway"] = gateway.log

        def say() -> str:
            return "\n".join(f"{name}:\n{chr(10).join(_lines(log)[-40:])}" for name, log in logs.items())

        def is_ready() -> bool:
            return httpx2.get(f"{gateway.url}/readyz", timeout=DEADLINE_S, verify=PLAIN).status_code == 200

        _wait_until(lambda: is_ready() and bool(worker.partitions()), say)
        for name, log in logs.items():
            assert " ERROR " not in log.read_text(), f"a healthy start of {name}: {log.read_text()}"
            assert "\x1b" not in log.read_text(), name
        before = {name: len(_lines(log)) for name, log in logs.items()}
        asyncio.run(_pass_outage(own_broker, installation, is_ready, say))
        for name, log in logs.items():
            during = _lines(log)[before[name] :]
            text = "\n".join(during)
            assert sum(AWAY in one for one in during) == 1, f"{name}:\n{text}"
            assert sum(BACK in one for one in during) == 1, f"{name}:\n{text}"
            assert len(during) <= MOST_LINES, f"{len(during)} lines of {name}:\n{text}"


async def _pass_outage(
    broker: Broker, installation: TestInstallation, is_ready: Callable[[], bool], say: Callable[[], str]
) -> None:
    """With a client in this process too, whose application logs what it likes."""
    lines = _Kept()
    logging.getLogger().addHandler(lines)
    try:
        async with AsyncGateClient(
            installation.bootstrap_servers,
            neutral_policy.AGENT,
            ClientOptions(topic_prefix=installation.prefix),
        ):
            await asyncio.to_thread(broker.stop)
            began = time.monotonic()
            await asyncio.to_thread(_wait_until, lambda: not is_ready(), say)
            await asyncio.sleep(max(0.0, OUTAGE_S - (time.monotonic() - began)))
            await asyncio.to_thread(broker.start)
            await asyncio.to_thread(_wait_until, is_ready, say)
            await asyncio.to_thread(_wait_until, lambda: lines.count(BACK) > 0, say)
    finally:
        logging.getLogger().removeHandler(lines)
    assert (lines.count(AWAY), lines.count(BACK)) == (1, 1)
    assert sum(one.name.startswith(CLIENTS) for one in lines.kept) <= MOST_LINES


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(record)

    def count(self, word: str) -> int:
        return sum(word in one.getMessage() for one in self.kept)


def _lines(log: Path) -> list[str]:
    """But for those of our own questions."""
    return [one for one in log.read_text().splitlines() if "/readyz" not in one]


def _wait_until(holds: Callable[[], bool], say: Callable[[], str]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, say()
        time.sleep(0.2)
