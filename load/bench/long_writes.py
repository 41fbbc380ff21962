"""The memory gate on writes of 1 MB without an encoder, and a repeated text beside a new one, by CPU time."""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from load.bench import fresh, policy
from load.bench.figures import Figure, at_least, at_most
from load.bench.long_texts import SHAPES, long_text
from load.bench.pure import Pipeline
from load.bench.writes import arrivals, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from load.bench.extent import Extent

LONG_MS = 300
REPEATED = 300
CHEAPER = 50


@dataclass(slots=True)
class Times:
    """`shapes`: ms of a 1 MB write; `cheaper`: by what factor an inspection is, by length of text."""

    shapes: dict[str, float]
    cheaper: dict[str, float]


def measure(count: int, salt: int) -> Times:
    """One round, in a fresh process."""
    under = policy.policy()
    inspect = under.default.inspector.inspect
    chance = random.Random(7)
    short = list(texts("benign", count, chance))
    shorter = list(texts("benign", count, chance, 128))
    fresh.settle()
    cheaper = {"128 characters": _cheaper(inspect, shorter), "1 KB": _cheaper(inspect, short)}
    pipeline = Pipeline(policy.point_of(under))
    return Times({shape: _long_ms(pipeline, shape, salt, n) for n, shape in enumerate(SHAPES)}, cheaper)


def _cheaper(inspect: Callable[[str], object], contents: Sequence[str]) -> float:
    """New texts, then copies of them: a repeated write is another object, whose hash nobody has computed."""
    copies = [one.encode().decode() for one in contents]
    return _took(inspect, contents) / _took(inspect, copies)


def _took(inspect: Callable[[str], object], contents: Sequence[str]) -> int:
    began = time.thread_time_ns()
    for one in contents:
        inspect(one)
    return time.thread_time_ns() - began


def _long_ms(pipeline: Pipeline, shape: str, salt: int, number: int) -> float:
    """The whole gate on it. Raises RuntimeError where the gate never saw it."""
    inputs = arrivals([long_text(shape, salt)], 1, number)
    began = time.thread_time_ns()
    decided = pipeline.take(inputs)
    took = (time.thread_time_ns() - began) / 1e6
    if "trustScore" not in decided[0]:
        raise RuntimeError(f"1 MB of {shape} was not judged: {decided[0]}")
    return took


def figures(extent: Extent) -> list[Figure]:
    """What a repeated text saves, then every shape."""
    told = [fresh.in_fresh_process(__name__, extent.of(REPEATED), number) for number in range(extent.rounds)]
    every = [Times(**one) for one in told]
    return [
        *(
            at_least(
                f"a new text / a repeated one, {length}", [one.cheaper[length] for one in every], CHEAPER
            )
            for length in every[0].cheaper
        ),
        *(
            at_most(f"1 MB: {shape}", [one.shapes[shape] for one in every], LONG_MS, "ms")
            for shape in every[0].shapes
        ),
    ]


if __name__ == "__main__":
    fresh.tell(measure(*map(int, sys.argv[1:])))
