"""The memory gate without an encoder on one core, over writes of 1 KB, of 1 MB, and fuzzed ones.

A write goes the whole way of the pure core: its JSON is read, it is decided and applied to its session, and
the records are canonicalised and chained. Chunk by chunk in turn with it, by the process's CPU time: a bare
loop that parses the same bytes with json and hashes the same records' RFC 8785 form by the `rfc8785` package,
deciding nothing; and the content inspection alone.

Fuzzed are the panel's texts, mutated along the detectors' own marks (memory_fuzz.json): encodings, quotation,
spacing, invisible characters, look-alikes, the words of frames and of attacks. The seed is fixed; each is
measured once; the rounds share them. The worst of each size are measured again, and with eight times as much
of the same: a form that is read again from each of its places would show there.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter, defaultdict
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rfc8785

from load.bench import measurement
from load.bench.fixtures import bench_policy
from load.bench.fixtures.action_events import compute_percentile
from load.bench.fixtures.hard_texts import SHAPES, Mutation, long_text, marks_in
from load.bench.fixtures.memory_writes import KINDS, input_records, rows_of, texts
from load.bench.fixtures.pure import Pipeline
from load.bench.measurement import (
    CpuClock,
    judge,
    report,
    require_at_least,
    require_at_most,
    rounds_of,
    run_in_fresh_process,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from load.bench.measurement import Extent, Figures, Judge, Measurement
    from sluice.core.foundation.input_record import InputRecord

WRITES = 3_000
CHUNK = 100
SESSIONS = 500
RATES: dict[str, Judge] = {}
for _kind in KINDS:
    RATES |= {
        f"memory gate, 1 KB, {_kind}": partial(require_at_least, goal=2_000, unit="writes/s"),
        f"{_kind}: content inspection alone": partial(report, unit="writes/s"),
        f"{_kind}: bare json and rfc8785": partial(report, unit="writes/s", goal="yardstick"),
        f"{_kind}: gate / bare": partial(report, unit="ratio"),
        f"{_kind}: allowed": partial(report, unit="share"),
    }


def measure(count: int, seed: int) -> Figures:
    """One round, in a fresh process: everything is cold at its start."""
    under = bench_policy.policy()
    inspect = under.default.inspector.inspect
    pipeline, chance = Pipeline(bench_policy.point_of(under)), random.Random(seed)
    clocks: defaultdict[str, CpuClock] = defaultdict(CpuClock)
    allowed: Counter[str] = Counter()
    each = max(1, count // CHUNK)
    chunks = [(kind, list(texts(kind, CHUNK, chance))) for _ in range(each) for kind in KINDS]
    measurement.settle()
    for number, (kind, contents) in enumerate(chunks):
        clock, inputs = clocks[kind], input_records(contents, SESSIONS, number * CHUNK)
        bodies = clock.take("gate", partial(pipeline.take, inputs))
        allowed[kind] += sum(body.get("action") == "allow" for body in bodies)
        clock.take("bare", partial(_bare, inputs, bodies))
        others = list(texts(kind, CHUNK, chance))
        clock.take("inspection", partial(_each, inspect, others))
    rates_by_name: Figures = {}
    for kind in KINDS:
        rates = {who: each * CHUNK / seconds for who, seconds in clocks[kind].seconds.items()}
        rates_by_name |= {
            f"memory gate, 1 KB, {kind}": rates["gate"],
            f"{kind}: content inspection alone": rates["inspection"],
            f"{kind}: bare json and rfc8785": rates["bare"],
            f"{kind}: gate / bare": rates["gate"] / rates["bare"],
            f"{kind}: allowed": allowed[kind] / (each * CHUNK),
        }
    return rates_by_name


def _bare(inputs: Sequence[InputRecord], bodies: Sequence[dict[str, Any]]) -> None:
    for record in inputs:
        json.loads(record.value or b"")
    for body in bodies:
        sha256(rfc8785.dumps(body)).hexdigest()


def figures(extent: Extent) -> list[Measurement]:
    """Rates over harmless and over mixed texts, texts of 1 MB and repeated ones, fuzzed texts."""
    fuzzing = extent.scale(FUZZED) // extent.rounds
    return [
        *judge(rounds_of(measure, extent, WRITES, seeded=True), RATES),
        *judge(rounds_of(measure_long, extent, REPEATED, seeded=True), LONG),
        *judge([run_in_fresh_process(measure_fuzzed, fuzzing, n) for n in range(extent.rounds)], FUZZING),
    ]


REPEATED = 300
LENGTHS = {"128 characters": 128, "1 KB": 1024}
LONG: dict[str, Judge] = {
    **{f"a new text / a repeated one, {length}": partial(require_at_least, goal=50) for length in LENGTHS},
    **{f"1 MB: {shape}": partial(require_at_most, goal=300, unit="ms") for shape in SHAPES},
}


def measure_long(count: int, salt: int) -> Figures:
    """One round, in a fresh process: what a repeated text saves, then every shape of 1 MB."""
    under, chance = bench_policy.policy(), random.Random(7)
    inspect = under.default.inspector.inspect
    contents = {length: list(texts("benign", count, chance, of)) for length, of in LENGTHS.items()}
    measurement.settle()
    large: Figures = {}
    for length, new in contents.items():
        # A repeated write is another object, whose hash is computed anew.
        copies = [text.encode().decode() for text in new]
        took = [_thread_ns(partial(_each, inspect, every)) for every in (new, copies)]
        large[f"a new text / a repeated one, {length}"] = took[0] / took[1]
    gate = TimedGate()
    for shape in SHAPES:
        large[f"1 MB: {shape}"] = gate.us(long_text(shape, salt), judged=True) / 1e3
    return large


def _each(step: Callable[[str], object], contents: Sequence[str]) -> None:
    for content in contents:
        step(content)


def _thread_ns(step: Callable[[], object]) -> int:
    began = time.thread_time_ns()
    step()
    return time.thread_time_ns() - began


SEED = 2003
FUZZED = 10_000
LONGEST = 65_536
_SIZES = (*(16, 64, 256, 512, 1024) * 6, *(2048, 4096) * 4, 8192, 16_384, LONGEST)
"""Few long ones: what a KB costs does not need many."""
CLASSES = (1, 4, 16, 256)
"""KB of UTF-8, up to and with; a text of less than one counts as one."""
KB = 1024
WORST = 4
LONGER = 8
SHOWN = 40
MARKS = Path(bench_policy.__file__).with_name("memory_fuzz.json")
FUZZING: dict[str, Judge] = {
    "fuzzed, p50": partial(report, unit="us/KB"),
    "fuzzed, p99": partial(report, unit="us/KB"),
    **{f"fuzzed, up to {size} KB, worst": partial(report, unit="us/KB") for size in CLASSES},
    "worst KB of the largest size / of 1 KB": partial(require_at_most, goal=1.5),
    f"{LONGER} times a bad text / {LONGER} times its cost, highest": partial(require_at_most, goal=1.5),
}


def fuzz(count: int, seed: int = SEED) -> Iterator[str]:
    """`count` texts, a third of each sort."""
    chance, rows = random.Random(seed), rows_of("mixed")
    mutation = Mutation(chance, marks_in(MARKS)["marks"], _SIZES, longest=4096, depth=8)
    sorts: tuple[Callable[[], str], ...] = (
        lambda: mutation.mutate(chance.choice(rows)),
        mutation.repeat,
        lambda: mutation.nest(chance.choice(rows)),
    )
    for number in range(count):
        yield sorts[number % len(sorts)]()[:LONGEST]


def measure_fuzzed(count: int, number: int) -> Figures:
    """One round, in a fresh process; the worst texts' beginnings go to standard error.

    `highest` of growth: of the worst texts, how many times more eight times as much text costs, over eight.
    """
    gate, every = TimedGate(), list(fuzz(count, SEED + number))
    measurement.settle()
    costs = sorted(((gate.us(content) / kilobytes(content), content) for content in every), reverse=True)
    by_size: defaultdict[int, list[tuple[float, str]]] = defaultdict(list)
    for cost, text in costs:
        by_size[next(size for size in CLASSES if kilobytes(text) <= size)].append((cost, text))
    per_kb = [cost for cost, _ in costs]
    growth, grown = max((gate.growth(text), text) for some in by_size.values() for _, text in some[:WORST])
    print(f"worst KB: {costs[0][1][:SHOWN]!r}; grows most: {grown[:SHOWN]!r}", file=sys.stderr)
    worst = {size: by_size[size][0][0] for size in sorted(by_size)}
    return {
        "fuzzed, p50": compute_percentile(per_kb, 0.5),
        "fuzzed, p99": compute_percentile(per_kb, 0.99),
        **{f"fuzzed, up to {size} KB, worst": cost for size, cost in worst.items()},
        "worst KB of the largest size / of 1 KB": worst[max(worst)] / worst[min(worst)],
        f"{LONGER} times a bad text / {LONGER} times its cost, highest": growth,
    }


def kilobytes(text: str) -> float:
    """Of UTF-8, at least one: the fixed cost of a write does not depend on its length."""
    return max(1.0, len(text.encode()) / KB)


class TimedGate:
    """The whole gate, a session for each text."""

    def __init__(self) -> None:
        self._pipeline = Pipeline(bench_policy.point())
        self._taken = 0

    def us(self, text: str, *, judged: bool = False) -> float:
        """Microseconds of the thread's CPU time. Raises RuntimeError for a text that must be `judged` and was
        not."""
        self._taken += 1
        inputs, bodies = input_records([text], 1_000_000, self._taken), []
        took = _thread_ns(lambda: bodies.extend(self._pipeline.take(inputs)))
        if judged and "trustScore" not in bodies[0]:
            raise RuntimeError(f"{text[:SHOWN]!r} was not judged: {bodies[0]}")
        return took / 1e3

    def growth(self, text: str) -> float:
        """What eight times as much of a text costs, over eight times what it costs; new texts each time.

        Of a long one it is the whole beside its first eighth: what is too long is read otherwise.
        """
        if len(text) < LONGER * KB:
            short = text * max(1, KB // max(1, len(text)))
            whole = short * LONGER
        else:
            short, whole = text[: len(text) // LONGER], text
        once, more = (min(self.us(f"{content}{salt}") for salt in range(3)) for content in (short, whole))
        return more / once * len(short) / len(whole)
