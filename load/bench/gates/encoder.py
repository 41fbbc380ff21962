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
from functools import partial
from typing import TYPE_CHECKING, Any

from load.bench import measurement
from load.bench.fixtures import bench_policy
from load.bench.fixtures.bench_env import cpu_s
from load.bench.fixtures.memory_writes import CHARACTERS, input_records, texts
from load.bench.fixtures.pure import Pipeline
from load.bench.fixtures.yardsticks import BareEncoder
from load.bench.measurement import CpuClock, judge, report, require_at_least, rounds_of
from sluice.adapters.sentence_encoder import EncoderSettings, SentenceEncoder
from sluice.core.memory.similarity import request_similarity, split_windows
from sluice.core.policy.similarity_settings import EMBEDDING
from sluice.stream.engine.evaluation import Ports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from load.bench.measurement import Extent, Figures, Judge, Measurement
    from sluice.core.policy.policy import Policy
    from sluice.core.policy.similarity_settings import SimilaritySettings

WRITES = 100
DENSE = 4
"""Of dense JSON so many times fewer: it takes as many times longer."""
CHUNK = 25
SESSIONS = 1_000_000
OF_BARE = 0.8
CHEAPER = 50
TURNS = 10
"""So often are texts asked for again: once is too short to be timed."""


OF_PROSE = "gate with embeddings / bare encoder"
FIGURES: dict[str, Judge] = {
    f"{OF_PROSE}, same windows, its batches of 32": partial(require_at_least, goal=OF_BARE),
    f"{OF_PROSE}, same windows, the gate's batches": partial(require_at_least, goal=OF_BARE),
    f"{OF_PROSE}, whole texts, a word piece read": partial(require_at_least, goal=OF_BARE),
    "pieces that the bare encoder reads of whole texts": partial(report, unit="share"),
    "writes that the encoder was asked for": partial(report, unit="share"),
    # The bare encoder reads 256 word pieces of each window, a part of what the gate reads.
    "dense JSON: gate / bare encoder, same windows, of which it reads 256 pieces each": partial(
        report, unit="ratio"
    ),
    "asking for a new text / for a repeated one": partial(require_at_least, goal=CHEAPER),
}


class AskingGate:
    """The gate, its encoder, and what both cost."""

    def __init__(self, under: Policy, encoder: SentenceEncoder, child: int) -> None:
        self._pipeline = Pipeline(bench_policy.point_of(under))
        self._ports = Ports({EMBEDDING: encoder})
        self._child = child
        self._taken = 0

    def cpu_s(self) -> float:
        """Of this process and of the encoder's."""
        return time.process_time() + cpu_s(self._child)

    async def take(self, contents: Sequence[str]) -> int:
        """Decide on them; how many the encoder measured."""
        inputs = input_records(contents, SESSIONS, self._taken)
        self._taken += len(inputs)
        bodies = await self._pipeline.take_asking(inputs, self._ports)
        return sum(body.get("similarity", {}).get("status") == "measured" for body in bodies)


def measure(count: int) -> Figures:
    """One round, in a fresh process."""
    return asyncio.run(_measure(count))


async def _measure(count: int) -> Figures:
    under, bare, settings = bench_policy.policy(similarity=True), BareEncoder(), EncoderSettings()
    similarity = under.default.memory.similarity
    if similarity is None:
        raise RuntimeError("the bundle has no library")
    encoder = SentenceEncoder(settings)
    try:
        asked = AskingGate(under, encoder, await encoder.start(similarity.library))
        measurement.settle()
        texts, json_texts = prose(count), dense(count)
        seconds, measured = await _compare(asked, bare, texts, similarity, settings.together)
        of_dense, _ = await _compare(asked, bare, json_texts, similarity, settings.together)
        cheaper = await _cheaper(asked, encoder, similarity, prose(CHUNK))
    finally:
        await encoder.close()
    read = bare.read_of(texts)
    values = (
        seconds["windows"] / seconds["gate"],
        seconds["windows, few"] / seconds["gate"],
        seconds["whole"] / read / seconds["gate"],
        read,
        measured,
        of_dense["windows"] / of_dense["gate"],
        cheaper,
    )
    return dict(zip(FIGURES, values, strict=True))


async def _compare(
    asked: AskingGate, bare: BareEncoder, contents: Sequence[str], similarity: SimilaritySettings, few: int
) -> tuple[dict[str, float], float]:
    """CPU seconds for the same writes, and the share of them that the encoder measured."""
    clock, measured = CpuClock(), 0
    for start in range(0, len(contents), CHUNK):
        chunk = contents[start : start + CHUNK]
        began = asked.cpu_s()
        measured += await asked.take(chunk)
        clock.seconds["gate"] += asked.cpu_s() - began
        cut = [window for text in chunk for window in split_windows(text, similarity.windows).texts]
        clock.take("windows", partial(bare.encode, cut))
        clock.take("windows, few", partial(bare.encode, cut, few))
        clock.take("whole", partial(bare.encode, chunk))
    return clock.seconds, measured / len(contents)


async def _cheaper(
    asked: AskingGate, encoder: SentenceEncoder, similarity: SimilaritySettings, contents: Sequence[str]
) -> float:
    """Of the port alone; the same texts come again as other objects."""
    new = [request_similarity(content, similarity).payload for content in contents]
    again = [request_similarity(content.encode().decode(), similarity).payload for content in contents]
    began = asked.cpu_s()
    await asyncio.gather(*map(encoder.ask, new))
    first = asked.cpu_s() - began
    began = time.process_time()
    for _ in range(TURNS):
        for item in again:
            await encoder.ask(item)
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


def figures(extent: Extent) -> list[Measurement]:
    """Prose has the goals; dense JSON is only reported."""
    return judge(rounds_of(measure, extent, WRITES), FIGURES)
