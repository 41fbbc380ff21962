# ruff: noqa: RUF001 - other scripts are meant
"""What is skipped because a text cannot hold it is never something that the text holds."""

from __future__ import annotations

import re2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sluice.detection.content.compiled_expressions import Lexicon
from sluice.detection.content.text import needs_script, words_and_signs
from sluice.detection.disguises import spelling
from sluice.detection.disguises.vocabulary import Vocabulary
from sluice.text.expression_sets import PatternSet
from tests.unit.detection.content.small_library import inspector, pattern

LEXICON = Lexicon({"drop": ["ignore", "忽略"], "orders": ["правила", "指令"]})
PIECES = [
    "act",
    "(?:$drop)",
    "(?:$orders)",
    "忽略",
    r"\W+",
    "(?:$gap)",
    "(?:act|правила)",
    "(?:忽略|правила)?",
    "[аб]",
    ".",
]
WORDS = ["act", "ignore", "rules", "a", "1", " ", ".", "-"]
CUES = PatternSet(spelling.CUES)
LETTERS = st.lists(
    st.sampled_from(["a", "b", "no", "\u00e9", "0", "@", " ", "  ", "\t", "\n", ".", "-", "忽"]), max_size=40
)


@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join), st.lists(st.sampled_from(WORDS))
)
@settings(max_examples=300)
def test_what_needs_another_script_is_in_no_text_of_ascii(expression: str, words: list[str]) -> None:
    expanded = LEXICON.expand(expression)
    text = "".join(words)
    if needs_script(expanded.requirement.text):
        assert not re2.search(f"(?mi){expanded.searched}", text)
        assert not re2.search(expanded.requirement.text.encode(), words_and_signs(text.encode()))


def test_only_what_no_text_of_ascii_meets_needs_another_script() -> None:
    needs = [
        needs_script(LEXICON.expand(one).requirement.text)
        for one in ("act", "(?:$drop)", "(?:$orders)", "act$gap忽略")
    ]
    assert needs == [False, False, True, True]


def test_a_pattern_of_two_scripts_is_found_in_either() -> None:
    both = inspector(pattern("both", "(?:ignore|忽略)(?:[^.]{0,9})(?:rules|规则)", framed=False))
    assert [one.id for text in ("Ignore the rules", "忽略规则") for one in both.inspect(text).findings] == [
        "both"
    ] * 2


@given(LETTERS.map("".join))
@example("i g n o r e  r u l e s")
@example("i.g.n.o.r.e r-u-l-e-s")
@settings(max_examples=400)
def test_nothing_is_closed_up_or_parted_that_the_tells_do_not_tell(text: str) -> None:
    words = Vocabulary(["ignore", "rules", "no"], ["ignore", "rules", "no"])
    cues = CUES.matches(text)
    assert "letters apart" in cues or spelling.closed_up(text, words) == text
    assert "run" in cues or spelling.parted(text, words) == text


@given(st.integers(1, 10), st.integers(1, 9), st.integers(0, 10))
def test_a_text_of_equal_portions_is_read_without_the_cuts(size: int, count: int, rest: int) -> None:
    letters = "abcdefghij"
    text = " ".join([letters[:size]] * count + [letters[:rest]] * bool(rest))
    equal = 1 < size <= 8 and count + bool(rest) >= 6 and rest <= size
    assert spelling.of_portions(text) == (text.replace(" ", "") if equal else text)
