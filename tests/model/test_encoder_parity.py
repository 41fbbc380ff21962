"""The int8 file's vectors beside those of sentence-transformers, which the script that made it wrote down."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pytest

from sluice.adapters.encoder_model import MODELS, PIECES, Encoder, load_model

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = pytest.mark.model
ROWS = [orjson.loads(line) for line in (MODELS / "all-minilm-l6-v2.expected.jsonl").read_bytes().splitlines()]
TEXTS = [row["text"] for row in ROWS]
EXPECTED = np.stack([np.frombuffer(base64.b64decode(row["vector"]), "<f2") for row in ROWS]).astype(
    np.float32
)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_model()[0]


@pytest.fixture(scope="module")
def vectors(encoder: Encoder) -> NDArray[np.float32]:
    return encoder.compute_vectors(TEXTS)


def test_every_vector_is_near_to_the_one_expected(vectors: NDArray[np.float32]) -> None:
    cosines = (vectors * EXPECTED).sum(axis=1)
    assert len(cosines) == 200
    assert cosines.mean() >= 0.999
    assert cosines.min() >= 0.99


def test_a_vector_has_length_one(vectors: NDArray[np.float32]) -> None:
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5


def test_a_vector_does_not_depend_on_what_else_is_in_the_batch(
    encoder: Encoder, vectors: NDArray[np.float32]
) -> None:
    alone = np.concatenate([encoder.compute_vectors([text]) for text in TEXTS[::7]])
    assert np.abs(alone - vectors[::7]).max() < 1e-5


def test_some_texts_are_longer_than_the_model_reads(encoder: Encoder) -> None:
    """So that leaving out the rest is held against the original too."""
    assert sum(len(encoder.split_window(text)) > 1 for text in TEXTS) >= 4
    assert PIECES == 254
