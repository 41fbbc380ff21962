"""The pure pipeline on one core, against the libraries' part in it.

Pipeline and bare parts are measured on the same actions in the same process, chunk by chunk in turn, by the
process's CPU time. A chunk holds actions of one kind, so that each kind has its figures.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from load.bench import measurement
from load.bench.fixtures import bench_policy, yardsticks
from load.bench.fixtures.action_events import AT_MS, make_events, panel
from load.bench.fixtures.pure import Pipeline
from load.bench.fixtures.yardsticks import sort_by_kind, texts_of
from load.bench.measurement import CpuClock, judge, report, require_at_least, run_in_fresh_process
from sluice.core.foundation.input_record import InputRecord
from sluice_topics.catalog import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from load.bench.fixtures.yardsticks import Kind
    from load.bench.measurement import Extent, Figures, Judge, Measurement
    from sluice_topics.records import ProposedAction

EVENTS = 24_000
CHUNK = 256
SESSIONS = 2_000
PARTS = ("read", "rules", "parsers", "canonical", "hash")
ALL, PLAIN = "pure pipeline", "no SQL, no shell"
NAMES = {"all": ALL, "plain": PLAIN, "sql": "sql", "shell": "shell"}
"""What the figures of each kind of action are called."""
WHOLE = f"{ALL} / its bare parts"
PIPELINE: dict[str, Judge] = {
    WHOLE: partial(require_at_least, goal=0.5),
    ALL: partial(report, unit="decisions/s"),
    PLAIN: partial(require_at_least, goal=6_000, unit="decisions/s"),
    f"{PLAIN} / bare parts": partial(report, unit="ratio"),
    "sql": partial(report, unit="decisions/s"),
    "sql / bare parts": partial(report, unit="ratio"),
    "shell": partial(report, unit="decisions/s"),
    "shell / bare parts": partial(report, unit="ratio"),
    **{f"bare part: {part}": partial(report, unit="us/action", goal="yardstick") for part in PARTS},
}


class Bare:
    """The bare parts, each over a whole chunk."""

    def __init__(self) -> None:
        self._rules = yardsticks.BareRules(json.loads(bench_policy.RULES.read_bytes()))
        self._parsers = yardsticks.BareParsers()

    def take(
        self, kind: Kind, input_records: Sequence[InputRecord], bodies: Sequence[Any], clock: CpuClock
    ) -> None:
        """Measure each part on a chunk and on the records that the pipeline made of it."""
        messages: list[ProposedAction] = clock.take(
            "read", lambda: [yardsticks.read(record.value or b"") for record in input_records]
        )
        values = [self._rules.values(message) for message in messages]
        clock.take("rules", lambda: [self._rules.evaluate(values_of_rule) for values_of_rule in values])
        texts = [
            text for message in messages for text in texts_of(message.tool_name, kind, message.parameters)
        ]
        clock.take("parsers", lambda: self._parsers.parse(texts))
        written = clock.take("canonical", lambda: list(map(yardsticks.canonicalize, bodies)))
        clock.take("hash", lambda: [yardsticks.hash_record(record) for record in written])


def measure(events: int, seed: int) -> Figures:
    """One round, in a fresh process: everything is cold at its start."""
    chunks = list(_chunks(events, seed))
    pipeline, bare = Pipeline(bench_policy.point()), Bare()
    clocks: defaultdict[str, CpuClock] = defaultdict(CpuClock)
    counts: Counter[str] = Counter()
    measurement.settle()
    for kind, input_records in chunks:
        bodies = clocks[kind].take("pipeline", partial(pipeline.take, input_records))
        bare.take(kind, input_records, bodies, clocks[kind])
        counts[kind] += len(input_records)
    for own in list(counts):
        counts["all"] += counts[own]
        for what, seconds in clocks[own].seconds.items():
            clocks["all"].seconds[what] += seconds
    rates: Figures = {}
    for of, name in NAMES.items():
        seconds_of = clocks[of].seconds
        rates[name] = counts[of] / seconds_of["pipeline"]
        shares = sum(seconds_of[part] for part in PARTS) / seconds_of["pipeline"]
        rates[WHOLE if of == "all" else f"{name} / bare parts"] = shares
    for part in PARTS:
        rates[f"bare part: {part}"] = clocks["all"].seconds[part] / counts["all"] * 1e6
    return rates


def _chunks(events: int, seed: int) -> Sequence[tuple[Kind, list[InputRecord]]]:
    """Chunks of one kind each, as many of a kind as the panel has of it, in random order."""
    rows = panel()
    chunks: list[tuple[Kind, list[InputRecord]]] = []
    for kind, own in sort_by_kind(rows).items():
        messages = make_events(own, round(events * len(own) / len(rows)), SESSIONS, seed)
        chunks += [(kind, chunk) for chunk in _cut(messages)]
    random.Random(seed).shuffle(chunks)
    return chunks


def _cut(messages: Iterable[tuple[bytes, bytes]]) -> Iterator[list[InputRecord]]:
    input_records = [
        InputRecord(ACTIONS, 0, offset, AT_MS, *message) for offset, message in enumerate(messages)
    ]
    for start in range(0, len(input_records), CHUNK):
        yield input_records[start : start + CHUNK]


def one_round(extent: Extent, seed: int) -> Figures:
    """A round's figures."""
    return run_in_fresh_process(measure, extent.scale(EVENTS), seed)


def figures(extent: Extent) -> list[Measurement]:
    """The pipeline's rate and its share of the bare parts' rate."""
    return judge([one_round(extent, seed) for seed in range(extent.rounds)], PIPELINE)
