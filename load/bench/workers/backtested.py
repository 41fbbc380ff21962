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
SETTLED_S, UNSETTLED_S = 0.05, 300.0
"""The round's policy is published shortly before its inputs: by the one setting before them, by the other
while they came."""
STOPPING = {
    "id": "of-the-back-test",
    "type": "assertion",
    "description": "What the candidate stops, of some four in a hundred actions.",
    "reason": "the tool gets something",
    "condition": "!(action.tool.contains('get') || action.tool.contains('Get'))",
}


async def measure_backtest(bench: Bench) -> list[Measurement]:
    """The same bundle, and one that stops some; of the whole command, its start included."""
    count = bench.extent.scale(EVENTS)
    runs = [await _measure(bench.round("backtest"), count) for _ in bench.rounds]
    by = {name: [run[name] for run in runs] for name in runs[0]}
    return [
        report("bare loop: parse the same records", by["bare"], "CPU us/decision", "yardstick"),
        report("back-test, the same bundle", by["cpu"], "CPU us/decision"),
        report("back-test / bare loop", [run["cpu"] / run["bare"] for run in runs], "ratio"),
        report("back-test, start and policy", by["start_cpu"], "CPU s"),
        require_at_most(
            "back-test of 100 000 decisions, two processes, extrapolated", by["wall"], GOAL_S, "s"
        ),
        require_at_most(
            "the same on two processors of its own: half its CPU and its start", by["own"], GOAL_S, "s"
        ),
        report("a bundle that changes some", by["changing"], "CPU us/decision"),
        report("share that it changes", by["changed"], "share"),
        report("the same bundle, where policy had just changed", by["unsettled"], "CPU us/decision"),
        none("decisions that the same bundle changes", by["wrongly"], "decisions"),
    ]


async def _measure(round_: Round, count: int) -> dict[str, float]:
    await worker_rate(round_, count, min(SESSIONS, count))
    same, other = round_.work / f"{round_.name}-same.json", round_.work / f"{round_.name}-other.json"
    document = json.loads(bench_policy.document())
    same.write_text(json.dumps(document), encoding="utf-8")
    other.write_text(json.dumps({**document, "rules": [*document["rules"], STOPPING]}), encoding="utf-8")
    bare = await _measure_parsing(round_)
    start_s, start_cpu_s, _ = await _run(round_, same, "--until", "1d")
    wall_s, cpu_s, unchanged = await _run(round_, same)
    _, changing_cpu_s, changed = await _run(round_, other)
    _, unsettled_cpu_s, _ = await _run(round_, same, max_lag_s=UNSETTLED_S)
    decided = unchanged["decisions"]["decided"]
    scale = HUNDRED_THOUSAND / decided
    return {
        "bare": bare / decided * 1e6,
        "cpu": (cpu_s - start_cpu_s) / decided * 1e6,
        "start_cpu": start_cpu_s,
        "wall": start_s + (wall_s - start_s) * scale,
        "own": start_cpu_s + (cpu_s - start_cpu_s) * scale / PROCESSES,
        "changing": (changing_cpu_s - start_cpu_s) / decided * 1e6,
        "changed": changed["decisions"]["changed"] / decided,
        "unsettled": (unsettled_cpu_s - start_cpu_s) / decided * 1e6,
        "wrongly": float(decided - unchanged["decisions"]["unchanged"]),
    }


async def _run(
    round_: Round, bundle: Path, *words: str, max_lag_s: float = SETTLED_S
) -> tuple[float, float, dict[str, Any]]:
    """Wall-clock and CPU seconds of the command, and its report. `max_lag_s`: an input that came within it
    of a change of policy is decided under both policies."""
    command = ["-m", "sluice", "backtest", "--bundle", str(bundle), "--processes", str(PROCESSES), "--json"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        *words,
        cwd=ROOT,
        env=round_.environment(SLUICE_POLICY__MAX_LAG_S=str(max_lag_s)),
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
