"""The memory gate with embeddings beside the bare encoder on the same texts, and a repeated text.

The gate takes writes of 1 KB the whole way of the pure core and asks the real encoder process, as a worker
does; its cost is the CPU time of both processes. The bare encoder takes the same texts in turn with it, in
one process with one thread: cut into the gate's windows, in its own batches and in batches of the gate's
size, and whole, where what is beyond 256 word pieces is not read.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from app.adapters.sentence_encoder import EncoderSettings, SentenceEncoder
from app.core.memory.similarity import PORT, similarity_request, windows_of
from app.stream.engine.evaluation import Ports
from load.bench import measurement
from load.bench.given import bench_policy, growth
from load.bench.given.memory_writes import CHARACTERS, arrivals, texts
from load.bench.given.pure import Pipeline
from load.bench.given.yardsticks import BareEncoder
from load.bench.measurement import Measurement, at_least, reported, rounds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.core.policy.policy import Policy
    from app.core.policy.similarity_settings import SimilaritySettings
    from load.bench.measurement import Extent

WRITES = 100
DENSE = 4
"""Of dense JSON so many times fewer: it takes as many times longer."""
CHUNK = 25
SESSIONS = 1_000_000
OF_BARE = 0.8
CHEAPER = 50
TURNS = 10
"""So often are texts asked for again: once is too short to be timed."""


@dataclass(slots=True)
class Seconds:
    """CPU seconds for the same writes; `measured`: the share of them that the encoder was asked for; `read`:
    the share of their word pieces that the bare encoder reads of whole texts."""

    gate: float = 0.0
    windows: float = 0.0
    windows_few: float = 0.0
    whole: float = 0.0
    measured: float = 0.0
    read: float = 0.0


@dataclass(slots=True)
class Compared:
    """By kind of text; `cheaper`: what asking for new texts costs over asking for the same again."""

    kinds: dict[str, Seconds]
    cheaper: float


class AskingGate:
    """The gate, its encoder, and what both cost."""

    def __init__(self, under: Policy, encoder: SentenceEncoder, child: int) -> None:
        self._pipeline = Pipeline(bench_policy.point_of(under))
        self._ports = Ports({PORT: encoder})
        self._child = child
        self._taken = 0

    def cpu_s(self) -> float:
        """Of this process and of the encoder's."""
        return time.process_time() + growth.cpu_s(self._child)

    async def take(self, contents: Sequence[str]) -> int:
        """Decide on them; how many the encoder measured."""
        inputs = arrivals(contents, SESSIONS, self._taken)
        self._taken += len(inputs)
        bodies = await self._pipeline.take_asking(inputs, self._ports)
        return sum(body.get("similarity", {}).get("status") == "measured" for body in bodies)


def measure(count: int) -> Compared:
    """One round, in a fresh process."""
    return asyncio.run(_measure(count))


async def _measure(count: int) -> Compared:
    under, bare, settings = bench_policy.policy(similarity=True), BareEncoder(), EncoderSettings()
    similarity = under.default.memory.similarity
    if similarity is None:
        raise RuntimeError("the bundle has no library")
    encoder = SentenceEncoder(settings)
    try:
        asked = AskingGate(under, encoder, await encoder.start(similarity.library))
        measurement.settle()
        kinds = {
            kind: await _compared(asked, bare, make(count), similarity, settings.together)
            for kind, make in TEXTS.items()
        }
        return Compared(kinds, await _cheaper(asked, encoder, similarity, prose(CHUNK)))
    finally:
        await encoder.close()


async def _compared(
    asked: AskingGate, bare: BareEncoder, contents: Sequence[str], similarity: SimilaritySettings, few: int
) -> Seconds:
    results, measured = Seconds(), 0
    for start in range(0, len(contents), CHUNK):
        chunk = contents[start : start + CHUNK]
        began = asked.cpu_s()
        measured += await asked.take(chunk)
        results.gate += asked.cpu_s() - began
        cut = [window for text in chunk for window in windows_of(text, similarity.windows).texts]
        results.windows += _took(partial(bare.encode, cut))
        results.windows_few += _took(partial(bare.encode, cut, few))
        results.whole += _took(partial(bare.encode, chunk))
    results.measured, results.read = measured / len(contents), bare.read_of(contents)
    return results


def _took(step: Callable[[], object]) -> float:
    began = time.process_time()
    step()
    return time.process_time() - began


async def _cheaper(
    asked: AskingGate, encoder: SentenceEncoder, similarity: SimilaritySettings, contents: Sequence[str]
) -> float:
    """Of the port alone; the same texts come again as other objects."""
    new = [similarity_request(one, similarity).payload for one in contents]
    again = [similarity_request(one.encode().decode(), similarity).payload for one in contents]
    began = asked.cpu_s()
    await asyncio.gather(*map(encoder.ask, new))
    first = asked.cpu_s() - began
    began = time.process_time()
    for _ in range(TURNS):
        for one in again:
            await encoder.ask(one)
    return first * TURNS / (time.process_time() - began)


def prose(count: int) -> list[str]:
    """Harmless texts of the panel, salted."""
    return list(texts("benign", count, random.Random(count)))


def dense(count: int) -> list[str]:
    """JSON of names and numbers: three word pieces where prose has one."""
    chance = random.Random(count)
    return [json.dumps(_numbers(chance))[:CHARACTERS] for _ in range(max(1, count // DENSE))]


def _numbers(chance: random.Random) -> list[dict[str, Any]]:
    return [{"id": f"{chance.getrandbits(40):x}", "x": chance.random()} for _ in range(CHARACTERS // 20)]


TEXTS: dict[str, Callable[[int], list[str]]] = {"prose": prose, "dense JSON": dense}


def figures(extent: Extent) -> list[Measurement]:
    """Prose has the goal; dense JSON is told, since the bare encoder reads a part of it."""
    every = rounds_of(measure, extent, WRITES)
    by_kind = {kind: [one.kinds[kind] for one in every] for kind in TEXTS}
    return [
        *_of_prose(by_kind["prose"]),
        reported(
            "dense JSON: gate / bare encoder, same windows, of which it reads 256 pieces each",
            [one.windows / one.gate for one in by_kind["dense JSON"]],
            "ratio",
        ),
        at_least("asking for a new text / for a repeated one", [one.cheaper for one in every], CHEAPER),
    ]


def _of_prose(every: Sequence[Seconds]) -> list[Measurement]:
    return [
        at_least(
            "gate with embeddings / bare encoder, same windows, its batches of 32",
            [one.windows / one.gate for one in every],
            OF_BARE,
        ),
        at_least(
            "gate with embeddings / bare encoder, same windows, the gate's batches",
            [one.windows_few / one.gate for one in every],
            OF_BARE,
        ),
        at_least(
            "gate with embeddings / bare encoder, whole texts, a word piece read",
            [one.whole / one.read / one.gate for one in every],
            OF_BARE,
        ),
        reported("pieces that the bare encoder reads of whole texts", [one.read for one in every], "share"),
        reported("writes that the encoder was asked for", [one.measured for one in every], "share"),
    ]
