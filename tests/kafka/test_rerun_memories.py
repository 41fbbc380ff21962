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
from tests.kafka.memories import MemorySite, make_held_write, memory_site, review, session_in, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka


@pytest.fixture
def made(kafka: str, prefix: str, tmp_path: Path) -> MemorySite:
    return memory_site(kafka, tmp_path, prefix.rstrip("."), ORDER_OF_OLD)


@pytest.fixture
def worker(made: MemorySite) -> Iterator[WorkerProcess]:
    yield from run_worker(made.site)


def rerun(made: MemorySite, *words: str) -> dict[str, Any]:
    found = CliRunner().invoke(cli, ["rerun", *words, "--json"], env=made.site.settings)
    return dict(json.loads(found.stdout))


def test_memories_and_actions_of_a_session_come_out_identical(
    made: MemorySite, worker: WorkerProcess
) -> None:
    site, session, other = made.site, session_in(made.site, 0), session_in(made.site, 1)
    publish(site, [write(session, "w-1"), make_held_write(session, "w-2")], MEMORY_WRITES)
    (entered,) = wait_for(site, QUARANTINE, session, 1, worker)
    publish(site, [review(made, entered, "reject")], REVIEWS)
    wait_for(site, QUARANTINE, session, 2, worker)
    again = [
        write(session, "w-1"),
        write(session, "w-1", content="otherwise"),
        write(session, "w-3", timestamp=None),
    ]
    publish(site, [*again, write(session, "w-4", agent_id="nobody")], MEMORY_WRITES)
    publish(site, [action(other, "a-1")])
    publish(site, [write(other, "w-5", derived_from=[entered["memory_id"]])], MEMORY_WRITES)
    decided = wait_for(site, MEMORY_DECISIONS, session, 6, worker)
    (child,) = wait_for(site, MEMORY_DECISIONS, other, 1, worker)
    wait_for(site, VERDICTS, other, 1, worker)

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


def test_a_memory_that_nobody_decided_on_is_named(made: MemorySite, worker: WorkerProcess) -> None:
    publish(made.site, [write(session_in(made.site, 0), "w-1")], MEMORY_WRITES)
    missing = "memory:gate.memory.writes.proposed:0:17"
    told = rerun(made, missing)
    assert (told["reruns"], list(told["unknown"])) == ([], [missing])
