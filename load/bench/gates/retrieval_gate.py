"""The quality gate on one core, against the libraries' part in it, chunk by chunk in turn by CPU time.

The gate: a request that was read is judged item by item, each item's decision record is made, hashed for its
rerun, brought into canonical form, hashed and chained. The whole: beside that the request's bytes are read,
the session remembers it, and what is served is written. Bare: orjson reads the request, writes the same
decision records with sorted keys, and SHA-256 goes over them.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from app.core.decide.kinds import message_of
from app.core.decide.replay import drive, nobody
from app.core.foundation.chain import Chain
from app.core.state.decision import Shared
from app.core.state.session import SessionState, session_key
from load.bench import measurement
from load.bench.given import bench_policy, yardsticks
from load.bench.given.items import Bodies, Shape, arrivals
from load.bench.given.pure import Pipeline
from load.bench.measurement import Measurement, at_least, reported, rounds_of
from topics.catalog import QUALITY_DECISIONS
from topics.records import ProposedRetrieval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.core.decide.decide import DecisionPoint
    from app.core.foundation.arrival import Arrival
    from app.core.foundation.chain import OutRecord
    from load.bench.measurement import Extent

ITEMS = 60_000
READ_ITEMS = 3_000
"""Of each share of fresh texts: these cost milliseconds."""
CHUNK = 250
SESSIONS = 500
ITEMS_S = 20_000
SIZES = (10, 1)
FRESH = (1.0, 0.1, 0.0)


@dataclass(slots=True)
class Seconds:
    """CPU seconds for `items` items of each that took part."""

    items: int = 0
    gate: float = 0.0
    whole: float = 0.0
    bare: float = 0.0

    def rate(self, who: str) -> float:
        """Items a second."""
        took: float = getattr(self, who)
        return self.items / took


class JudgingGate:
    """One partition's gate without reading and serving."""

    def __init__(self, point: DecisionPoint) -> None:
        self._point = point
        self._chain = Chain(0)
        self._sessions: dict[bytes, SessionState] = {}
        self._shared = Shared()

    def take(self, read: Sequence[tuple[Arrival, ProposedRetrieval]]) -> list[dict[str, Any]]:
        """Judge the requests and chain the decisions on their items."""
        decided = [record for one in read for record in self._decide(*one)]
        for record in decided:
            self._chain.link(record.body, ordered=record.ordered, alike=record.alike)
        return [record.body for record in decided]

    def _decide(self, arrival: Arrival, message: ProposedRetrieval) -> list[OutRecord]:
        key = session_key(message.session_id)
        state = self._sessions.get(key)
        if state is None:
            state = self._sessions[key] = SessionState(key)
        decision = drive(self._point.evaluate(arrival, message, state, self._shared), nobody)
        state.apply(decision.transition)
        return [record for record in decision.records if record.topic == QUALITY_DECISIONS]


def measure(count: int, seed: int) -> dict[str, Seconds]:
    """One round, in a fresh process."""
    under = bench_policy.policy()
    results = {}
    for items in SIZES:
        results[f"{items} a request"] = _measured(bench_policy.point_of(under), count, seed, Shape(items))
    for share in FRESH:
        shape = Shape(SIZES[0], Bodies(share, random.Random(seed)))
        read = max(4 * CHUNK, count * READ_ITEMS // ITEMS)
        results[f"{share:.0%} fresh"] = _measured(bench_policy.point_of(under), read, seed, shape)
    return results


def _measured(point: DecisionPoint, count: int, seed: int, shape: Shape) -> Seconds:
    inputs = arrivals(max(1, count // shape.items), SESSIONS, seed, shape)
    gate, pipeline, into = JudgingGate(point), Pipeline(point), Seconds()
    size = max(1, CHUNK // shape.items)
    measurement.settle()
    for start in range(0, len(inputs), 2 * size):
        first, second = inputs[start : start + size], inputs[start + size : start + 2 * size]
        if len(second) == size:
            _chunk(gate, pipeline, first, second, into)
            into.items += size * shape.items
    return into


def _chunk(
    gate: JudgingGate, pipeline: Pipeline, first: Sequence[Arrival], second: Sequence[Arrival], into: Seconds
) -> None:
    """Gate and whole each on requests that it has not seen, so that no cache of texts helps the second."""
    read = [(one, message) for one in first if isinstance(message := message_of(one), ProposedRetrieval)]
    began = time.process_time()
    bodies = gate.take(read)
    judged = time.process_time()
    pipeline.take(second)
    served = time.process_time()
    for one in first:
        orjson.loads(one.value or b"")
    for body in bodies:
        yardsticks.hashed(yardsticks.written(body))
    into.gate += judged - began
    into.whole += served - judged
    into.bare += time.process_time() - served


def rounds(extent: Extent) -> list[dict[str, Seconds]]:
    """Every round's seconds, by kind."""
    return rounds_of(measure, extent, ITEMS, seeded=True)


def figures(extent: Extent) -> list[Measurement]:
    """Rates without bodies, by size of request; then with bodies of 1 KB, by the share of fresh texts."""
    every = rounds(extent)
    found: list[Measurement] = []
    for items in SIZES:
        own = [one[f"{items} a request"] for one in every]
        found += _figures(f"{items} item{'s' if items > 1 else ''} a request", own, goal=items > 1)
    for share in FRESH:
        own = [one[f"{share:.0%} fresh"] for one in every]
        rates = [one.rate("whole") for one in own]
        found.append(reported(f"bodies of 1 KB, {share:.0%} fresh, the whole", rates, "items/s"))
    return found


def _figures(name: str, own: Sequence[Seconds], *, goal: bool) -> list[Measurement]:
    gates, bares = [one.rate("gate") for one in own], [one.rate("bare") for one in own]
    shares = [gate / bare for gate, bare in zip(gates, bares, strict=True)]
    judged = f"quality gate with its event, {name}"
    return [
        at_least(judged, gates, ITEMS_S, "items/s") if goal else reported(judged, gates, "items/s"),
        reported(f"bytes in, served and chained, {name}", [one.rate("whole") for one in own], "items/s"),
        reported(f"bare orjson and SHA-256, {name}", bares, "items/s", "yardstick"),
        reported(f"gate / bare, {name}", shares, "ratio"),
    ]
