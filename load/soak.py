"""Mixed load for half an hour with a fault every minute: nothing is lost, and nothing grows.

One of two workers is hurt, again and again: killed, killed between produce and commit, and suspended past
its session time-out. The other is left alone, so that its memory shows what a worker takes in the long run:
at each fault it takes over all partitions and gives half of them away again. Sessions, open escalations and
what limits have counted live for an hour, and caches of texts fill in the first minutes, so memory grows all
the time, more and more slowly. In the end workers take the place of that one: one that recovers half of the
partitions, and one that recovers all of them, as it did at each fault. What it holds beyond the second is no
state.

How long an input waits for its verdict is read from the broker's times, minute by minute; a minute with a
fault has inputs that waited for a takeover, so it is the median that must stay as it was. What else the
machine does meanwhile shows in a bare produced record, which is acknowledged once a second: the wait is
compared with that too.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from aiokafka import AIOKafkaProducer
from aiokafka.admin import NewTopic

from load.inputs.publisher import Pace
from load.installations.installation import gather
from load.interruptions import kill_busy, kill_mid_commit, suspend
from load.recomputation import figures
from load.recomputation.run_findings import findings
from load.scene import open_scene, read_now_ms
from sluice.adapters.kafka.kafka_read import open_admin
from sluice.adapters.kafka.kafka_topics import await_topics
from sluice.client.kafka_connection import build_client_arguments
from sluice_topics.catalog import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from load.installations.installation import Evidence, RunScale, TestInstallation
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
"""By so much the spared worker may lie above one in its place, and the wait of a run's last third above that
of its second: what grows without end lies above it by more."""
PEER_S = 1.0


async def soak(bed: Bed, scale: RunScale) -> list[RunFigure]:
    """`scale.soak_s` seconds, then until `scale.events` are published."""
    installation = await bed.installation(NAME)
    faults: Sequence[Callable[[Scene], Awaitable[None]]] = (_kill, _kill_mid_commit, _suspend)
    memory: list[tuple[float, int]] = []
    peer: list[tuple[int, float]] = []
    count = 0
    async with open_scene(
        installation, bed.traffic(installation, NAME, scale), Pace(scale.soak_rate), WORKERS
    ) as scene:
        began = time.monotonic()
        sampling = asyncio.gather(_sample(scene, memory), _produce_bare(installation, peer))
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
            await asyncio.gather(sampling, return_exceptions=True)
        ended_ms = read_now_ms()
        restarted = await _measure_restarted(scene)
        await scene.finish(scale.events)
    evidence = await gather(installation)
    required = ("kills_in_flight", "suspended", "rolled_back", "moved")
    return [
        figures.require_at_least("faults", count, len(faults), "faults"),
        *_describe_memory(memory, restarted),
        *_describe_latency(evidence, ended_ms, peer),
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


async def _produce_bare(installation: TestInstallation, peer: list[tuple[int, float]]) -> None:
    """Note, again and again, the time of day, and how long the broker took to acknowledge a bare record, in
    ms."""
    topic = f"{installation.prefix}bare"
    async with open_admin(installation.cluster) as admin:
        await admin.create_topics([NewTopic(topic, 1, 1)])
        await await_topics(admin, {topic})
    producer = AIOKafkaProducer(**build_client_arguments(installation.cluster), acks="all")
    async with producer:
        while True:
            began = time.monotonic()
            await producer.send_and_wait(topic, b"bare", partition=0)
            peer.append((read_now_ms(), 1000 * (time.monotonic() - began)))
            await asyncio.sleep(PEER_S)


async def _measure_restarted(scene: Scene) -> tuple[int, int]:
    """The bytes of a worker in place of the spared one, with the same state; and of one that has the state of
    all partitions."""
    await scene.fleet.remove(SPARED)
    scene.fleet.spawn(SPARED)
    worker = scene.fleet.workers[SPARED]
    await scene.wait_until(lambda: bool(worker.partitions()), "the last worker decides")
    await asyncio.sleep(WARM_S)
    half = worker.read_resident()
    await scene.fleet.remove(HURT)
    every = scene.installation.partitions
    await scene.wait_until(lambda: len(worker.partitions()) == every, "the last worker decides for all")
    await asyncio.sleep(WARM_S)
    whole = worker.read_resident()
    scene.fleet.spawn(HURT)
    return half, whole


def _describe_memory(memory: Sequence[tuple[float, int]], restarted: tuple[int, int]) -> list[RunFigure]:
    minutes, sizes = zip(*memory[len(memory) // 3 :], strict=True)
    grown = _compare_thirds([size for _, size in memory])
    return [
        figures.report("memory_in_the_end", round(sizes[-1] / MIB, 1), "MiB"),
        figures.report("memory_restarted_with_half", round(restarted[0] / MIB, 1), "MiB"),
        figures.report("memory_restarted_with_all", round(restarted[1] / MIB, 1), "MiB"),
        figures.require_at_most("memory_by_restarted", round(sizes[-1] / restarted[1], 3), GROWN, "ratio"),
        figures.report("memory_slope", round(_fit_slope(minutes, sizes) / MIB, 3), "MiB a minute"),
        figures.report("memory_last_by_second_third", grown, "ratio"),
    ]


def _describe_latency(
    evidence: Evidence, ended_ms: int, peer: Sequence[tuple[int, float]]
) -> list[RunFigure]:
    """From the broker's time of an action to that of its verdict, by the action's minute, and by what a bare
    record took in that minute. The last one is no whole minute, and begins with a fault."""
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
    bare: dict[int, list[float]] = defaultdict(list)
    for at_ms, took_ms in peer:
        bare[(at_ms - begin) // MINUTE_MS].append(took_ms)
    ratios = [wait / statistics.median(bare[minute]) for minute, wait in medians if bare[minute]]
    every = [wait for some in waits.values() for wait in some]
    return [
        figures.report("verdicts_timed", len(every), "verdicts"),
        figures.report("latency_median", statistics.median(every), "ms"),
        figures.report("latency_p99", round(float(np.percentile(every, 99)), 1), "ms"),
        figures.report("latency_slope", round(_fit_slope(*zip(*medians, strict=True)), 3), "ms a minute"),
        figures.report("latency_grown", _compare_thirds([wait for _, wait in medians]), "ratio"),
        figures.report("bare_median", round(statistics.median(took for _, took in peer), 2), "ms"),
        figures.report("latency_by_bare", round(statistics.median(ratios), 2), "ratio"),
        figures.require_at_most("latency_by_bare_grown", _compare_thirds(ratios), GROWN, "ratio"),
    ]


def _compare_thirds(values: Sequence[float]) -> float:
    """The mean of the last third ÷ that of the second."""
    third = max(1, len(values) // 3)
    second = statistics.mean(values[third : 2 * third] or values)
    return round(statistics.mean(values[-third:]) / second, 3)


def _fit_slope(minutes: Sequence[float], values: Sequence[float]) -> float:
    """Of the line with the least squares; 0 where there is one minute."""
    return float(np.polyfit(minutes, values, 1)[0]) if len(set(minutes)) > 1 else 0.0
