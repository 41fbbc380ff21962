"""One installation, worker and gateway for this folder: a test keeps to sessions, and keys, of its own.

A test that needs other settings, or that kills its gateway, starts one of its own on the same site.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sluice_demo.throwaway_trust import publish_policy
from tests.kafka.conftest import new_prefix
from tests.kafka.gateway_process import Gateway, entries, run_gateway
from tests.kafka.installation import make_small_installation, run_worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess


@pytest.fixture(scope="package")
def installation(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestInstallation]:
    """Where the tests' worker and gateways are; timers are looked at often, so that what ends, ends soon."""
    folder = tmp_path_factory.mktemp("gateway")
    with new_prefix("gateway", kafka) as prefix:
        made = make_small_installation(
            kafka, folder, prefix.rstrip("."), SLUICE_WORKER__TIMER_INTERVAL_S="0.2"
        )
        asyncio.run(publish_policy(kafka, made.prefix, made.trust.sign_entries(entries())))
        yield made


@pytest.fixture(scope="package")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    """It decides; a test that suspends it lets it go on."""
    yield from run_worker(installation)


@pytest.fixture(scope="package")
def gateway(installation: TestInstallation, worker: WorkerProcess) -> Iterator[Gateway]:
    """It cuts off slow clients after five seconds."""
    with run_gateway(installation, wait_s=50, longest_wait_s=60, request_timeout_s=5) as started:
        yield started
