"""Milliseconds from before the send to the committed output's arrival at a reader, at a fixed rate."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import aiokafka

from load.bench.fixtures import action_events, bench_env
from load.bench.fixtures.bench_env import PARTITIONS, Round
from load.bench.measurement import none, report, require_at_most
from load.bench.workers.throughput import Sizes, bare_arguments
from sluice_topics.catalog import ACTIONS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from load.bench.measurement import Measurement

RATES = (10, 100, 300, 1_000)
SECONDS = 20
WARM_UP_S = 4
SESSIONS = 2_000
LINGER_MS = 10.0
ONE_IN = 20
"""Of the actions beside which others are timed, one in so many costs more."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles in ms over `count` events; `missing` never came."""

    p50: float
    p99: float
    count: int
    missing: int


class Message(NamedTuple):
    """What is sent: only what goes to the probe's input topic is timed, once for each of its `outputs`; of a
    session with none of them nothing is."""

    topic: str
    key: bytes
    value: bytes
    outputs: int = 1


class Probe:
    """Publishes at the rate and matches outputs to inputs by partition and order of arrival within a key."""

    def __init__(self, bootstrap: str, inputs: str, outputs: str) -> None:
        self._bootstrap, self._inputs, self._outputs = bootstrap, inputs, outputs
        self._sent: dict[bytes, list[float]] = {}
        self._counts: dict[bytes, int] = {}
        self.measured: list[tuple[float, float]] = []

    async def run(self, rate: int, messages: Sequence[Message]) -> None:
        """Send `rate` messages a second, then wait a little for the last outputs."""
        reader = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="latest",
            fetch_max_wait_ms=50,
        )
        await reader.start()
        reader.assign([aiokafka.TopicPartition(self._outputs, n) for n in range(PARTITIONS)])
        await reader.seek_to_end()
        reading = asyncio.create_task(self._read(reader))
        try:
            await self._send(rate, messages)
            await asyncio.sleep(3)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await reader.stop()

    def result(self, warm_up_s: float) -> Latency:
        """Percentiles without the first `warm_up_s` seconds."""
        return percentiles(self.late(warm_up_s), self.missing)

    def late(self, warm_up_s: float) -> list[tuple[float, float]]:
        """When what was sent after the first `warm_up_s` seconds was sent, and when its output came."""
        first = min((sent for sent, _ in self.measured), default=0.0)
        return [(sent, came) for sent, came in self.measured if sent > first + warm_up_s]

    @property
    def missing(self) -> int:
        """Outputs that never came."""
        return sum(map(len, self._sent.values())) - len(self.measured)

    async def _send(self, rate: int, messages: Sequence[Message]) -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=self._bootstrap, acks="all", linger_ms=0)
        await producer.start()
        pending: list[Any] = []
        try:
            start = time.perf_counter()
            for number, message in enumerate(messages):
                if (wait := start + number / rate - time.perf_counter()) > 0:
                    await asyncio.sleep(wait)
                if message.topic == self._inputs:
                    self._sent.setdefault(message.key, []).extend([time.perf_counter()] * message.outputs)
                pending.append(await producer.send(message.topic, message.value, key=message.key))
            await asyncio.gather(*pending)
        finally:
            await producer.stop()

    async def _read(self, reader: Any) -> None:
        async for record in reader:
            number = self._counts.get(record.key, 0)
            self._counts[record.key] = number + 1
            if sent := self._sent.get(record.key):
                self.measured.append((sent[number], time.perf_counter()))


@dataclass(frozen=True, slots=True)
class Beside:
    """How long the same actions take beside others that cost little, and beside others that cost more."""

    little: Latency
    more: Latency


async def measure_by_turns(
    round_: Round, rate: int, turns: int, warm_up_s: float, messages: Callable[[int, bool], Sequence[Message]]
) -> Beside:
    """In a worker that runs: `turns` beside others that cost little and as many beside others that cost more,
    without the first `warm_up_s` seconds of each; before them one turn that does not count.

    Both have the same worker and broker, and what disturbs the machine disturbs both. `messages`: of a turn's
    number, and whether the others cost more. The order is little, more, more, little, and so on.
    """
    inputs, outputs = round_.topic(ACTIONS), round_.topic(VERDICTS)
    await Probe(round_.bootstrap, inputs, outputs).run(rate, messages(2 * turns, True))
    pairs: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    missing = dict.fromkeys(pairs, 0)
    for turn in range(2 * turns):
        more = turn % 4 in (1, 2)
        probe = Probe(round_.bootstrap, inputs, outputs)
        await probe.run(rate, messages(turn, more))
        pairs[more] += probe.late(warm_up_s)
        missing[more] += probe.missing
    return Beside(*(percentiles(pairs[more], missing[more]) for more in (False, True)))


def compare_beside(every: Sequence[Beside], who: str, more: str, most: float) -> list[Measurement]:
    """The p99 beside others that cost more against the one beside others that cost little."""
    ratios = [beside.more.p99 / beside.little.p99 for beside in every]
    return [
        report(f"{who}, p50, none {more}", [beside.little.p50 for beside in every], "ms", "yardstick"),
        report(
            f"{who}, p50, one in {ONE_IN} beside them {more}", [beside.more.p50 for beside in every], "ms"
        ),
        report(f"{who}, p99, none {more}", [beside.little.p99 for beside in every], "ms", "yardstick"),
        report(
            f"{who}, p99, one in {ONE_IN} beside them {more}", [beside.more.p99 for beside in every], "ms"
        ),
        require_at_most(f"{who}, p99, beside {more} ones / without", ratios, most),
        none(
            "missing verdicts",
            [float(beside.little.missing + beside.more.missing) for beside in every],
            "actions",
        ),
    ]


async def worker_latencies(round_: Round, seed: int) -> dict[int, Latency]:
    """The worker, by rate."""
    await round_.create_topics()
    with bench_env.worker(round_) as child:
        await bench_env.wait_until_ready(round_, child)
        return await _measure(round_, round_.topic(VERDICTS), seed)


async def bare_latencies(round_: Round, sizes: Sizes, seed: int) -> dict[int, Latency]:
    """The bare loop, by rate, with a linger of 10 ms."""
    await round_.create_topics()
    name = f"{round_.name}-bare"
    await bench_env.create_plain_topics(round_.bootstrap, f"{name}-out", f"{name}-state")
    arguments = bare_arguments(round_, sizes, name, LINGER_MS)
    with bench_env.process(arguments, round_.environment(), round_.work / f"{name}.log"):
        await asyncio.sleep(3)
        return await _measure(round_, f"{name}-out", seed)


async def _measure(round_: Round, outputs: str, seed: int) -> dict[int, Latency]:
    inputs = round_.topic(ACTIONS)
    latencies = {}
    for index, rate in enumerate(RATES):
        probe = Probe(round_.bootstrap, inputs, outputs)
        events = action_events.events(rate * SECONDS, SESSIONS, seed * len(RATES) + index)
        await probe.run(rate, [Message(inputs, *event) for event in events])
        latencies[rate] = probe.result(WARM_UP_S)
    return latencies


def percentiles(measured: Sequence[tuple[float, float]], missing: int) -> Latency:
    """Of what was sent and came at these times, s. Raises RuntimeError when nothing did."""
    times = sorted((came - sent) * 1e3 for sent, came in measured)
    if not times:
        raise RuntimeError("no output came back")
    return Latency(_compute_percentile(times, 0.5), _compute_percentile(times, 0.99), len(times), missing)


def _compute_percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
