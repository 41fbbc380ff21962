"""The agents' client against a real worker: a tool runs once, only if it is allowed; its outcome is told."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from load.installations import neutral_policy
from sluice.cli.policy.key_files import make_private_key, read_private_key
from sluice.client import (
    ActionDenied,
    ActionInterrupted,
    ActionNotDecided,
    AsyncGateClient,
    BrokerUnreachable,
    ClientError,
    ClientOptions,
    GateClient,
    InputUnreadable,
    in_session,
)
from sluice.core.registry.keys import is_signed_by
from sluice.secrets.value_keys import write_value_key
from sluice_topics.audience import Audience
from sluice_topics.catalog import OUTCOMES, SESSION_EVENTS
from sluice_topics.records import ActionOutcome
from sluice_topics.values import derive_tenant_key, fingerprint, read_value
from tests.documents.blocks import ROOT
from tests.kafka.installation import make_small_installation, read_stored, run_worker, wait_until
from tests.kafka.memories import write
from tests.kafka.retrievals import item

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
READ, PURGE = neutral_policy.READ_TOOL, neutral_policy.PURGE_TOOL
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    """One for all tests: each has sessions of its own."""
    return make_small_installation(kafka, tmp_path_factory.mktemp("client"), module_prefix.rstrip("."))


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


def client_of(installation: TestInstallation, /, **more: Any) -> AsyncGateClient:
    options = ClientOptions(topic_prefix=installation.prefix, **{"deadline_s": PATIENCE_S, **more})
    return AsyncGateClient(installation.bootstrap_servers, neutral_policy.AGENT, options)


def select_session(installation: TestInstallation, topic: str, session: str) -> list[dict[str, Any]]:
    every = [json.loads(one.value or b"null") for one in read_stored(installation, topic)]
    return [one for one in every if one["session_id"] == session]


def fetch_settled(installation: TestInstallation, session: str, worker: WorkerProcess) -> dict[str, Any]:
    """The first settlement of a session, once there is one."""
    found: list[dict[str, Any]] = []

    def there() -> bool:
        every = [json.loads(one.value or b"null") for one in read_stored(installation, SESSION_EVENTS)]
        found[:] = [one for one in every if one.get("session_id") == session and "actual" in one]
        return bool(found)

    wait_until(there, worker)
    return found[0]


async def test_a_guarded_tool_runs_if_it_is_allowed_and_its_rows_are_reported(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    async with client_of(installation) as gate:

        @gate.guard(READ, rows=len, rows_affected=10)
        async def read(table: str, limit: int = 3) -> list[str]:
            return [f"{table}-{place}" for place in range(limit)]

        with in_session("guarded"):
            assert await read("orders", limit=4) == ["orders-0", "orders-1", "orders-2", "orders-3"]
    told = await asyncio.to_thread(fetch_settled, installation, "guarded", worker)
    assert (told["actual"], told["reported_by"]) == (4, neutral_policy.AGENT)


async def test_the_values_in_what_a_tool_returns_are_reported_and_never_the_content(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    """Issue 24, point 3: with a key of the tenant fingerprints go out, without one nothing does."""
    key = derive_tenant_key(bytes(range(32)), neutral_policy.TENANT)
    file = tmp_path / "values.key"
    write_value_key(file, key)
    mail = {"from": "Eve <eve@evil.example>", "body": "Pay DE89 3704 0044 0532 0130 00, says Eve Black."}
    point = installation.folder / "values-point.pem"
    make_private_key(point)
    signs = {"reported_by": "values-point", "signing_key": point, "installation": "here"}

    def read_mail(number: int) -> dict[str, str]:
        return mail

    async with client_of(installation, values_key=file, **signs) as gate:

        @gate.guard(READ, session_id="values")
        async def read(number: int) -> dict[str, str]:
            return read_mail(number)

        assert await read(1) == mail
        async with gate.action(READ, {}, session_id="values-block") as permit:
            permit.result = ["bob@example.com"]
        async with gate.action(READ, {}, session_id="values-unsaid"):
            pass
    async with client_of(installation) as gate, gate.action(READ, {}, session_id="values-no-key") as permit:
        permit.result = mail

    with GateClient(
        installation.bootstrap_servers,
        neutral_policy.AGENT,
        ClientOptions(topic_prefix=installation.prefix, deadline_s=PATIENCE_S, values_key=key),
    ) as threaded:
        assert threaded.guard(READ, session_id="values-threaded")(read_mail)(1) == mail

    def read_told(session: str) -> dict[str, Any]:
        (told,) = select_session(installation, OUTCOMES, session)
        assert "evil" not in json.dumps(told)
        return told

    def write_fingerprint(text: str) -> str:
        return base64.b64encode(fingerprint(key, read_value(text))).decode()

    told = await asyncio.to_thread(read_told, "values")
    assert not told["values"]["truncated"]
    expected = {"eve@evil.example", "DE89370400440532013000", "Eve Black"}
    assert {write_fingerprint(one) for one in expected} <= set(told["values"]["fingerprints"])
    outcome = ActionOutcome.model_validate(told)
    public = read_private_key(point).public
    audience = Audience("here", installation.prefix)
    assert is_signed_by(Ed25519PublicKey.from_public_bytes(public.raw), outcome, audience)

    block = await asyncio.to_thread(read_told, "values-block")
    assert block["values"] == {"fingerprints": [write_fingerprint("bob@example.com")], "truncated": False}
    threaded_told = await asyncio.to_thread(read_told, "values-threaded")
    assert threaded_told["values"] == told["values"]
    for session in ("values-unsaid", "values-no-key"):
        assert "values" not in await asyncio.to_thread(read_told, session)


async def test_a_denied_tool_does_not_run_and_the_error_says_which_gate_and_why(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    ran = []
    async with client_of(installation) as gate:

        @gate.guard(PURGE, session_id="denied", rows_affected=neutral_policy.PURGE_LIMIT + 1)
        async def purge(table: str) -> None:
            ran.append(table)

        with pytest.raises(ActionDenied, match="irreversible_rows") as error:
            await purge("orders")
    verdict = error.value.verdict
    assert not ran
    assert verdict.gate == "fast_reject"
    assert verdict.record["action_id"]
    assert error.value.to_do
    assert not await asyncio.to_thread(select_session, installation, OUTCOMES, "denied")


async def test_the_outcome_of_a_tool_that_raises_is_reported_and_its_error_passed_on(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    async with client_of(installation) as gate:

        @gate.guard(READ, session_id="raises", rows_affected=7)
        async def divide() -> float:
            return 1 / 0

        with pytest.raises(ZeroDivisionError):
            await divide()
    (told,) = await asyncio.to_thread(select_session, installation, OUTCOMES, "raises")
    assert (told["rows_affected"], told["error"]) == (7, "ZeroDivisionError")


async def test_a_dead_letter_ends_the_wait_with_the_place_of_the_error(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    async with client_of(installation) as gate:
        with pytest.raises(InputUnreadable) as error:
            await gate.propose(READ, {}, session_id="broken", rows_affected="many")
        assert error.value.path == "$.rows_affected"
        assert (await gate.propose(READ, {}, session_id="broken")).allowed


async def test_memories_and_retrievals_are_asked_for_the_same_way(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    fields = write("remembers", "w")
    for name in ("agent_id", "session_id", "write_id"):
        del fields[name]
    content, source = fields.pop("content"), fields.pop("source")
    async with client_of(installation) as gate:
        kept = await gate.remember(content, source, session_id="remembers", **fields)
        found = await gate.retrieve([item("good")], session_id="remembers", autonomy_tier="bounded")
    assert (kept.action, kept.record["session_id"]) == ("allow", "remembers")
    assert [one["item_id"] for one in found.items] == ["good"]
    assert found.items[0]["body"] == item("good")["body"]


async def test_an_id_runs_its_tool_once_however_often_it_is_called(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    ran = []
    async with client_of(installation) as gate:

        async def call() -> None:
            async with gate.action(READ, {"n": 1}, session_id="once", action_id="the-one"):
                ran.append(1)
                await asyncio.sleep(0)

        results = await asyncio.gather(*(call() for _ in range(20)), return_exceptions=True)
        assert len(ran) == 1
        assert sum(isinstance(one, ActionInterrupted) for one in results) == 19
        with pytest.raises(ClientError, match="another action"):
            await gate.permit(READ, {"n": 2}, session_id="once", action_id="the-one")
    assert len(await asyncio.to_thread(select_session, installation, OUTCOMES, "once")) == 1


def test_threads_share_a_client_and_each_call_gets_its_own_verdict(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    options = ClientOptions(topic_prefix=installation.prefix, deadline_s=PATIENCE_S)
    with GateClient(installation.bootstrap_servers, neutral_policy.AGENT, options) as gate:

        @gate.guard(READ)
        def double(number: int) -> int:
            return 2 * number

        def call(number: int) -> tuple[int, int]:
            with in_session(f"thread-{number}"):
                answer = double(number)
            verdict = gate.propose(READ, {"number": number}, session_id=f"thread-{number}")
            return answer, verdict.record["session"]["before"]["aggregateActionCount"]

        with ThreadPoolExecutor(16) as threads:
            assert list(threads.map(call, range(48))) == [(2 * number, 1) for number in range(48)]


async def test_without_a_decision_in_time_nothing_runs_and_a_late_one_allows_nothing(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    installation = await asyncio.to_thread(make_small_installation, kafka, tmp_path, prefix.rstrip("."))
    ran = []
    async with client_of(installation, deadline_s=1.0) as gate:

        async def call() -> None:
            async with gate.action(READ, {}, session_id="late", action_id="late"):
                ran.append(1)

        while True:  # a busy broker may take the first second to confirm the input
            with pytest.raises(ActionNotDecided) as error:
                await call()
            assert error.value.may_still_come
            if error.value.location is not None:
                break
        workers = run_worker(installation)
        await asyncio.to_thread(next, workers)
        try:
            with pytest.raises(ActionDenied, match="deadline_elapsed"):
                await _decide(call)
        finally:
            await asyncio.to_thread(lambda: next(workers, None))
    assert not ran


async def _decide(call: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(ActionNotDecided):
                await call()


async def test_a_broker_without_the_topics_is_named_with_what_makes_them(kafka: str) -> None:
    """Mend 22.21: in time, not after aiokafka's 40 seconds."""
    options = ClientOptions(topic_prefix="no-such-prefix.", connect_timeout_s=3)
    with pytest.raises(
        BrokerUnreachable, match=r"has no topic no-such-prefix\.gate\.actions\.proposed.*init"
    ):
        await AsyncGateClient(kafka, "agent", options).start()


PROGRAM = "tests.kafka.guarded_program"
STEPS = (
    "before_publish",
    "after_publish",
    "before_verdict",
    "before_start",
    "in_tool",
    "before_outcome",
    "after_outcome",
)


KILLS = int(os.environ.get("SLUICE_KILLS", "1"))
"""At each step; `SLUICE_KILLS=50 pytest tests/kafka/test_client.py -k killed` is in docs/faults.md."""


@pytest.mark.parametrize("time", range(KILLS))
@pytest.mark.parametrize("step", STEPS)
def test_a_process_killed_at_any_step_runs_no_tool_twice_and_reports_once(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path, step: str, time: int
) -> None:
    del time
    session, ran = f"killed-{uuid.uuid4().hex}", tmp_path / "ran"
    ran.touch()

    def run(kill_at: str) -> int:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                PROGRAM,
                installation.bootstrap_servers,
                installation.prefix,
                session,
                tmp_path,
                kill_at,
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
            cwd=ROOT,
        )
        assert done.returncode in (0, 3, -9), done.stderr
        return done.returncode

    assert run(step) == -9
    again = run("nowhere")
    assert again == (0 if step in STEPS[:4] else 3), "3: the tool was started before, and is not run again"
    assert ran.read_text() == "ran\n"
    assert len(select_session(installation, OUTCOMES, session)) == 1
