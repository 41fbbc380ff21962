"""The programs of docs/examples against a real worker: what is allowed runs, what needs a person does not."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sluice.cli.demo.throwaway_trust import publish_policy
from sluice_topics.catalog import OUTCOMES, VERDICTS
from tests.documents.blocks import ROOT
from tests.kafka.installation import running, site_on, stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.sites.site import Site
    from load.sites.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
EXAMPLES = ROOT / "docs" / "examples"
USED = ("search_records", "delete_records", "example-operator")


@pytest.fixture(scope="module")
def site(kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The agent and tools as the shipped registry has them, under a bundle that compiles at once."""
    site = site_on(kafka, tmp_path_factory.mktemp("examples"), module_prefix.rstrip("."))
    shipped = json.loads((ROOT / "config" / "registry.json").read_text())["entries"]
    entries = [one for one in shipped if one["id"] in USED]
    for one in entries:
        one["spec"].pop("policy_bundle_id", None)
    asyncio.run(publish_policy(kafka, site.prefix, site.trust.entries(entries)))
    return site


@pytest.fixture(scope="module")
def worker(site: Site) -> Iterator[WorkerProcess]:
    yield from running(site)


def of_sessions(site: Site, topic: str, beginning: str) -> list[dict[str, str]]:
    every = [json.loads(one.value or b"null") for one in stored(site, topic)]
    return [one for one in every if one["session_id"].startswith(beginning)]


@pytest.mark.parametrize(
    ("program", "session", "said"),
    [
        (
            "plain_tools.py",
            "plain-",
            ["found: ['o-2', 'o-3']", "not deleted: needs_human by tier_auth: tier_T3"],
        ),
        (
            "langgraph_tools.py",
            "langgraph-",
            ['search_records: ["o-2", "o-3"]', "delete_records: refused: needs_human by tier_auth: tier_T3"],
        ),
        (
            "chat_loop.py",
            "chat-",
            [
                "assistant: calls search_records, delete_records",
                'tool: ["o-2", "o-3"]',
                "tool: refused: needs_human by tier_auth: tier_T3",
                "assistant: 1 done, 1 refused",
            ],
        ),
    ],
)
def test_an_example_runs_what_is_allowed_and_says_what_is_not(
    site: Site, worker: WorkerProcess, program: str, session: str, said: list[str]
) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    given = {**own, "KAFKA_BOOTSTRAP_SERVERS": site.bootstrap_servers, **site.settings}
    ran = subprocess.run(
        [sys.executable, EXAMPLES / program], env=given, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert [one for one in said if not any(line.startswith(one) for line in lines)] == [], ran.stdout
    assert lines[-1] == "orders: ['o-1', 'o-2', 'o-3']"
    verdicts = [one["verdict"] for one in of_sessions(site, VERDICTS, session)]
    assert sorted(verdicts) == ["allowed", "needs_human"]
    assert len(of_sessions(site, OUTCOMES, session)) == 1
