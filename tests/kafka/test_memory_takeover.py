"""A worker dies with memories in quarantine: the next one keeps their times and what reviewers said."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from load.installations.worker_process import WorkerProcess
from sluice.core.foundation.clock import read_milliseconds
from sluice_topics.catalog import ADMITTED, MEMORY_WRITES, QUARANTINE, REVIEWS, SESSION_EVENTS
from tests.kafka.installation import publish, records, run_worker, wait_for, wait_until
from tests.kafka.memories import (
    HASTY_AGENT,
    MemoryInstallation,
    make_held_write,
    memory_installation,
    review,
    session_in,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

pytestmark = pytest.mark.kafka
PARTITION = 3


@pytest.fixture
def made(kafka: str, prefix: str, tmp_path: Path) -> MemoryInstallation:
    return memory_installation(kafka, tmp_path, prefix.rstrip("."), SLUICE_WORKER__TIMER_INTERVAL_S="0.2")


@pytest.fixture
def doomed(made: MemoryInstallation) -> Iterator[WorkerProcess]:
    worker = WorkerProcess(made.installation, "doomed", 0.0)
    try:
        wait_until(lambda: bool(worker.partitions()), worker)
        yield worker
    finally:
        worker.end_now()


def test_times_and_reviews_outlast_a_worker_that_was_killed(
    made: MemoryInstallation, doomed: WorkerProcess
) -> None:
    """One review came in time while nobody owned the partition, one too late, and a memory had none."""
    installation = made.installation
    sessions = [session_in(installation, PARTITION, name) for name in ("reviewed", "late", "forgotten")]
    publish(
        installation, [make_held_write(one, "w", agent_id=HASTY_AGENT) for one in sessions], MEMORY_WRITES
    )
    entered = [wait_for(installation, QUARANTINE, one, 1, doomed)[0] for one in sessions]
    doomed.end_now()
    publish(installation, [review(made, entered[0], "approve")], REVIEWS)
    over = max(read_milliseconds(one["expires_at"]) for one in entered)
    wait_until_ms(over)
    publish(installation, [review(made, entered[1], "approve")], REVIEWS)
    for successor in run_worker(installation, "successor"):
        ended = [wait_for(installation, QUARANTINE, one, 2, successor)[1] for one in sessions]
        (refused,) = wait_for(installation, SESSION_EVENTS, sessions[1], 1, successor)
    assert [kind(one) for one in ended] == [
        "quarantine_approved",
        "quarantine_expired",
        "quarantine_expired",
    ]
    for was, now in zip(entered, ended, strict=True):
        assert (now["entered_at"], now["expires_at"]) == (was["entered_at"], was["expires_at"])
    assert (refused["reason"], ended[1]["input"] is not None) == ("expired", True)
    assert [len(records(installation, ADMITTED, one)) for one in sessions] == [1, 0, 0]


def wait_until_ms(at_ms: int) -> None:
    """Return once this machine's clock, which is the broker's, is past it."""
    while time.time_ns() <= at_ms * 1_000_000:
        time.sleep(0.05)


def kind(event: dict[str, Any]) -> str:
    """Of a quarantine's event."""
    name: str = event["schema"].split("/")[1]
    return name
