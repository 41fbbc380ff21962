"""The memory gate on fuzzed texts: what a KB costs in the worst of them, by their size, and as they grow.

The texts are the panel's, mutated along the detectors' own marks (memory_fuzz.json): encodings, quotation,
spacing, invisible characters, look-alikes, the words of frames and of attacks. The seed is fixed; each is
measured once, through the whole gate, by the thread's CPU time; the rounds share them. The worst of each size
are measured again, and with eight times as much of the same: a form that is read again from each of its
places would show there.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from load.bench import measurement
from load.bench.given import bench_policy
from load.bench.given.actions import at
from load.bench.given.memory_writes import arrivals, rows_of
from load.bench.given.mutation import Mutation, marks_in
from load.bench.given.pure import Pipeline
from load.bench.measurement import Measurement, at_most, in_fresh_process, reported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from load.bench.measurement import Extent

SEED = 2003
FUZZED = 10_000
LONGEST = 65_536
_MUTATED = 4096
_DEPTH = 8
_SIZES = (*(16, 64, 256, 512, 1024) * 6, *(2048, 4096) * 4, 8192, 16_384, LONGEST)
"""Few long ones: what a KB costs does not need many."""
CLASSES = (1, 4, 16, 256)
"""KB of UTF-8, up to and with; a text of less than one counts as one."""
KB = 1024
WORST = 4
LONGER = 8
GROWTH = 1.5
"""A KB may cost so much more in the largest texts than in those of 1 KB."""
SHOWN = 40


@dataclass(slots=True)
class Times:
    """Microseconds a KB: percentiles, the highest by size ("1 KB"), the worst text's beginning.

    `growth`: of the worst texts, how many times more eight times as much text costs, over eight.
    """

    p50: float
    p99: float
    highest: dict[str, float]
    worst: str
    growth: float
    grown: str


def fuzzed(count: int, seed: int = SEED) -> Iterator[str]:
    """`count` texts, a third of each sort."""
    chance = random.Random(seed)
    marks = marks_in(Path(__file__).with_suffix(".json"))["marks"]
    rows = rows_of("mixed")
    mutation = Mutation(chance, marks, _SIZES, longest=_MUTATED, depth=_DEPTH)
    sorts: tuple[Callable[[], str], ...] = (
        lambda: mutation.mutated(chance.choice(rows)),
        mutation.repeated,
        lambda: mutation.nested(chance.choice(rows)),
    )
    for number in range(count):
        yield sorts[number % len(sorts)]()[:LONGEST]


def measure(count: int, number: int) -> Times:
    """One round, in a fresh process."""
    gate = TimedGate()
    texts = list(fuzzed(count, SEED + number))
    measurement.settle()
    per_kb = [gate.us(one) / kilobytes(one) for one in texts]
    by_class = _by_class(texts, per_kb)
    worst = max(zip(per_kb, texts, strict=True))[1]
    growths = [(gate.growth(text), text) for some in by_class.values() for _, text in some[:WORST]]
    growth, grown = max(growths)
    highest = {name: some[0][0] for name, some in by_class.items() if some}
    return Times(at(per_kb, 0.5), at(per_kb, 0.99), highest, worst[:SHOWN], growth, grown[:SHOWN])


def kilobytes(text: str) -> float:
    """Of UTF-8, at least one: what a write costs at all is no matter of its length."""
    return max(1.0, len(text.encode()) / KB)


def _by_class(texts: Sequence[str], per_kb: Sequence[float]) -> dict[str, list[tuple[float, str]]]:
    """Cost and text, the worst of each class first."""
    found: dict[str, list[tuple[float, str]]] = {f"{size} KB": [] for size in CLASSES}
    for cost, text in sorted(zip(per_kb, texts, strict=True), reverse=True):
        name = next(f"{size} KB" for size in CLASSES if kilobytes(text) <= size)
        found[name].append((cost, text))
    return found


class TimedGate:
    """The whole gate, a session for each text."""

    def __init__(self) -> None:
        self._pipeline = Pipeline(bench_policy.point())
        self._taken = 0

    def us(self, text: str) -> float:
        """Microseconds of the thread's CPU time."""
        self._taken += 1
        inputs = arrivals([text], 1_000_000, self._taken)
        began = time.thread_time_ns()
        self._pipeline.take(inputs)
        return (time.thread_time_ns() - began) / 1e3

    def growth(self, text: str) -> float:
        """What eight times as much of a text costs, over eight times what it costs; new texts each time.

        Of a long one it is the whole beside its first eighth: what is too long is read otherwise.
        """
        if len(text) < LONGER * KB:
            short = text * max(1, KB // max(1, len(text)))
            whole = short * LONGER
        else:
            short, whole = text[: len(text) // LONGER], text
        once, more = (min(self.us(f"{one}{salt}") for salt in range(3)) for one in (short, whole))
        return more / once * len(short) / len(whole)


def figures(extent: Extent) -> list[Measurement]:
    """What a KB costs, and how that grows."""
    count = extent.of(FUZZED) // extent.rounds
    every = [in_fresh_process(measure, count, number) for number in range(extent.rounds)]
    steepest = max(every, key=lambda one: one.growth)
    sizes = [f"{size} KB" for size in CLASSES if all(f"{size} KB" in one.highest for one in every)]
    return [
        reported("fuzzed, p50", [one.p50 for one in every], "us/KB"),
        reported("fuzzed, p99", [one.p99 for one in every], "us/KB"),
        *(
            reported(f"fuzzed, up to {size}, worst", [one.highest[size] for one in every], "us/KB")
            for size in sizes
        ),
        at_most(
            f"worst KB of {sizes[-1]} / of {sizes[0]} ({every[0].worst!r})",
            [one.highest[sizes[-1]] / one.highest[sizes[0]] for one in every],
            GROWTH,
        ),
        at_most(
            f"{LONGER} times a bad text / {LONGER} times its cost, highest ({steepest.grown!r})",
            [one.growth for one in every],
            GROWTH,
        ),
    ]
