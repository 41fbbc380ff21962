"""Decisions on memories of a real worker, executed again from what lies on the broker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from sluice.cli.main import cli
from sluice.core.policy.bundle_frame import ORDER_OF_OLD
from sluice_topics.catalog import MEMORY_DECISIONS, MEMORY_WRITES, QUARANTINE, REVIEWS, VERDICTS
from tests.kafka.installation import action, publish, run_worker, wait_for
from tests.kafka.memories import (
    MemoryInstallation,
    make_held_write,
    memory_installation,
    review,
    session_in,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka


@pytest.fixture
def made(kafka: str, prefix: str, tmp_path: Path) -> MemoryInstallation:
    return memory_installation(kafka, tmp_path, prefix.rstrip("."), ORDER_OF_OLD)


@pytest.fixture
def worker(made: MemoryInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(made.installation)


def rerun(made: MemoryInstallation, *words: str) -> dict[str, Any]:
    found = CliRunner().invoke(cli, ["rerun", *words, "--json"], env=made.installation.settings)
    return dict(json.loads(found.stdout))


def test_memories_and_actions_of_a_session_come_out_identical(
    made: MemoryInstallation, worker: WorkerProcess
) -> None:
    installation, session, other = (
        made.installation,
        session_in(made.installation, 0),
        session_in(made.installation, 1),
    )
    publish(installation, [write(session, "w-1"), make_held_write(session, "w-2")], MEMORY_WRITES)
    (entered,) = wait_for(installation, QUARANTINE, session, 1, worker)
    publish(installation, [review(made, entered, "reject")], REVIEWS)
    wait_for(installation, QUARANTINE, session, 2, worker)
    again = [
        write(session, "w-1"),
        write(session, "w-1", content="otherwise"),
        write(session, "w-3", timestamp=None),
    ]
    publish(installation, [*again, write(session, "w-4", agent_id="nobody")], MEMORY_WRITES)
    publish(installation, [action(other, "a-1")])
    publish(installation, [write(other, "w-5", derived_from=[entered["memory_id"]])], MEMORY_WRITES)
    decided = wait_for(installation, MEMORY_DECISIONS, session, 6, worker)
    (child,) = wait_for(installation, MEMORY_DECISIONS, other, 1, worker)
    wait_for(installation, VERDICTS, other, 1, worker)

    every = rerun(made, "--all")
    counts = {kind: of["identical"] for kind, of in every["by_kind"].items() if of["identical"]}
    assert (counts, every["reruns"]) == ({"verdict": 1, "memory_decision": 7}, [])
    parent = decided[1]["memory_id"]
    assert child["seen"]["parents"][0]["memory_id"] == parent
    named = rerun(made, parent, child["memory_id"])["reruns"]
    assert [(one["id"], one["status"]) for one in named] == [
        (parent, "identical"),
        (child["memory_id"], "identical"),
    ]
    assert rerun(made, "--sample", "3")["identical"] == 3


def test_a_memory_that_nobody_decided_on_is_named(made: MemoryInstallation, worker: WorkerProcess) -> None:
    publish(made.installation, [write(session_in(made.installation, 0), "w-1")], MEMORY_WRITES)
    missing = "memory:gate.memory.writes.proposed:0:17"
    told = rerun(made, missing)
    assert (told["reruns"], list(told["unknown"])) == ([], [missing])
