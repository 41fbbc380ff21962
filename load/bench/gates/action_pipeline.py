"""The pure pipeline on one core, against the libraries' part in it.

Both are measured on the same actions in the same process, chunk by chunk in turn, by the process's CPU time:
the machine's other work is not in it. A chunk holds actions of one kind, so that each kind has its figures.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.core.foundation.arrival import Arrival
from load.bench import measurement
from load.bench.given import bench_policy, yardsticks
from load.bench.given.actions import of_rows, panel
from load.bench.given.pure import Pipeline
from load.bench.given.yardsticks import by_kind, texts_of
from load.bench.measurement import Measurement, at_least, in_fresh_process, reported
from topics.catalog import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from load.bench.given.yardsticks import Kind
    from load.bench.measurement import Extent
    from topics.records import ProposedAction

EVENTS = 24_000
CHUNK = 256
SESSIONS = 2_000
AT_MS = 1_764_000_000_000
PARTS = ("read", "rules", "parsers", "canonical", "hash")
DECISIONS_S = 6_000
SHARE = 0.5


@dataclass(slots=True)
class Measured:
    """CPU seconds for `events` actions: the pipeline's, and each bare part's."""

    events: int = 0
    pipeline_s: float = 0.0
    parts_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))

    @property
    def rate(self) -> float:
        """Decisions a second."""
        return self.events / self.pipeline_s

    @property
    def share(self) -> float:
        """The pipeline's rate over that of the bare parts together."""
        return sum(self.parts_s.values()) / self.pipeline_s


class Bare:
    """The bare parts, each over a whole chunk."""

    def __init__(self) -> None:
        self._rules = yardsticks.BareRules(json.loads(bench_policy.RULES.read_bytes()))
        self._parsers = yardsticks.BareParsers()

    def take(self, kind: Kind, arrivals: Sequence[Arrival], bodies: Sequence[Any], into: Measured) -> None:
        """Measure each part on a chunk and on the records that the pipeline made of it."""
        messages: list[ProposedAction] = []
        _timed(lambda: messages.extend(yardsticks.read(one.value or b"") for one in arrivals), into, "read")
        values = [self._rules.values(one) for one in messages]
        _timed(lambda: [self._rules.evaluate(one) for one in values], into, "rules")
        texts = [text for one in messages for text in texts_of(one.tool_name, kind, one.parameters)]
        _timed(lambda: self._parsers.parse(texts), into, "parsers")
        written: list[bytes] = []
        _timed(lambda: written.extend(map(yardsticks.written, bodies)), into, "canonical")
        _timed(lambda: [yardsticks.hashed(one) for one in written], into, "hash")


def _timed(step: Callable[[], object], into: Measured, part: str) -> None:
    began = time.process_time()
    step()
    into.parts_s[part] += time.process_time() - began


def measure(events: int, seed: int) -> dict[str, Measured]:
    """One round, in a fresh process: everything is cold at its start."""
    chunks = _chunks(events, seed)
    pipeline, bare = Pipeline(bench_policy.point()), Bare()
    kinds: dict[str, Measured] = {kind: Measured() for kind, _ in chunks}
    measurement.settle()
    for kind, arrivals in chunks:
        into = kinds[kind]
        began = time.process_time()
        bodies = pipeline.take(arrivals)
        into.pipeline_s += time.process_time() - began
        into.events += len(arrivals)
        bare.take(kind, arrivals, bodies, into)
    return {**kinds, "all": _together(kinds.values())}


def _together(every: Iterable[Measured]) -> Measured:
    whole = Measured()
    for one in every:
        whole.events += one.events
        whole.pipeline_s += one.pipeline_s
        for part, seconds in one.parts_s.items():
            whole.parts_s[part] += seconds
    return whole


def _chunks(events: int, seed: int) -> list[tuple[Kind, list[Arrival]]]:
    """Chunks of one kind each, as many of a kind as the panel has of it, in random order."""
    rows = panel()
    chunks: list[tuple[Kind, list[Arrival]]] = []
    for kind, own in by_kind(rows).items():
        messages = of_rows(own, round(events * len(own) / len(rows)), SESSIONS, seed)
        arrivals = [
            Arrival(ACTIONS, 0, offset, AT_MS, key, value) for offset, (key, value) in enumerate(messages)
        ]
        chunks += [(kind, arrivals[start : start + CHUNK]) for start in range(0, len(arrivals), CHUNK)]
    random.Random(seed).shuffle(chunks)
    return chunks


def one_round(extent: Extent, seed: int) -> dict[str, Measured]:
    """A round's result, by kind and for "all"."""
    return in_fresh_process(measure, extent.of(EVENTS), seed)


def figures(extent: Extent) -> list[Measurement]:
    """The pipeline's rate and its share of the bare parts' rate."""
    every = [one_round(extent, seed) for seed in range(extent.rounds)]
    found = [
        at_least("pure pipeline / its bare parts", [one["all"].share for one in every], SHARE),
        reported("pure pipeline", [one["all"].rate for one in every], "decisions/s"),
        at_least("no SQL, no shell", [one["plain"].rate for one in every], DECISIONS_S, "decisions/s"),
        reported("no SQL, no shell / bare parts", [one["plain"].share for one in every], "ratio"),
    ]
    for kind in ("sql", "shell"):
        found.append(reported(f"{kind}", [one[kind].rate for one in every], "decisions/s"))
        found.append(reported(f"{kind} / bare parts", [one[kind].share for one in every], "ratio"))
    for part in PARTS:
        each = [one["all"].parts_s[part] / one["all"].events * 1e6 for one in every]
        found.append(reported(f"bare part: {part}", each, "us/action", "yardstick"))
    return found
