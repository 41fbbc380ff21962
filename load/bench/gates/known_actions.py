"""The gate `similarity` beside the bare encoder on the same windows, a repeated action, and the search.

The port takes actions of the panel as a worker asks it, many at once; its cost is the CPU time of both
processes. The bare encoder takes the same windows in one process with one thread. The search is the one of
the encoder's process, in a library of 100 000 random vectors, beside numpy's product alone.
"""

from __future__ import annotations

import asyncio
import random
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from load.bench import measurement
from load.bench.fixtures.action_events import add_salt, panel
from load.bench.fixtures.bench_env import cpu_s
from load.bench.fixtures.yardsticks import BareEncoder
from load.bench.measurement import CpuClock, judge, report, require_at_least, require_at_most, rounds_of
from sluice.adapters.encoded_libraries import find_closest
from sluice.adapters.encoder_model import NUMBERS
from sluice.adapters.pattern_files import read_libraries
from sluice.adapters.sentence_encoder import EncoderSettings, SentenceEncoder
from sluice.core.actions.action_similarity import (
    ActionCalibration,
    SimilarityPolicy,
    make_similarity_question,
)
from sluice.core.memory.similarity import split_windows
from sluice.core.policy.pattern_library import CLOSEST, MOST_PATTERNS, render_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from load.bench.measurement import Extent, Figures, Judge, Measurement

ACTIONS = 400
CHUNK = 100
OF_BARE, CHEAPER, OF_PRODUCT = 0.9, 100, 2
TURNS = 20
SEARCHES = 20
FIGURES: dict[str, Judge] = {
    "similarity of actions / bare encoder, same windows, its batches of 32": partial(
        require_at_least, goal=OF_BARE
    ),
    "similarity of actions / bare encoder, same windows, the port's batches": partial(
        require_at_least, goal=OF_BARE
    ),
    "windows an action": partial(report, unit="windows"),
    "CPU of a fresh action": partial(report, unit="ms"),
    "asking for a new action / for a repeated one": partial(require_at_least, goal=CHEAPER),
    "search in 100 000 vectors / bare numpy product, one row": partial(require_at_most, goal=OF_PRODUCT),
    "search in 100 000 vectors / bare numpy product, eight rows": partial(require_at_most, goal=OF_PRODUCT),
}


def write_actions(count: int, seed: int) -> list[str]:
    """Actions of the panel as they are compared, each with fresh salt."""
    chance = random.Random(seed)
    rows = [chance.choice(panel()) for _ in range(count)]
    fresh = (add_salt(row.tool, row.parameters, f"q{chance.getrandbits(24):06x}") for row in rows)
    return [render_call(row.tool, parameters) for row, parameters in zip(rows, fresh, strict=True)]


def measure(count: int) -> Figures:
    """One round, in a fresh process."""
    return asyncio.run(_measure(count))


async def _measure(count: int) -> Figures:
    library, bare, settings = read_libraries()[0], BareEncoder(), EncoderSettings()
    calibration = ActionCalibration(harmful=1, harmless=-1, lean=0.3, intercept=0)
    policy = SimilarityPolicy(enabled=True, library=library.hash, calibration=calibration)
    encoder = SentenceEncoder(settings, patterns=[library])
    try:
        child = await encoder.start(library)
        ask = partial(_ask, encoder, policy)
        await ask(write_actions(CHUNK, count + 1))
        measurement.settle()
        clock, windows = CpuClock(), 0
        texts = write_actions(count, count)
        for start in range(0, len(texts), CHUNK):
            chunk = texts[start : start + CHUNK]
            began = time.process_time() + cpu_s(child)
            await ask(chunk)
            clock.seconds["port"] += time.process_time() + cpu_s(child) - began
            cut = [window for text in chunk for window in split_windows(text, policy.windows).texts]
            windows += len(cut)
            clock.take("bare", partial(bare.encode, cut))
            clock.take("bare, few", partial(bare.encode, cut, settings.together))
        again = [text.encode().decode() for text in texts[-CHUNK:]]
        began = time.process_time()
        for _ in range(TURNS):
            await ask(again)
        repeated = (time.process_time() - began) / TURNS / CHUNK
    finally:
        await encoder.close()
    port = clock.seconds["port"]
    values = (
        clock.seconds["bare"] / port,
        clock.seconds["bare, few"] / port,
        windows / len(texts),
        port / len(texts) * 1000,
        port / len(texts) / repeated,
        *(_search(rows) for rows in (1, 8)),
    )
    return dict(zip(FIGURES, values, strict=True))


async def _ask(encoder: SentenceEncoder, policy: SimilarityPolicy, texts: Sequence[str]) -> list[Any]:
    return await asyncio.gather(*(encoder.ask(make_similarity_question(text, policy)) for text in texts))


def _search(rows: int) -> float:
    """CPU time of the search by that of the product, in turn."""
    chance = np.random.default_rng(rows)
    vectors = chance.standard_normal((MOST_PATTERNS, NUMBERS), np.float32)
    asked = chance.standard_normal((SEARCHES, rows, NUMBERS), np.float32)
    clock = CpuClock()
    for question in asked:
        clock.take("search", partial(find_closest, question, vectors, CLOSEST))
        clock.take("product", partial(np.matmul, question, vectors.T))
    return clock.seconds["search"] / clock.seconds["product"]


def figures(extent: Extent) -> list[Measurement]:
    """All rounds."""
    return judge(rounds_of(measure, extent, ACTIONS), FIGURES)
