"""Mixed load for half an hour with a fault every minute: nothing is lost, and nothing grows.

One of two workers is hurt, again and again: killed, killed between produce and commit, and suspended past
its session time-out. The other is left alone, so that its memory shows what a worker takes in the long run.
Sessions, open escalations and what limits have counted live for an hour, and caches of texts fill in the
first minutes, so memory grows more and more slowly; in the end a worker takes the place of that one and
recovers its state, which shows how much of the memory is state. How long an input waits for its verdict is
read from the broker's times, minute by minute; a minute with a fault has inputs that waited for a takeover,
so it is the median that must stay as it was.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from load.inputs.publisher import Pace
from load.installations.installation import gather
from load.interruptions import kill_busy, kill_mid_commit, suspend
from load.recomputation import figures
from load.recomputation.run_findings import findings
from load.scene import open_scene, read_now_ms
from sluice_topics.catalog import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from load.installations.installation import Evidence, RunScale
    from load.recomputation.figures import RunFigure
    from load.scene import Bed, Scene

NAME = "soak"
WORKERS = 2
HURT, SPARED = 1, 0
"""Slots."""
FAULT_EVERY_S = 60.0
SAMPLE_S = 5.0
MINUTE_MS = 60_000
MIB = 1 << 20
WARM_S = 90.0
"""So long the worker that comes last decides before its memory is looked at: its caches are full then."""
GROWN = 1.25
"""By so much the last third of a run may lie above its second third: what grows without end lies above it by
more."""


async def soak(bed: Bed, scale: RunScale) -> list[RunFigure]:
    """`scale.soak_s` seconds, then until `scale.events` are published."""
    installation = await bed.installation(NAME)
    faults: Sequence[Callable[[Scene], Awaitable[None]]] = (_kill, _kill_mid_commit, _suspend)
    memory: list[tuple[float, int]] = []
    count = 0
    async with open_scene(
        installation, bed.traffic(installation, NAME, scale), Pace(scale.soak_rate), WORKERS
    ) as scene:
        began = time.monotonic()
        sampling = asyncio.create_task(_sample(scene, memory))
        try:
            while time.monotonic() < began + scale.soak_s:
                due = began + (count + 1) * min(FAULT_EVERY_S, scale.soak_s / len(faults))
                await scene.calm()
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                await faults[count % len(faults)](scene)
                count += 1
            await scene.calm()
        finally:
            sampling.cancel()
        ended_ms = read_now_ms()
        memory_restarted = await _measure_restarted(scene)
        await scene.finish(scale.events)
    evidence = await gather(installation)
    required = ("kills_in_flight", "suspended", "rolled_back", "moved")
    return [
        figures.require_at_least("faults", count, len(faults), "faults"),
        *_describe_memory(memory, memory_restarted),
        *_describe_latency(evidence, ended_ms),
        *await findings(scene.fleet.tally, evidence, required),
    ]


async def _kill(scene: Scene) -> None:
    await kill_busy(scene, HURT)


async def _kill_mid_commit(scene: Scene) -> None:
    await kill_mid_commit(scene, HURT)


async def _suspend(scene: Scene) -> None:
    await suspend(scene.fleet, HURT)


async def _sample(scene: Scene, memory: list[tuple[float, int]]) -> None:
    """Note, again and again, the minutes since the start and the bytes that the spared worker holds."""
    began = time.monotonic()
    while True:
        resident = scene.fleet.workers[SPARED].read_resident()
        memory.append(((time.monotonic() - began) / 60, resident))
        await asyncio.sleep(SAMPLE_S)


async def _measure_restarted(scene: Scene) -> int:
    """The bytes of a worker in place of the spared one, with the same state."""
    await scene.fleet.remove(SPARED)
    scene.fleet.spawn(SPARED)
    await scene.wait_until(lambda: bool(scene.fleet.workers[SPARED].partitions()), "the last worker decides")
    await asyncio.sleep(WARM_S)
    return scene.fleet.workers[SPARED].read_resident()


def _describe_memory(memory: Sequence[tuple[float, int]], restarted: int) -> list[RunFigure]:
    third = len(memory) // 3
    second = statistics.mean(size for _, size in memory[third : 2 * third])
    last = statistics.mean(size for _, size in memory[2 * third :])
    minutes, sizes = zip(*memory[third:], strict=True)
    return [
        figures.report("memory_in_the_end", round(sizes[-1] / MIB, 1), "MiB"),
        figures.report("memory_restarted", round(restarted / MIB, 1), "MiB"),
        figures.report("memory_slope", round(_fit_slope(minutes, sizes) / MIB, 3), "MiB a minute"),
        figures.require_at_most("memory_last_by_second_third", round(last / second, 3), GROWN, "ratio"),
    ]


def _describe_latency(evidence: Evidence, ended_ms: int) -> list[RunFigure]:
    """From the broker's time of an action to that of its verdict, by the action's minute. The last
    one is no whole minute, and begins with a fault."""
    verdicts = evidence.installation.real(VERDICTS)
    at = {(stored.topic, stored.partition, stored.offset): stored.timestamp_ms for stored in evidence.inputs}
    begin = min(at.values())
    waits: dict[int, list[int]] = defaultdict(list)
    for record in evidence.ledger:
        if record.topic != verdicts or record.value is None:
            continue
        named = json.loads(record.value).get("input")
        if named is None:
            continue
        asked = at.get((evidence.installation.real(named["topic"]), named["partition"], named["offset"]))
        if asked is not None:
            waits[(asked - begin) // MINUTE_MS].append(record.timestamp_ms - asked)
    whole = (ended_ms - begin) // MINUTE_MS
    medians = [(minute, statistics.median(some)) for minute, some in sorted(waits.items()) if minute < whole]
    third = max(1, len(medians) // 3)
    second = statistics.mean(wait for _, wait in medians[third : 2 * third] or medians)
    last = statistics.mean(wait for _, wait in medians[-third:])
    every = [wait for some in waits.values() for wait in some]
    return [
        figures.report("verdicts_timed", len(every), "verdicts"),
        figures.report("latency_median", statistics.median(every), "ms"),
        figures.report("latency_p99", round(float(np.percentile(every, 99)), 1), "ms"),
        figures.report("latency_slope", round(_fit_slope(*zip(*medians, strict=True)), 3), "ms a minute"),
        figures.require_at_most("latency_last_by_second_third", round(last / second, 3), GROWN, "ratio"),
    ]


def _fit_slope(minutes: Sequence[float], values: Sequence[float]) -> float:
    """Of the line with the least squares; 0 where there is one minute."""
    return float(np.polyfit(minutes, values, 1)[0]) if len(set(minutes)) > 1 else 0.0
