"""Decisions of a real worker, executed again from what lies on the broker."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from app.adapters.kafka_evidence import KafkaEvidence
from app.adapters.kafka_rerun import rerun_all
from app.cli.main import cli
from load import policy
from load.reruns import stage_of
from tests.kafka.installation import action, publish, publish_to, running, site_on, written
from topics.catalog import ACTIONS, OUTCOMES, SESSION_EVENTS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.core.ledger.rerun_result import Rerun
    from load.process import WorkerProcess
    from load.site import Site

pytestmark = pytest.mark.kafka
SHIPPED = ["controls", "fast_reject", "rules", "consequence", "topology", "tier_auth"]


@pytest.fixture
def site(kafka: str, prefix: str, tmp_path: Path) -> Site:
    return site_on(kafka, tmp_path, prefix.rstrip("."), SLUICE_POLICY__STAGES=json.dumps(SHIPPED))


@pytest.fixture
def worker(site: Site) -> Iterator[WorkerProcess]:
    yield from running(site)


@pytest.fixture
def site_with_own_stages(kafka: str, prefix: str, tmp_path: Path) -> Site:
    return site_on(kafka, tmp_path, prefix.rstrip("."))


def rerun(site: Site, *words: str) -> Result:
    return CliRunner().invoke(cli, ["rerun", *words, "--json"], env=site.settings)


def reruns_with_own_stages(site: Site) -> list[Rerun]:
    async def run() -> list[Rerun]:
        source = KafkaEvidence(site.bootstrap_servers, site.prefix)
        return [one async for one in rerun_all(source, stage_of)]

    return asyncio.run(run())


def proposals() -> list[dict[str, Any]]:
    purge = {"toolName": policy.PURGE_TOOL, "rows_affected": policy.PURGE_LIMIT + 1}
    first = action("s", "a-1")
    return [
        first,
        first,
        action("s", "a-1", rows_affected=11),
        action("s", "a-2", **purge),
        action("s", "a-3", mode="standard", **purge),
        action("s", "a-4", agent_id="nobody"),
        action("t", "a-5", toolName="unheard_of"),
        action("t", "a-6", parameters={"c": "rm -rf /"}, mode=None),
    ]


def test_every_verdict_comes_out_identical(site: Site, worker: WorkerProcess) -> None:
    publish(site, proposals())
    written(site, VERDICTS, 8, worker)
    publish(
        site,
        [{"action_id": "a-1", "session_id": "s", "rows_affected": 70, "reported_by": policy.AGENT}],
        OUTCOMES,
    )
    written(site, SESSION_EVENTS, 1, worker)
    publish(site, [action("s", "a-7")])
    verdicts = written(site, VERDICTS, 9, worker)
    found = rerun(site, "--all")
    told = json.loads(found.stdout)
    assert (told["by_kind"]["verdict"]["identical"], told["identical"], told["reruns"]) == (9, 9, [])
    assert found.exit_code == 0
    ids = [verdicts[0]["verdict_id"], f"escalation:{verdicts[1]['verdict_id'].removeprefix('verdict:')}"]
    assert [one["status"] for one in json.loads(rerun(site, *ids).stdout)["reruns"]] == ["identical"] * 2
    sampled = [rerun(site, "--sample", "3", "--seed", "7").stdout for _ in range(2)]
    assert json.loads(sampled[0])["identical"] == 3
    assert sampled[0] == sampled[1]


def test_what_is_not_there_is_named(site: Site, worker: WorkerProcess) -> None:
    found = rerun(site, "verdict:gate.actions.proposed:3:17", "verdict:gate.actions.proposed:99:0")
    assert (found.exit_code, json.loads(found.stdout)["evidence_gone"]) == (3, 2)
    assert rerun(site, "nonsense").exit_code == 2
    assert rerun(site, "--all", "--sample", "1").exit_code == 2


def test_recorded_answers_and_refused_inputs_come_out_identical(site_with_own_stages: Site) -> None:
    site = site_with_own_stages
    for worker in running(site, slow_s=0.1):
        publish(site, [action("s", f"a-{n}", parameters={"slow": True}) for n in range(3)])
        publish_to(site, 0, action("s", "elsewhere"))
        written(site, VERDICTS, 3, worker)
    assert [one.status for one in reruns_with_own_stages(site)] == ["identical"] * 3
    found = rerun(site, "--all")
    assert found.exit_code == 3
    (first, *_) = json.loads(found.stdout)["reruns"]
    assert first["missing"] == ["stage poison", "stage slow_probe"]
    assert ACTIONS in first["id"]
