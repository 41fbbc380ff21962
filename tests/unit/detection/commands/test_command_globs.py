"""Globs of patterns: the same answers as a shell's, without going back, and the kinds of target."""

from __future__ import annotations

from fnmatch import fnmatchcase
from time import thread_time

import pytest
import re2
from hypothesis import example, given
from hypothesis import strategies as st

from sluice.detection.commands.patterns.globs import KINDS, Globs, kinds_among, kinds_of
from sluice.detection.library_model import LibraryError

PARTS = st.sampled_from(["a", "b", "ab", "/", ".", "*", "**", "?", "[ab]", "[!a]", "[*]", "[[]"])
GLOBS = st.lists(PARTS, min_size=1, max_size=8).map("".join)
WORDS = st.text("ab/.*[", max_size=12)
PLACES = [
    "/",
    "/etc",
    "/shadow",
    "/home/x",
    "~",
    ".ssh",
    "/id_rsa",
    "/dev/sda",
    "c:\\",
    "windows",
    "$home",
    ".env",
]
REST = ["*", ".", "..", "https://h", "a", "/var/log", "%temp%", "\n", "\u4f60", "\ud800"]
TARGETS = st.lists(st.sampled_from(PLACES + REST), max_size=5).map("".join)
GENEROUS_SECONDS = 0.1
"""Far above the 0.2 ms that are measured: going back at each star would take minutes."""


@given(GLOBS, WORDS)
@example("a*ab*b", "aabab")
def test_a_glob_matches_what_it_matches_in_a_shell(glob: str, word: str) -> None:
    assert Globs([glob]).match(word) == fnmatchcase(word, glob)


@given(st.lists(GLOBS, max_size=3), st.lists(WORDS, max_size=4))
def test_any_word_and_any_alternative_is_one_question(globs: list[str], words: list[str]) -> None:
    assert Globs(["|".join(globs)] if globs else []).match_any(words) == any(
        fnmatchcase(word, glob) for word in words for glob in globs
    )


@given(TARGETS)
def test_the_kinds_of_a_word_are_those_that_it_is_one_by_one(word: str) -> None:
    readable = word.encode("utf-8", "replace").decode()
    alone = [name for name, form in KINDS.items() if re2.fullmatch(f"(?s)(?:{form})", readable)]
    assert kinds_of(word) == kinds_among(alone)


@pytest.mark.parametrize("glob", ["*a*a*a*a*a*b", "*aa?*aa?*aa?*b", "a*[ab]*[ab]*[ab]*c"])
def test_a_word_of_thousands_does_not_stall_a_glob_of_many_stars(glob: str) -> None:
    start = thread_time()
    assert not Globs([glob]).match("a" * 8192)
    assert thread_time() - start < GENEROUS_SECONDS


def test_a_kind_may_stand_behind_a_beginning() -> None:
    assert Globs(["of=@device"]).match("of=/dev/sda")
    assert not Globs(["of=@device"]).match("if=/dev/sda")


def test_brackets_that_are_no_set_of_characters_are_refused_at_load() -> None:
    with pytest.raises(LibraryError, match="z-a"):
        Globs(["x[z-a]*y"])
