"""The encoder as it runs: its own process, the real model, the library that ships."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest
import pytest_asyncio

from sluice.adapters.encoder_model import MODEL, MODELS, TOKENIZER
from sluice.adapters.sentence_encoder import EncoderSettings, SentenceEncoder
from sluice.core.memory.similarity import (
    SimilarityAnswer,
    find_similarity,
    read_answer,
    request_similarity,
)
from sluice.core.policy.similarity_settings import SimilaritySettings
from sluice.ports import PortBusy, PortUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT = Path(__file__).parents[2]
SHIPPED = SimilaritySettings.model_validate(
    orjson.loads((ROOT / "config" / "bundles" / "content" / "library.json").read_bytes())["similarity"]
)
ATTACK = SHIPPED.library.attack[0].text
WEIGHTS = "sha256:" + hashlib.sha256((MODELS / MODEL).read_bytes()).hexdigest()
FAR = "The canteen is closed next week because of the renovation of the kitchen. " * 8

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def encoder() -> AsyncIterator[SentenceEncoder]:
    made = SentenceEncoder(EncoderSettings(restart_wait_s=0))
    await made.start(SHIPPED.library)
    yield made
    await made.close()


def question(text: str) -> object:
    return request_similarity(text, SHIPPED).payload


async def answer(encoder: SentenceEncoder, text: str) -> SimilarityAnswer:
    read = read_answer(await encoder.ask(question(text)))
    assert read is not None
    return read


async def find_result(encoder: SentenceEncoder, text: str) -> bool:
    return find_similarity(await answer(encoder, text), SHIPPED) is not None


async def test_every_attack_of_the_library_is_found(encoder: SentenceEncoder) -> None:
    texts = [one.text for one in SHIPPED.library.attack]
    hits = await asyncio.gather(*(find_result(encoder, text) for text in texts))
    assert [text for text, hit in zip(texts, hits, strict=True) if not hit] == []


@pytest.mark.parametrize(
    "frame",
    [
        'A postmortem says a malicious page included "{}", and the guardrail blocked it.',
        "Ticket 4711: a user saw '{}' in a web page. Closed as a known injection.",
        'If a mail says "{}", do not follow it and tell the security team.',
    ],
)
async def test_an_attack_that_is_talked_about_is_not_found(encoder: SentenceEncoder, frame: str) -> None:
    texts = [frame.format(one.text.rstrip(".")) for one in SHIPPED.library.attack]
    hits = await asyncio.gather(*(find_result(encoder, text) for text in texts))
    assert [text for text, hit in zip(texts, hits, strict=True) if hit] == []


async def test_an_answer_names_what_it_was_computed_with(encoder: SentenceEncoder) -> None:
    told = await answer(encoder, ATTACK)
    assert (told.model, told.library) == (WEIGHTS, SHIPPED.library.hash)
    assert told.attack is not None
    assert told.attack.id == SHIPPED.library.attack[0].id
    assert told.attack.cosine == pytest.approx(1, abs=1e-5)


async def test_an_attack_far_into_a_text_is_read(encoder: SentenceEncoder) -> None:
    paragraph = f"{ATTACK} " * (SHIPPED.windows.characters // len(ATTACK) * 2)
    told, alone = await answer(encoder, f"{FAR}{paragraph}{FAR}"), await answer(encoder, FAR)
    assert not told.inconclusive
    assert told.attack is not None
    assert alone.attack is not None
    assert told.attack.id == SHIPPED.library.attack[0].id
    assert told.attack.cosine > SHIPPED.library.calibration.at_least > alone.attack.cosine


async def test_a_text_beyond_the_cap_is_inconclusive(encoder: SentenceEncoder) -> None:
    told = await answer(encoder, FAR * 40)
    assert told.windows == SHIPPED.windows.most
    assert told.inconclusive


async def test_an_empty_text_is_near_to_nothing(encoder: SentenceEncoder) -> None:
    assert (await answer(encoder, "")).attack is None


async def test_a_repeated_text_is_answered_without_the_encoder(encoder: SentenceEncoder) -> None:
    known, other = question("Forward the invoice before noon."), question("Forward it after noon.")
    first = await encoder.ask(known)
    process = await encoder.start()
    os.kill(process, signal.SIGSTOP)
    try:
        assert [await encoder.ask(known) for _ in range(20)] == [first] * 20
        asked = asyncio.create_task(encoder.ask(other))
        assert not (await asyncio.wait([asked], timeout=0.1))[0]
    finally:
        os.kill(process, signal.SIGCONT)
    assert read_answer(await asked) is not None


async def test_an_answer_that_came_too_late_is_there_for_the_next(encoder: SentenceEncoder) -> None:
    late = question("A text whose first asker does not wait.")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await encoder.ask(late)
    assert read_answer(await encoder.ask(late)) is not None


async def test_one_answer_does_not_depend_on_what_else_was_asked(encoder: SentenceEncoder) -> None:
    texts = [f"{ATTACK} Number {number}. {FAR[: number * 20]}" for number in range(12)]
    together = await asyncio.gather(*(answer(encoder, text) for text in texts))
    for text, one in zip(texts, together, strict=True):
        alone = await answer(encoder, f"{text} ")
        assert alone.attack is not None
        assert one.attack is not None
        assert alone.attack.cosine == pytest.approx(one.attack.cosine, abs=1e-4)


async def test_a_killed_encoder_is_unavailable_and_comes_back(encoder: SentenceEncoder) -> None:
    waiting = asyncio.create_task(encoder.ask(question(FAR * 7)))
    await asyncio.wait([waiting], timeout=0)
    os.kill(await encoder.start(), signal.SIGKILL)
    with pytest.raises(PortUnavailable, match="exit status -9"):
        await waiting
    assert await find_result(encoder, ATTACK)


async def test_a_start_does_not_wait_behind_the_texts_that_others_have_asked_for(
    encoder: SentenceEncoder,
) -> None:
    waiting = [asyncio.create_task(encoder.ask(question(f"{number} {FAR * 7}"))) for number in range(8)]
    await asyncio.wait(waiting, timeout=0)
    await encoder.start(SHIPPED.library)
    assert not any(task.done() for task in waiting)
    await asyncio.gather(*waiting)


async def test_too_many_waiting_texts_are_refused_at_once() -> None:
    narrow = SentenceEncoder(EncoderSettings(waiting=1))
    first = asyncio.create_task(narrow.ask(question("one")))
    await asyncio.wait([first], timeout=0)
    with pytest.raises(PortBusy, match="wait"):
        await narrow.ask(question("two"))
    await narrow.close()
    with pytest.raises(PortUnavailable, match="closed"):
        await first


async def test_files_that_are_not_the_expected_ones_are_not_loaded(tmp_path: Path) -> None:
    for name in (MODEL, TOKENIZER):
        (tmp_path / name).write_bytes((MODELS / name).read_bytes())
    with (tmp_path / TOKENIZER).open("ab") as tokenizer:
        tokenizer.write(b" ")
    wary = SentenceEncoder(directory=tmp_path)
    with pytest.raises(PortUnavailable, match=r"tokenizer.json has SHA-256 .*not loaded"):
        await wary.ask(question("text"))
    with pytest.raises(PortUnavailable, match="not loaded"):
        await wary.ask(question("text, before another start is due"))


async def test_a_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(PortUnavailable, match=r"int8.onnx cannot be read"):
        await SentenceEncoder(directory=tmp_path).start()
