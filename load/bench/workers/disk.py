"""How many bytes a decided action leaves on a broker's disk, by topic and one replica, before compaction."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from load.bench.fixtures import action_events, bench_env
from load.bench.measurement import report
from load.bench.workers.throughput import SESSIONS
from sluice_topics.catalog import ACTIONS, SESSIONS_CHANGELOG, VERDICTS

if TYPE_CHECKING:
    from load.bench.fixtures.bench_env import Round
    from load.bench.measurement import Measurement
    from load.bench.workers.stream import Bench

COUNT = 20_000
SHOWN = (ACTIONS, VERDICTS, SESSIONS_CHANGELOG)


async def measure_disk(bench: Bench) -> list[Measurement]:
    """Segments' bytes of each topic, for one action. Index files are left out."""
    count = bench.extent.scale(COUNT)
    every = [await _measure_bytes(bench.round("disk"), count) for _ in bench.rounds]
    return [
        *(report(f"on disk: {topic}", [sizes[topic] / count for sizes in every], "bytes") for topic in SHOWN),
        report("on disk: all topics", [sum(sizes.values()) / count for sizes in every], "bytes"),
    ]


async def _measure_bytes(round_: Round, count: int) -> Counter[str]:
    await round_.create_topics()
    events = action_events.events(count, SESSIONS, time.time_ns() % 10**9)
    await bench_env.publish(round_.bootstrap, round_.topic(ACTIONS), events)
    with bench_env.worker(round_) as child:
        await bench_env.wait_until_ready(round_, child)
        await bench_env.wait_until_written(round_.bootstrap, round_.topic(VERDICTS), count)
    names = {real: topic.name for real, topic in round_.layout.topics().items()}
    bytes_by_topic: Counter[str] = Counter()
    for segment in round_.work.glob("broker/**/*.log"):
        real = segment.parent.name.rpartition("-")[0]
        if real in names:
            bytes_by_topic[names[real]] += segment.stat().st_size
    return bytes_by_topic
