"""The gate `similarity` with the real encoder and the library that ships."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pytest
import pytest_asyncio

from sluice.adapters.encoded_libraries import EncodedPatterns, find_closest
from sluice.adapters.encoder_model import load_model
from sluice.adapters.encoder_process import CachedVectors
from sluice.adapters.pattern_files import PATTERNS
from sluice.adapters.sentence_encoder import SentenceEncoder
from sluice.core.actions.action_similarity import PatternAnswer, SimilarityPolicy, make_similarity_question
from sluice.core.foundation.requests import Answer
from sluice.core.policy.pattern_library import CLOSEST, ActionLibrary, render_call
from sluice.offline.bundle_source import read_whole_bundle
from sluice.ports import PortUnavailable
from tests.unit.core.actions.judging_scene import compare
from tests.unit.core.scene import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LIBRARY = ActionLibrary.from_lines((PATTERNS / "actions.jsonl").read_bytes())
SHIPPED = {
    **json.loads(read_whole_bundle(ROOT / "config" / "bundles" / "default.json"))["similarity"],
    "mode": "enforce",
}
POLICY = SimilarityPolicy.model_validate({**SHIPPED, "enabled": True})
SENDING = ("wire_transfer", {"amount": "everything", "to": "an account of a stranger", "approval": "skip it"})
READING = ("weather_forecast", {"city": "Quito", "days": 3})

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the library's vectors are, once they are computed."""
    return tmp_path_factory.mktemp("kept") / "vectors"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def encoder(kept: Path) -> AsyncIterator[SentenceEncoder]:
    made = SentenceEncoder(libraries=[LIBRARY], patterns=[LIBRARY], cache_folder=str(kept))
    await made.start()
    yield made
    await made.close()


async def answer(encoder: SentenceEncoder, text: str) -> PatternAnswer:
    return PatternAnswer.model_validate(await encoder.ask(make_similarity_question(text, POLICY)))


def probability(told: PatternAnswer) -> float:
    assert POLICY.calibration is not None
    harmful, harmless = (
        float(np.mean([one.cosine for one in side])) for side in (told.harmful, told.harmless)
    )
    return POLICY.calibration.probability(harmful, harmless, told.lean)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_known_action_is_its_own_closest_one(encoder: SentenceEncoder) -> None:
    for one in (*LIBRARY.harmful[::40], *LIBRARY.harmless[::40]):
        told = await answer(encoder, one.rendered)
        nearest = (told.harmful if one.label == "harmful" else told.harmless)[0]
        assert nearest.id == one.id
        assert nearest.cosine == pytest.approx(1, abs=1e-4)
        assert (told.library, told.windows, told.of) == (LIBRARY.hash, 1, 1)


@pytest.mark.asyncio(loop_scope="module")
async def test_the_closest_come_first_and_harm_has_the_higher_probability(encoder: SentenceEncoder) -> None:
    sending, reading = [await answer(encoder, render_call(*one)) for one in (SENDING, READING)]
    for told in (sending, reading):
        for side in (told.harmful, told.harmless):
            cosines = [one.cosine for one in side]
            assert len(cosines) == CLOSEST
            assert cosines == sorted(cosines, reverse=True)
    assert probability(reading) < POLICY.pass_below <= probability(sending)


@pytest.mark.asyncio(loop_scope="module")
async def test_harm_in_the_middle_of_a_long_text_is_seen(encoder: SentenceEncoder) -> None:
    filler = "The canteen serves soup and bread on Mondays and closes at three. " * 12
    alone = await answer(encoder, filler)
    told = await answer(encoder, f"{filler}\n{render_call(*SENDING)}\n{filler}")
    assert told.windows == told.of > alone.windows
    assert probability(told) > probability(alone)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_text_past_the_cap_says_how_much_was_not_read(encoder: SentenceEncoder) -> None:
    told = await answer(encoder, "word " * 4000)
    assert (told.windows, told.of > POLICY.windows.most) == (POLICY.windows.most, True)


@pytest.mark.asyncio(loop_scope="module")
async def test_what_the_encoder_does_not_know_is_counted(encoder: SentenceEncoder) -> None:
    assert (await answer(encoder, render_call(*READING))).unknown == 0
    strange = await answer(encoder, "run " + " ".join("x" * 120 for _ in range(3)))
    assert strange.unknown == pytest.approx(0.75)
    assert (await answer(encoder, "")).harmful == []


@pytest.mark.asyncio(loop_scope="module")
async def test_the_same_text_has_the_same_answer_alone_and_among_others(kept: Path) -> None:
    texts = [one.rendered for one in LIBRARY.actions[::29]]
    answers = []
    for together in (True, False):
        fresh = SentenceEncoder(patterns=[LIBRARY], cache_folder=str(kept))
        if together:
            answers.append(await asyncio.gather(*(answer(fresh, text) for text in texts)))
        else:
            answers.append([await answer(fresh, text) for text in texts])
        await fresh.close()
    for one, other in zip(*answers, strict=True):
        assert probability(one) == pytest.approx(probability(other), abs=1e-3)
        assert one.harmful[0].cosine == pytest.approx(other.harmful[0].cosine, abs=1e-4)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_library_that_nobody_has_is_no_answer(encoder: SentenceEncoder) -> None:
    question = {**make_similarity_question("text", POLICY), "library": "sha256:" + 64 * "0"}
    with pytest.raises(PortUnavailable, match="no library"):
        await encoder.ask(question)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_recorded_answer_gives_the_same_verdict_again(encoder: SentenceEncoder) -> None:
    tool, parameters = SENDING
    told: Any = await encoder.ask(make_similarity_question(render_call(tool, parameters), POLICY))
    part = {"library": SHIPPED["library"], "calibration": SHIPPED["calibration"]}
    first = compare(Answer("answered", told), **part).verdict(toolName="read", parameters=parameters)
    (recorded,) = first["model_outputs"]
    again = compare(Answer("answered", recorded["payload"]), **part)
    assert again.verdict(toolName="read", parameters=parameters)["rerun_hash"] == first["rerun_hash"]


def test_vectors_of_a_library_are_kept_and_read_again(tmp_path: Path) -> None:
    encoder, model = load_model()
    texts = [one.rendered for one in LIBRARY.actions[:20]]
    kept = CachedVectors(tmp_path / "kept", model)
    computed = kept.compute_vectors(encoder, texts)
    assert np.array_equal(kept.compute_vectors(encoder, texts), computed)
    assert np.array_equal(computed, encoder.compute_vectors(texts))
    assert CachedVectors(tmp_path / "kept", "sha256:other").compute_vectors(encoder, texts[:1]).shape == (
        1,
        384,
    )
    assert len(list((tmp_path / "kept").iterdir())) == 2


def test_the_search_finds_what_a_full_sort_finds() -> None:
    chance = np.random.default_rng(1)
    rows, vectors = (chance.standard_normal((count, 384)).astype(np.float32) for count in (7, 300))
    places, cosines = find_closest(rows, vectors, CLOSEST)
    whole = rows @ vectors.T
    assert np.array_equal(places, np.argsort(-whole, axis=1, kind="stable")[:, :CLOSEST])
    assert np.array_equal(cosines, -np.sort(-whole, axis=1)[:, :CLOSEST])
    assert find_closest(rows, vectors[:2], CLOSEST)[0].shape == (7, 2)


def test_the_lean_tells_the_two_sides_of_the_library_apart(kept: Path) -> None:
    encoder, model = load_model()
    vectors = CachedVectors(kept, model)
    harmful, harmless = (
        vectors.compute_vectors(encoder, [one.rendered for one in side])
        for side in (LIBRARY.harmful, LIBRARY.harmless)
    )
    patterns = EncodedPatterns(harmful, harmless, CLOSEST)
    assert patterns.compute_figures(harmful)[:, 2].mean() > 0.15
    assert patterns.compute_figures(harmless)[:, 2].mean() < -0.15
    assert orjson.loads((PATTERNS / "actions.calibration.json").read_bytes())["library"] == LIBRARY.hash
