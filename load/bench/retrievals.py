"""Retrievals through a worker: what an item's decision takes, also while provenance cannot be resolved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from load.bench import retrieval_latency
from load.bench.figures import Figure, at_most, none, reported
from load.bench.latency import RATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from load.bench.latency import Latency
    from load.bench.stream import Bench

SIZES = (1, 10)
TIMES = 3
UNDISTURBED = 1.25
"""A p99 moves by as much between two runs of the same."""


async def latencies(bench: Bench) -> list[Figure]:
    """At 1 000 items a second, by the size of a request, beside the bare loop of the same round."""
    sizes = await retrieval_latency.sizes_of(bench.round("item-sizes"))
    bares: list[Latency] = []
    found: dict[int, list[Latency]] = {size: [] for size in SIZES}
    for number in bench.rounds:
        bares.append(await retrieval_latency.bare_latency(bench.round("items"), sizes, number))
        for size in SIZES:
            round_ = bench.round("items")
            found[size].append(await retrieval_latency.worker_latency(round_, size, number))
    bare_p99 = [one.p99 for one in bares]
    told = [
        reported(f"bare loop p50 at {RATE}/s, 10 ms linger", [one.p50 for one in bares], "ms", "yardstick"),
        reported(f"bare loop p99 at {RATE}/s, 10 ms linger", bare_p99, "ms", "yardstick"),
    ]
    for size, own in found.items():
        told += _against(f"{RATE} items/s, {size} a request", own, bare_p99)
    return told


def _against(name: str, own: Sequence[Latency], bare_p99: Sequence[float]) -> list[Figure]:
    ratios = [one.p99 / bare for one, bare in zip(own, bare_p99, strict=True)]
    return [
        reported(f"worker p50, {name}", [one.p50 for one in own], "ms"),
        reported(f"worker p99, {name}", [one.p99 for one in own], "ms", "see the ratio"),
        at_most(f"worker p99 / bare loop p99, {name}", ratios, TIMES),
        none(f"missing decisions, {name}", [float(one.missing) for one in own], "items"),
    ]


async def unhindered(bench: Bench) -> list[Figure]:
    """With references to a server that never answers, and without any that must be resolved."""
    alone, beside = [], []
    for number in bench.rounds:
        round_ = bench.round("recorded")
        alone.append(await retrieval_latency.beside_a_server(round_, number, stalling=False))
        round_ = bench.round("stalling")
        beside.append(await retrieval_latency.beside_a_server(round_, number, stalling=True))
    ratios = [b.p99 / a.p99 for (a, _), (b, _) in zip(alone, beside, strict=True)]
    every = [one for one, _ in (*alone, *beside)]
    return [
        reported("items p99, nothing to resolve", [one.p99 for one, _ in alone], "ms", "yardstick"),
        reported("items p99, a server that stalls", [one.p99 for one, _ in beside], "ms"),
        reported("connections that it held", [float(held) for _, held in beside], "connections"),
        at_most("items p99, stalling server / nothing to resolve", ratios, UNDISTURBED),
        none("missing decisions", [float(one.missing) for one in every], "items"),
    ]
