"""Guarded tools and the programs of docs/examples against a real worker: what runs is what was allowed.

Mend 22.22: the model of the LangGraph and of the chat-loop example reads why, and what it may do now.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.runnables import RunnableConfig  # noqa: TC002 - LangChain reads the annotations
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import tool

from load.installations import neutral_policy
from sluice.client import ActionDenied, AsyncGateClient, ClientError, ClientOptions
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import ACTIONS, OUTCOMES, VERDICTS
from tests.documents.blocks import ROOT
from tests.kafka.installation import make_small_installation, read_stored, run_worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
READ, PURGE = neutral_policy.READ_TOOL, neutral_policy.PURGE_TOOL
WAITS = "needs_human by tier_auth: tier_T3: needs a person's approval. The tool did not run. Do not repeat"
EXAMPLES = ROOT / "docs" / "examples"
USED = ("search_records", "delete_records", "example-operator")


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    """The agent and tools as the shipped registry has them, under a bundle that compiles at once."""
    installation = make_small_installation(
        kafka, tmp_path_factory.mktemp("examples"), module_prefix.rstrip(".")
    )
    shipped = json.loads((ROOT / "config" / "registry.json").read_text())["entries"]
    entries = [one for one in shipped if one["id"] in USED]
    for one in entries:
        one["spec"].pop("policy_bundle_id", None)
    asyncio.run(publish_policy(kafka, installation.prefix, installation.trust.sign_entries(entries)))
    return installation


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


def select_sessions(installation: TestInstallation, topic: str, beginning: str) -> list[dict[str, Any]]:
    every = [json.loads(one.value or b"null") for one in read_stored(installation, topic)]
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
            [
                'search_records: ["o-2", "o-3"]',
                f"delete_records: {WAITS}",
            ],
        ),
        (
            "chat_loop.py",
            "chat-",
            [
                "assistant: calls search_records, delete_records",
                'tool: ["o-2", "o-3"]',
                f'tool: "{WAITS}',
                "assistant: 1 done, 1 refused",
            ],
        ),
    ],
)
def test_an_example_runs_what_is_allowed_and_says_what_is_not(
    installation: TestInstallation, worker: WorkerProcess, program: str, session: str, said: list[str]
) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    given = {**own, "KAFKA_BOOTSTRAP_SERVERS": installation.bootstrap_servers, **installation.settings}
    ran = subprocess.run(
        [sys.executable, EXAMPLES / program], env=given, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert [one for one in said if not any(line.startswith(one) for line in lines)] == [], ran.stdout
    assert lines[-1] == "orders: ['o-1', 'o-2', 'o-3']"
    verdicts = [one["verdict"] for one in select_sessions(installation, VERDICTS, session)]
    assert sorted(verdicts) == ["allowed", "needs_human"]
    assert len(select_sessions(installation, OUTCOMES, session)) == 1


def client_of(installation: TestInstallation) -> AsyncGateClient:
    options = ClientOptions(topic_prefix=installation.prefix, deadline_s=60)
    return AsyncGateClient(installation.bootstrap_servers, neutral_policy.AGENT, options)


class Tables:
    """Tools that are methods."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    async def read(self, table: str, config: RunnableConfig) -> str:
        """Read a table."""
        return f"{self.rows} rows of {table} for {config['configurable']['user']}"


async def test_what_a_framework_fills_is_not_judged_and_comes_from_the_framework_alone(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    """Mend 22.2: LangChain fills `config`, whatever the model sends; `rows_before` is what is reserved."""
    tables = Tables(4)
    async with client_of(installation) as gate:
        context = {"self": None, "config": ensure_config}
        guard = gate.guard(
            READ, session_id="context", context=context, rows_before=lambda self, *_, **__: self.rows
        )
        guarded = guard(Tables.read)

        @tool
        async def read(table: str, config: RunnableConfig) -> str:
            """Read a table."""
            return await guarded(tables, table, config=config)

        sent = {"table": "orders", "config": {"configurable": {"user": "root"}}}
        assert await read.ainvoke(sent, {"configurable": {"user": "ada"}}) == "4 rows of orders for ada"
        called: Any = gate.guard(READ, session_id="context", context=["self", "config"])(Tables.read)
        with pytest.raises(ClientError, match="a model could have sent"):
            await called(tables, **sent)
    (action,) = await asyncio.to_thread(select_sessions, installation, ACTIONS, "context")
    assert (action["parameters"], action["rows_affected"]) == ({"table": "orders"}, 4)


async def test_a_result_that_goes_on_is_refused_and_the_outcome_says_that_it_failed(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    """Mend 22.2: its work would be done after the outcome."""
    async with client_of(installation) as gate:

        @gate.guard(READ, session_id="goes-on", rows_before=2)
        async def read() -> Iterator[int]:
            return (1 // 0 for _ in "a")

        with pytest.raises(ClientError, match="returned a generator, which goes on later"):
            await read()
    (told,) = await asyncio.to_thread(select_sessions, installation, OUTCOMES, "goes-on")
    assert (told["rows_affected"], told["error"]) == (2, "ClientError")


async def test_a_model_reads_why_it_was_refused_and_what_it_may_do_now(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    """Mend 22.22: each in place of a result; without `on_refusal` it is an error, as before."""
    too_many = neutral_policy.PURGE_LIMIT + 1
    async with client_of(installation) as gate:

        async def purge(table: str) -> str:
            return f"{table} is gone"

        def guard(name: str = PURGE, rows: int = 1, **more: Any) -> Callable[[str], Awaitable[str]]:
            return gate.guard(name, rows_before=rows, on_refusal="return", session_id="told", **more)(purge)

        assert await guard()("orders") == "orders is gone"
        denied = await guard(rows=too_many)("orders")
        assert denied.startswith("denied by fast_reject: irreversible_rows: ")
        assert "The tool did not run. Do not repeat the call. You may call it with arguments to" in denied
        unknown = await guard("load.unknown")("orders")
        assert "unregistered_tool" in unknown
        assert "no other arguments will help" in unknown
        unreadable = await guard(reversible="perhaps")("orders")
        assert "at $.reversible" in unreadable
        unkept = await guard()(("orders",))  # type: ignore[arg-type]
        assert unkept.startswith("load.purge: table is a tuple")
        with pytest.raises(ActionDenied):
            await gate.guard(PURGE, rows_before=too_many, session_id="told")(purge)("orders")
