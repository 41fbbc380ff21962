"""Attack: calls of guarded tools that end up in another's session, or run although they were cancelled.

One client is used by tasks, threads and executors at once, each with sessions of its own, and calls are
cancelled at many moments between being proposed and being reported. The worker and the broker are real; what
ran is compared with what the ledger has.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from load.attacks.attempt import Attempt
from load.installations import neutral_policy
from load.installations.installation import records_of
from load.installations.worker_process import run_worker
from sluice.client import AsyncGateClient, ClientError, ClientOptions, GateClient, in_session
from sluice_topics.catalog import OUTCOMES, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from load.attacks.attempt import Extent
    from load.installations.installation import TestInstallation

SIZES: Mapping[Extent, int] = {"short": 24, "full": 160}
"""Sessions at once, and cancelled calls."""
PATIENCE_S = 60.0
TOOL = neutral_policy.READ_TOOL


def run_on(extent: Extent, bootstrap_servers: str) -> Iterator[Attempt]:
    """Takes some seconds."""
    with run_worker(bootstrap_servers, "calls") as installation:
        yield from asyncio.run(_run_in_tasks(installation, SIZES[extent]))
        yield from _run_in_threads(installation, SIZES[extent])
        yield from asyncio.run(_cancel_calls(installation, SIZES[extent]))


def _options(installation: TestInstallation) -> ClientOptions:
    return ClientOptions(topic_prefix=installation.prefix, deadline_s=PATIENCE_S)


async def _read_records(installation: TestInstallation, topic: str, prefix: str) -> list[dict[str, Any]]:
    """The topic's records of sessions that begin so."""
    every = [json.loads(record.value or b"null") for record in await records_of(installation, topic)]
    return [record for record in every if record["session_id"].startswith(prefix)]


async def _sessions(installation: TestInstallation, prefix: str) -> dict[str, list[str]]:
    """By session, the words that its actions carried: each is the name of the session that it is of."""
    actions: dict[str, list[str]] = {}
    for record in await _read_records(installation, VERDICTS, prefix):
        actions.setdefault(record["session_id"], []).append(record["action_id"])
    return actions


def _apart(tried: str, ran: list[tuple[str, str]], wanted: int, *, harmless: bool = False) -> Attempt:
    """Whether each call was judged in the session that it was made in."""
    strays = [call for call in ran if call[0] != call[1]]
    return Attempt(
        tried, not strays and len(ran) == wanted, f"{len(ran)} of {wanted} ran, strays {strays[:3]}", harmless
    )


async def _run_in_tasks(installation: TestInstallation, size: int) -> list[Attempt]:
    """Sessions of concurrent tasks, one within another, and of what they start."""
    ran: list[tuple[str, str]] = []
    async with AsyncGateClient(
        installation.bootstrap_servers, neutral_policy.AGENT, _options(installation)
    ) as gate:

        async def call(own: str, **more: Any) -> None:
            async with gate.action(TOOL, {"own": own}, rows_affected=1, **more) as permit:
                ran.append((own, permit.session_id))

        async def run_nested(number: int) -> None:
            outer, inner = f"tasks-{number}-outer", f"tasks-{number}-inner"
            with in_session(outer):
                child = asyncio.create_task(call(outer))
                with in_session(inner):
                    await asyncio.gather(call(inner), call(inner))
                    with suppress(ZeroDivisionError), in_session(f"tasks-{number}-broken"):
                        raise ZeroDivisionError
                    await call(inner)
                await asyncio.gather(child, call(outer))

        await asyncio.gather(*map(run_nested, range(size)))
        apart = _apart("tasks with nested sessions, at once", ran, 5 * size)
        lone = await _call_without_session(lambda: call("nobody"))
    ledger = await _sessions(installation, "tasks-")
    counts = Counter(map(len, ledger.values()))
    return [
        apart,
        lone,
        Attempt("the ledger has them so", counts == {2: size, 3: size}, str(counts), harmless=True),
    ]


async def _call_without_session(call: Any) -> Attempt:
    try:
        await call()
    except ClientError as error:
        return Attempt("a call after the blocks, in no session", held=True, answer=str(error))
    return Attempt("a call after the blocks, in no session", held=False, answer="it ran")


def _run_in_threads(installation: TestInstallation, size: int) -> Iterator[Attempt]:
    """Jobs of few threads, which are used again; threads started within a session have none."""
    ran: list[tuple[str, str]] = []
    lost: list[str] = []
    with GateClient(installation.bootstrap_servers, neutral_policy.AGENT, _options(installation)) as gate:

        def call(own: str) -> None:
            with gate.action(TOOL, {"own": own}, rows_affected=1) as permit:
                ran.append((own, permit.session_id))

        def job(number: int) -> None:
            with in_session(f"threads-{number}"):
                call(f"threads-{number}")

        def bare(number: int) -> None:
            try:
                call(f"bare-{number}")
            except ClientError:
                lost.append(f"bare-{number}")

        with ThreadPoolExecutor(4) as pool, in_session("threads-around"):
            jobs = [pool.submit(job if number % 2 else bare, number) for number in range(size)]
            call("threads-around")
            for future in jobs:
                future.result()
            started = Thread(target=bare, args=(size,))
            started.start()
            started.join()
    yield _apart("jobs in threads that are used again", ran, size // 2 + 1)
    yield Attempt(
        "threads without a session of their own", len(lost) == size // 2 + 1, f"{len(lost)} had none"
    )


async def _cancel_calls(installation: TestInstallation, size: int) -> list[Attempt]:
    """Calls that are cancelled after so many steps of the loop, or so many milliseconds."""
    async with AsyncGateClient(
        installation.bootstrap_servers, neutral_policy.AGENT, _options(installation)
    ) as gate:
        before, within, after = await _cancel_at(gate, size)
        await gate.propose(TOOL, {}, session_id="cancelled-last")
    late = [call for call in (*before, *within, *after) if call.ran_late]
    reported = {record["action_id"] for record in await _read_records(installation, OUTCOMES, "cancelled-")}
    silent = [call.action_id for call in (*within, *after) if call.action_id not in reported]
    false = [call.action_id for call in before if call.action_id in reported]
    moments = f"{len(before)} before they ran, {len(within)} while, {len(after)} after"
    return [
        Attempt("a tool that runs although its call was cancelled", not late, f"{len(late)}: {moments}"),
        Attempt(
            "a tool that ran, and whose outcome is not reported", not silent, f"{len(silent)}: {moments}"
        ),
        Attempt("an outcome of a tool that did not run", not false, f"{len(false)}: {moments}"),
        Attempt(
            "calls are cancelled at every stage", bool(before and within and after), moments, harmless=True
        ),
    ]


class _Call:
    """One guarded call, and when it was cancelled."""

    def __init__(self, number: int) -> None:
        self.action_id = f"call-{number}"
        self.began, self.ended = asyncio.Event(), asyncio.Event()
        self.gone = self.ran_late = False

    async def work(self) -> None:
        """What the tool does; it takes some steps."""
        self.began.set()
        self.ran_late = self.gone
        for _ in range(5):
            await asyncio.sleep(0.002)
        self.ended.set()


async def _cancel_at(gate: AsyncGateClient, size: int) -> tuple[list[_Call], list[_Call], list[_Call]]:
    before: list[_Call] = []
    within: list[_Call] = []
    after: list[_Call] = []
    for number in range(size):
        call = _Call(number)
        guarded = gate.guard(
            TOOL, session_id=f"cancelled-{number}", rows_affected=3, action_id=call.action_id
        )
        running = asyncio.ensure_future(guarded(call.work)())
        await _wait_for_stage(call, number, running)
        stage = after if call.ended.is_set() else within if call.began.is_set() else before
        if running.cancel():
            call.gone = True
            stage.append(call)
        if number % 2:  # whoever cancels once may cancel again, while the outcome is reported
            await asyncio.sleep(0)
            running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return before, within, after


async def _wait_for_stage(call: _Call, number: int, running: asyncio.Future[Any]) -> None:
    """Return at a moment before the tool runs, while it runs, or after it, while the outcome is reported."""
    stages = (None, call.began, call.ended)
    stage = stages[number % len(stages)]
    if stage is None:
        await asyncio.wait([running], timeout=0.0005 * (number % 25))
        return
    reached = asyncio.ensure_future(stage.wait())
    await asyncio.wait([running, reached], return_when=asyncio.FIRST_COMPLETED)
    reached.cancel()
