"""What a back-test takes: `sluice backtest` over the ledger that a worker has just written, beside a bare
loop that parses the same records."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

from load import ROOT
from load.bench.fixtures import bench_env, bench_policy
from load.bench.measurement import none, report, require_at_most
from load.bench.workers.throughput import SESSIONS, worker_rate
from sluice_topics.catalog import ACTIONS, ESCALATIONS, VERDICTS
from sluice_topics.json_text import parse

if TYPE_CHECKING:
    from pathlib import Path

    from load.bench.fixtures.bench_env import Round
    from load.bench.measurement import Measurement
    from load.bench.workers.stream import Bench

EVENTS = 20_000
PROCESSES = 2
HUNDRED_THOUSAND = 100_000
GOAL_S = 60.0


async def measure_backtest(bench: Bench) -> list[Measurement]:
    """The same bundle, and one whose row threshold is lower; of the whole command, its start included."""
    count = bench.extent.scale(EVENTS)
    runs = [await _measure(bench.round("backtest"), count) for _ in bench.rounds]
    by = {name: [run[name] for run in runs] for name in runs[0]}
    return [
        report("bare loop: parse the same records", by["bare"], "CPU us/decision", "yardstick"),
        report("back-test, the same bundle", by["cpu"], "CPU us/decision"),
        report("back-test / bare loop", [run["cpu"] / run["bare"] for run in runs], "ratio"),
        report("back-test, start and policy", by["start"], "s"),
        require_at_most(
            "back-test of 100 000 decisions, two processes, extrapolated", by["wall"], GOAL_S, "s"
        ),
        report("the same with a bundle that changes some", by["changing_wall"], "s"),
        report("share that it changes", by["changed"], "share"),
        none("decisions that the same bundle changes", by["wrongly"], "decisions"),
    ]


async def _measure(round_: Round, count: int) -> dict[str, float]:
    await worker_rate(round_, count, min(SESSIONS, count))
    same, other = round_.work / f"{round_.name}-same.json", round_.work / f"{round_.name}-other.json"
    document = json.loads(bench_policy.document())
    same.write_text(json.dumps(document), encoding="utf-8")
    lower = {**document, "irreversible_row_threshold": 10}
    other.write_text(json.dumps(lower), encoding="utf-8")
    bare = await _measure_parsing(round_)
    start_s, _, _ = await _run(round_, same, "--until", "1d")
    wall_s, cpu_s, unchanged = await _run(round_, same)
    changing_s, _, changed = await _run(round_, other)
    decided = unchanged["decisions"]["decided"]
    return {
        "bare": bare / decided * 1e6,
        "cpu": cpu_s / decided * 1e6,
        "start": start_s,
        "wall": start_s + (wall_s - start_s) * HUNDRED_THOUSAND / decided,
        "changing_wall": start_s + (changing_s - start_s) * HUNDRED_THOUSAND / decided,
        "changed": changed["decisions"]["changed"] / decided,
        "wrongly": float(decided - unchanged["decisions"]["unchanged"]),
    }


async def _run(round_: Round, bundle: Path, *words: str) -> tuple[float, float, dict[str, Any]]:
    """Wall-clock and CPU seconds of the command, and its report."""
    command = ["-m", "sluice", "backtest", "--bundle", str(bundle), "--processes", str(PROCESSES), "--json"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        *words,
        cwd=ROOT,
        env=round_.environment(),
        stdout=asyncio.subprocess.PIPE,
    )
    written, _ = await child.communicate()
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, cpu_s, json.loads(written)


async def _measure_parsing(round_: Round) -> float:
    """CPU seconds to parse the values of the inputs and of the ledger's records, read before."""
    topics = [round_.topic(base) for base in (ACTIONS, VERDICTS, ESCALATIONS)]
    values = [
        record.value for topic in topics for record in await bench_env.read_committed(round_.bootstrap, topic)
    ]
    began = time.process_time()
    for value in values:
        parse(value)
    return time.process_time() - began
