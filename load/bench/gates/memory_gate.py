"""The memory gate without an encoder on one core, over writes of 1 KB, against libraries and a peer.

A write goes the whole way of the pure core: its JSON is read, it is decided and applied to its session, and
the records are canonicalised and chained. Chunk by chunk in turn with it, by the process's CPU time: a bare
loop that parses the same bytes with json and hashes the same records' RFC 8785 form by the `rfc8785` package,
deciding nothing; agent-os-kernel's MemoryGuard on the same texts; and the content inspection alone.
"""

from __future__ import annotations

import json
import logging
import random
import time
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import rfc8785
from agent_os.memory_guard import MemoryGuard

from load.bench import measurement
from load.bench.gates import long_writes, memory_fuzz
from load.bench.given import bench_policy
from load.bench.given.memory_writes import KINDS, arrivals, texts
from load.bench.given.pure import Pipeline
from load.bench.measurement import Measurement, at_least, reported, rounds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.core.foundation.arrival import Arrival
    from load.bench.given.memory_writes import Kind
    from load.bench.measurement import Extent

WRITES = 3_000
CHUNK = 100
SESSIONS = 500
WRITES_S = 2_000
PEER = "MemoryGuard"


@dataclass(slots=True)
class Seconds:
    """CPU seconds for `writes` writes of each that took part, and how the gate answered."""

    writes: int = 0
    gate: float = 0.0
    inspection: float = 0.0
    bare: float = 0.0
    peer: float = 0.0
    allowed: int = 0

    def rate(self, who: str) -> float:
        """Writes a second."""
        took: float = getattr(self, who)
        return self.writes / took


def measure(count: int, seed: int) -> dict[str, Seconds]:
    """One round, in a fresh process: everything is cold at its start."""
    under = bench_policy.policy()
    pipeline, guard = Pipeline(bench_policy.point_of(under)), _peer()
    chance = random.Random(seed)
    results: dict[str, Seconds] = {kind: Seconds() for kind in KINDS}
    chunks: list[tuple[Kind, list[str]]] = [
        (kind, list(texts(kind, CHUNK, chance))) for _ in range(max(1, count // CHUNK)) for kind in KINDS
    ]
    measurement.settle()
    for number, (kind, contents) in enumerate(chunks):
        into, inputs = results[kind], arrivals(contents, SESSIONS, number * CHUNK)
        into.writes += CHUNK
        with _Timed(into, "gate"):
            bodies = pipeline.take(inputs)
        into.allowed += sum(body.get("action") == "allow" for body in bodies)
        with _Timed(into, "bare"):
            _bare(inputs, bodies)
        with _Timed(into, "peer"):
            _asked(guard.validate_write, contents)
        others = list(texts(kind, CHUNK, chance))
        with _Timed(into, "inspection"):
            _inspected(under.default.inspector.inspect, others)
    return results


def _peer() -> MemoryGuard:
    """With what it blocks kept to itself."""
    logging.getLogger(MemoryGuard.__module__).setLevel(logging.CRITICAL)
    return MemoryGuard()


class _Timed:
    """Adds the CPU time of its block to a field."""

    def __init__(self, into: Seconds, who: str) -> None:
        self._into, self._who = into, who

    def __enter__(self) -> None:
        self._began = time.process_time()

    def __exit__(self, *_: object) -> None:
        took = time.process_time() - self._began
        setattr(self._into, self._who, getattr(self._into, self._who) + took)


def _bare(inputs: Sequence[Arrival], bodies: Sequence[dict[str, Any]]) -> None:
    for one in inputs:
        json.loads(one.value or b"")
    for body in bodies:
        sha256(rfc8785.dumps(body)).hexdigest()


def _asked(validate: Callable[[str, str], object], contents: Sequence[str]) -> None:
    for one in contents:
        validate(one, "user")


def _inspected(inspect: Callable[[str], object], contents: Sequence[str]) -> None:
    for one in contents:
        inspect(one)


def rounds(extent: Extent) -> list[dict[str, Seconds]]:
    """Every round's seconds, by kind of text."""
    return rounds_of(measure, extent, WRITES, seeded=True)


def figures(extent: Extent) -> list[Measurement]:
    """Rates over harmless and over mixed texts, texts of 1 MB and repeated ones, fuzzed texts."""
    every = rounds(extent)
    rates = [figure for kind in KINDS for figure in _figures(kind, [one[kind] for one in every])]
    return [*rates, *long_writes.figures(extent), *memory_fuzz.figures(extent)]


def _figures(kind: Kind, every: Sequence[Seconds]) -> list[Measurement]:
    gates = [one.rate("gate") for one in every]
    bares = [one.rate("bare") for one in every]
    return [
        at_least(f"memory gate, 1 KB, {kind}", gates, WRITES_S, "writes/s"),
        reported(f"{kind}: content inspection alone", [one.rate("inspection") for one in every], "writes/s"),
        reported(f"{kind}: bare json and rfc8785", bares, "writes/s", "yardstick"),
        reported(f"{kind}: gate / bare", [a / b for a, b in zip(gates, bares, strict=True)], "ratio"),
        reported(f"{kind}: {PEER}, looking alone", [one.rate("peer") for one in every], "writes/s"),
        reported(f"{kind}: allowed", [one.allowed / one.writes for one in every], "share"),
    ]
