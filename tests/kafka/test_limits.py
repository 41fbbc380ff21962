"""Limits above the session hold over partitions and workers, and every verdict comes out the same again."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from load.installations import neutral_policy
from load.installations.worker_process import WorkerProcess
from sluice.cli.main import cli
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import VERDICTS
from tests.kafka.installation import action, installation_on, publish, run_worker, wait_for, wait_until
from tests.kafka.memories import session_in

if TYPE_CHECKING:
    from pathlib import Path

    from load.installations.installation import TestInstallation

pytestmark = pytest.mark.kafka
MOST, LARGE = 1000, 3200
"""Of eight partitions each may allow 125 rows of what is read, and 400 of what is purged."""
PARTITIONS = 8
DAY_MS = 86_400_000


def make_limit(name: str, tool: str, most: int) -> dict[str, Any]:
    spec = {"tenant_id": neutral_policy.TENANT, "per": "agent", "sum": "rows", "window_ms": DAY_MS}
    return {"kind": "limit", "id": name, "revision": 1, "spec": {**spec, "tools": [tool], "most": most}}


@pytest.fixture
def installation(kafka: str, prefix: str, tmp_path: Path) -> TestInstallation:
    made = installation_on(
        kafka, tmp_path, prefix.rstrip("."), ("controls", "limits", "fast_reject", "tier_auth")
    )
    limits = [
        make_limit("read-a-day", neutral_policy.READ_TOOL, MOST),
        make_limit("purged-a-day", neutral_policy.PURGE_TOOL, LARGE),
    ]
    asyncio.run(publish_policy(kafka, made.prefix, made.trust.sign_entries(limits)))
    return made


def propose(sessions: list[str], round_: int) -> list[dict[str, Any]]:
    return [action(session, f"a-{round_}", rows_affected=50) for session in sessions]


def add_up(verdicts: list[dict[str, Any]], words: str = "allowed") -> int:
    return sum(int(one["rows_reserved"]) for one in verdicts if one["verdict"] == words)


def test_new_sessions_and_new_workers_allow_no_more_than_the_limit(installation: TestInstallation) -> None:
    """Each partition has three sessions that want 50 rows, three times; a worker dies between. And three new
    sessions of one partition want 400 rows each."""
    sessions = [
        session_in(installation, number, f"s-{place}") for number in range(PARTITIONS) for place in range(3)
    ]
    large = [session_in(installation, 3, f"large-{place}") for place in range(3)]
    doomed = WorkerProcess(installation, "doomed", 0.0)
    try:
        wait_until(lambda: bool(doomed.partitions()), doomed)
        publish(installation, propose(sessions, 1))
        publish(installation, [action(large[0], "p", toolName=neutral_policy.PURGE_TOOL, rows_affected=400)])
        wait_for(installation, VERDICTS, sessions, 10, doomed)
        wait_for(installation, VERDICTS, large, 1, doomed)
    finally:
        doomed.end_now()
    publish(installation, propose(sessions, 2))
    for worker in run_worker(installation, "successor"):
        publish(installation, propose(sessions, 3))
        again = [action(one, "p", toolName=neutral_policy.PURGE_TOOL, rows_affected=400) for one in large[1:]]
        publish(installation, again)
        small = wait_for(installation, VERDICTS, sessions, 3 * len(sessions), worker)
        purged = wait_for(installation, VERDICTS, large, 3, worker)
    assert add_up(small) == PARTITIONS * 100 <= MOST
    assert {one["verdict"] for one in small} == {"allowed", "needs_human"}
    assert sorted(one["verdict"] for one in purged) == ["allowed", "needs_human", "needs_human"]
    reasons = {one["blockReason"].split(":")[0] for one in [*small, *purged] if one["blockReason"]}
    assert reasons == {"limit_share_spent"}
    found = CliRunner().invoke(cli, ["rerun", "--all", "--json"], env=installation.settings)
    told = json.loads(found.stdout)
    assert (found.exit_code, told["reruns"], told["by_kind"]["verdict"]["identical"]) == (0, [], 75)
    verified = CliRunner().invoke(cli, ["ledger", "verify", "--json"], env=installation.settings)
    assert (verified.exit_code, json.loads(verified.stdout)["findings"]) == (0, [])
