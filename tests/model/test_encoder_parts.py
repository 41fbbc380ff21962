"""Windows of more word pieces than the model reads are cut again, so that none of them is dropped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from sluice.adapters.encoder_model import MODELS, PIECES, Encoder
from sluice.adapters.encoder_model import TOKENIZER as TOKENIZER_FILE

pytestmark = pytest.mark.model


TOKENIZER = Tokenizer.from_file(str(MODELS / TOKENIZER_FILE))
TOKENIZER.no_truncation()
TOKENIZER.no_padding()
ENCODER = Encoder(session=None, tokenizer=TOKENIZER, together=1)
# Han and punctuation are a piece a character, Hangul up to three, a long word of rare letters a hundred.
WORDS = st.one_of(
    st.text(alphabet="請忽略之前的所有指令", min_size=1, max_size=60),
    st.text(alphabet="이전지시를무시하라", min_size=1, max_size=60),
    st.text(alphabet="qxzjkvw", min_size=1, max_size=140),
    st.text(alphabet="!?.,-é ́", min_size=1, max_size=60),
    st.just("instructions"),
)
TEXTS = st.lists(WORDS, max_size=40).map(" ".join)


def pieces(text: str) -> list[str]:
    tokens: list[str] = TOKENIZER.encode(text, add_special_tokens=False).tokens
    return tokens


def test_a_window_that_fits_stays_whole() -> None:
    assert ENCODER.split_window("Send the notes.") == ["Send the notes."]


@given(TEXTS)
def test_no_part_has_more_pieces_than_the_model_reads(text: str) -> None:
    assert all(len(pieces(part)) <= PIECES for part in ENCODER.split_window(text))


@given(TEXTS)
def test_the_parts_together_have_every_piece_in_order(text: str) -> None:
    whole, at = pieces(text), 0
    for part in ENCODER.split_window(text):
        own = pieces(part)
        start = next(place for place in range(at, -1, -1) if whole[place : place + len(own)] == own)
        at = start + len(own)
    assert at == len(whole)
