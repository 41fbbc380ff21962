"""Windows of a text: nothing of it is left out, and a cap that is passed is said."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sluice.core.memory.similarity import LONGEST_WORD, split_windows
from sluice.core.policy.similarity_settings import WindowSettings

SMALL = WindowSettings(characters=64, overlap=16, most=1024)
TEXTS = st.text(alphabet="ab \n", max_size=2000)


def make_numbered(words: int) -> str:
    return " ".join(f"word{number}" for number in range(words))


def test_a_short_text_is_one_window() -> None:
    assert split_windows("Send the notes.", SMALL).texts == ("Send the notes.",)


def test_an_empty_text_has_no_window() -> None:
    assert split_windows("", SMALL).of == 0


@given(st.integers(min_value=1, max_value=400))
def test_every_word_stands_whole_in_some_window(words: int) -> None:
    windows = split_windows(make_numbered(words), SMALL)
    seen = {word for window in windows.texts for word in window.split()}
    assert seen >= set(make_numbered(words).split())


@given(st.integers(min_value=20, max_value=400))
def test_neighbours_share_a_word(words: int) -> None:
    cut = split_windows(make_numbered(words), SMALL).texts
    assert all(set(one.split()) & set(other.split()) for one, other in pairwise(cut))


@given(TEXTS)
def test_windows_are_pieces_of_the_text_and_bounded(text: str) -> None:
    windows = split_windows(text, SMALL)
    assert len(windows.texts) == windows.of
    assert all(one in text and len(one) <= SMALL.characters + 2 * LONGEST_WORD for one in windows.texts)


@given(TEXTS)
def test_a_text_without_spaces_is_covered_too(text: str) -> None:
    solid = "".join(chr(0x4E00 + place) for place, _ in enumerate(text))
    assert {one for window in split_windows(solid, SMALL).texts for one in window} == set(solid)


@given(TEXTS, st.integers(min_value=1, max_value=8))
def test_a_cap_leaves_the_first_windows_and_says_how_many_there_are(text: str, most: int) -> None:
    capped = split_windows(text, SMALL.model_copy(update={"most": most}))
    whole = split_windows(text, SMALL)
    assert capped.of == whole.of
    assert capped.texts == whole.texts[:most]


def test_windows_that_hardly_advance_are_refused() -> None:
    with pytest.raises(ValidationError, match="overlap"):
        WindowSettings(characters=64, overlap=33, most=1)
