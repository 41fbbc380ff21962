"""The parts that need a broker: the worker's own figures, each beside a peer of the same run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from load.bench.fixtures import bench_env
from load.bench.fixtures.bench_env import Round
from load.bench.gates import action_pipeline, agent_signatures, sealing
from load.bench.measurement import Measurement, judge, none, report, require_at_least, require_at_most
from load.bench.workers import (
    bystanders,
    client_latency,
    freezing,
    gateway_latency,
    latency,
    throughput,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from load.bench.measurement import Extent
    from load.bench.workers.latency import Latency

COST_EVENTS = 40_000
FEW_SESSIONS, MANY_SESSIONS = 1_000, 100_000
COST_FEW, COST_MANY = 200, 200_000
SIZES_EVENTS = 4_000
DURABLE = 0.5
UNDISTURBED = 1.25
"""A p99 moves by as much between two runs of the same."""
LARGE_SESSION_RATIO = 1.2
POLLED = 1.5


@dataclass(frozen=True, slots=True)
class Bench:
    """Where the rounds take place, and how much each measures."""

    bootstrap: str
    work: Path
    extent: Extent

    def round(self, name: str) -> Round:
        """A new round, with topics that nobody has."""
        return Round(self.bootstrap, f"bench-{name}-{time.time_ns() // 10**6}", self.work)

    @property
    def rounds(self) -> range:
        """The rounds' numbers."""
        return range(self.extent.rounds)


async def throughputs(bench: Bench) -> list[Measurement]:
    """The worker on a preloaded topic, against the bare loop, and against loop and pure pipeline together."""
    count = bench.extent.scale(throughput.EVENTS)
    rates, bares, pures = [], [], []
    for number in bench.rounds:
        round_ = bench.round("throughput")
        rate, sizes = await throughput.worker_rate(round_, count)
        rates.append(rate)
        bares.append(await throughput.bare_rate(round_, sizes, count))
        pures.append(action_pipeline.one_round(bench.extent, number)[action_pipeline.ALL])
    bounds = [1 / (1 / bare + 1 / pure) for bare, pure in zip(bares, pures, strict=True)]
    ratios = [rate / bare for rate, bare in zip(rates, bares, strict=True)]
    durable = [rate / bound for rate, bound in zip(rates, bounds, strict=True)]
    return [
        report("bare loop", bares, "events/s", "yardstick"),
        report("pure pipeline", pures, "events/s", "yardstick"),
        report("one after the other", bounds, "events/s", "yardstick"),
        report("worker, durable in to committed verdict", rates, "events/s", "see the ratios"),
        require_at_least("worker / bare loop", ratios, 0.1),
        require_at_least("worker / bare loop, the aim", ratios, 0.15),
        require_at_least("worker / one after the other", durable, DURABLE),
    ]


async def measure_unlikened(bench: Bench) -> list[Measurement]:
    """Actions that are compared with nothing, beside some that are, and beside as many that are not."""
    every = [
        await bystanders.actions_beside_compared(bench.round("unlikened"), number) for number in bench.rounds
    ]
    who = f"others at {bystanders.RATE}/s"
    return [
        *latency.compare_beside([beside for beside, _ in every], who, "compared", UNDISTURBED),
        report("share of those beside them that were compared", [share for _, share in every], "share"),
    ]


async def latencies(bench: Bench) -> list[Measurement]:
    """At fixed rates, from before the send to the committed output's arrival."""
    _, sizes = await throughput.worker_rate(bench.round("sizes"), SIZES_EVENTS, 500)
    workers, bares = [], []
    for number in bench.rounds:
        workers.append(await latency.worker_latencies(bench.round("latency"), number))
        bares.append(await latency.bare_latencies(bench.round("latency"), sizes, number))
    return [measurement for rate in latency.RATES for measurement in _latency_at(rate, workers, bares)]


def _latency_at(
    rate: int, workers: Sequence[Mapping[int, Latency]], bares: Sequence[Mapping[int, Latency]]
) -> list[Measurement]:
    ours, bare = [worker[rate] for worker in workers], [latencies[rate] for latencies in bares]
    p50s = [a.p50 / b.p50 for a, b in zip(ours, bare, strict=True)]
    p99s = [a.p99 / b.p99 for a, b in zip(ours, bare, strict=True)]
    return [
        report(
            f"bare loop p50 at {rate}/s, 10 ms linger", [measured.p50 for measured in bare], "ms", "yardstick"
        ),
        report(
            f"bare loop p99 at {rate}/s, 10 ms linger", [measured.p99 for measured in bare], "ms", "yardstick"
        ),
        report(f"worker p50 at {rate}/s", [measured.p50 for measured in ours], "ms", "see the ratio"),
        report(f"worker p99 at {rate}/s", [measured.p99 for measured in ours], "ms", "see the ratio"),
        report(f"worker p50 / bare loop p50 at {rate}/s", p50s, "", "see p99"),
        require_at_most(f"worker p99 / bare loop p99 at {rate}/s", p99s, 3),
        none(
            f"missing outputs at {rate}/s", [float(measured.missing) for measured in (*ours, *bare)], "events"
        ),
    ]


async def measure_freezing(bench: Bench) -> list[Measurement]:
    """From a freeze of everything to what still goes on."""
    every = [await freezing.measure_stopping(bench.round("freezing"), number) for number in bench.rounds]
    return freezing.compare_stopping(every)


async def large(bench: Bench) -> list[Measurement]:
    """The other sessions beside one that is as large as may be, and beside a small one, in one worker."""
    every = [
        await bystanders.actions_with_large_session(bench.round("large"), number) for number in bench.rounds
    ]
    pairs = [beside for beside, _ in every]
    ratios = [beside.more.p50 / beside.little.p50 for beside in pairs]
    missing = [float(beside.little.missing + beside.more.missing) for beside in pairs]
    rate = f"{bystanders.BYSTANDER_RATE}/s"
    return [
        report(
            "one write of the large session",
            [float(size) for _, size in every],
            "bytes",
        ),
        report(
            f"others' p50 at {rate}, a small one", [beside.little.p50 for beside in pairs], "ms", "yardstick"
        ),
        report(f"others' p50 at {rate}, a large one", [beside.more.p50 for beside in pairs], "ms"),
        report(
            f"others' p99 at {rate}, a small one", [beside.little.p99 for beside in pairs], "ms", "yardstick"
        ),
        report(f"others' p99 at {rate}, a large one", [beside.more.p99 for beside in pairs], "ms"),
        require_at_most("others' p50, large / small", ratios, LARGE_SESSION_RATIO),
        none("missing verdicts", missing, "actions"),
    ]


async def memories(bench: Bench) -> list[Measurement]:
    """What a session keeps resident."""
    few, many = bench.extent.scale(FEW_SESSIONS), bench.extent.scale(MANY_SESSIONS)
    small = [await bench_env.resident_kb(bench.round("memory"), few) for _ in bench.rounds]
    large = [await bench_env.resident_kb(bench.round("memory"), many) for _ in bench.rounds]
    each = [(b - a) / (many - few) for a, b in zip(small, large, strict=True)]
    return [
        report(f"resident, {few} sessions", list(map(float, small)), "KiB", "yardstick"),
        report(f"resident, {many} sessions", list(map(float, large)), "KiB", "see below"),
        require_at_most("memory a session", each, 3, "KiB"),
    ]


async def costs(bench: Bench) -> list[Measurement]:
    """What an event costs beside few and beside many sessions."""
    count, few, many = (bench.extent.scale(number) for number in (COST_EVENTS, COST_FEW, COST_MANY))
    with_few = [await bench_env.cpu_per_event_us(bench.round("cost"), few, few, count) for _ in bench.rounds]
    with_many = [
        await bench_env.cpu_per_event_us(bench.round("cost"), many, many, count) for _ in bench.rounds
    ]
    ratios = [b / a for a, b in zip(with_few, with_many, strict=True)]
    return [
        report(f"CPU per event, {few} sessions", with_few, "us", "yardstick"),
        report(f"CPU per event, {many} sessions", with_many, "us", "see the ratio"),
        require_at_most("cost per event, many sessions / few", ratios, 1.3),
    ]


async def restarts(bench: Bench) -> list[Measurement]:
    """A worker's start with many sessions, against a bare read of their changelog."""
    many = bench.extent.scale(COST_MANY)
    rounds = [await bench_env.restart_s(bench.round("restart"), many) for _ in bench.rounds]
    return [
        report("bare read of the changelog", [read for _, read in rounds], "s", "yardstick"),
        report(f"start to first verdict, {many} sessions", [s for s, _ in rounds], "s", "see below"),
        require_at_most("restart / bare read", [started / read for started, read in rounds], 3),
    ]


async def measure_signed(bench: Bench) -> list[Measurement]:
    """What a worker's CPU does for an action that its agent signed, and for one of an agent that does not."""
    count = bench.extent.scale(agent_signatures.WORKER_EVENTS)
    rounds = [await agent_signatures.measure_worker(bench.round("signed"), count) for _ in bench.rounds]
    return judge(rounds, agent_signatures.WORKER)


async def measure_sealed(bench: Bench) -> list[Measurement]:
    """What a worker's CPU does for an action with a sealed value, and for one with it plain."""
    count = bench.extent.scale(sealing.WORKER_EVENTS)
    rounds = [await sealing.measure_worker(bench.round("sealed"), count) for _ in bench.rounds]
    return judge(rounds, sealing.WORKER)


async def clients(bench: Bench) -> list[Measurement]:
    """The client's calls against an aiokafka loop of the same actions."""
    _, sizes = await throughput.worker_rate(bench.round("sizes"), SIZES_EVENTS, 500)
    ours, bare = [], []
    for number in bench.rounds:
        ours.append(await client_latency.client_latency(bench.round("client"), number))
        bare.append(await client_latency.bare_latency(bench.round("client"), sizes, number))
    at = f"at {client_latency.RATE}/s"
    return [
        report(
            f"bare produce, loop, consume p50 {at}", [measured.p50 for measured in bare], "ms", "yardstick"
        ),
        report(
            f"bare produce, loop, consume p99 {at}", [measured.p99 for measured in bare], "ms", "yardstick"
        ),
        report(f"client, propose to verdict p50 {at}", [measured.p50 for measured in ours], "ms"),
        report(f"client, propose to verdict p99 {at}", [measured.p99 for measured in ours], "ms"),
        require_at_most(
            f"client p50 / bare p50 {at}", [a.p50 / b.p50 for a, b in zip(ours, bare, strict=True)], 1.5
        ),
        require_at_most(
            f"client p99 / bare p99 {at}", [a.p99 / b.p99 for a, b in zip(ours, bare, strict=True)], 3
        ),
    ]


async def gateways(bench: Bench) -> list[Measurement]:
    """The gateway's route with a worker, with the bare loop in its place, and with many long polls."""
    _, sizes = await throughput.worker_rate(bench.round("sizes"), SIZES_EVENTS, 500)
    ours, bare = [], []
    for number in bench.rounds:
        worker_latency, template = await gateway_latency.worker_latency(bench.round("gateway"), number)
        ours.append(worker_latency)
        bare.append(await gateway_latency.bare_latency(bench.round("gateway-bare"), sizes, template, number))
    count = bench.extent.scale(gateway_latency.POLLS)
    polling = [
        await gateway_latency.measure_polling_kb(bench.round("polling"), count, number) / 1024
        for number in bench.rounds
    ]
    at = f"at {gateway_latency.RATE}/s"
    p50s = [a.p50 / b.p50 for a, b in zip(ours, bare, strict=True)]
    p99s = [a.p99 / b.p99 for a, b in zip(ours, bare, strict=True)]
    return [
        report(
            f"route, bare loop behind it, p50 {at}", [measured.p50 for measured in bare], "ms", "yardstick"
        ),
        report(
            f"route, bare loop behind it, p99 {at}", [measured.p99 for measured in bare], "ms", "yardstick"
        ),
        report(f"route, worker behind it, p50 {at}", [measured.p50 for measured in ours], "ms"),
        report(f"route, worker behind it, p99 {at}", [measured.p99 for measured in ours], "ms"),
        require_at_most(f"route p50, worker / loop {at}", p50s, 1.5),
        require_at_most(f"route p99, worker / loop {at}", p99s, 3),
        require_at_most(f"a gateway with {count} long polls", polling, 300, "MiB"),
    ]


async def measure_polled(bench: Bench) -> list[Measurement]:
    """Others' requests at a gateway beside connections that poll advisories without a pause."""
    count = bench.extent.scale(gateway_latency.POLLED_VERDICTS)
    every = [
        await gateway_latency.measure_beside_pollers(bench.round("polled"), count, number)
        for number in bench.rounds
    ]
    who = f"beside {gateway_latency.POLLERS} pollers"
    return [
        report("others' p50, alone", [alone.p50 for alone, _ in every], "ms", "yardstick"),
        report(f"others' p50, {who}", [beside.p50 for _, beside in every], "ms"),
        require_at_most(f"others' p50, {who} / alone", [b.p50 / a.p50 for a, b in every], POLLED),
    ]
