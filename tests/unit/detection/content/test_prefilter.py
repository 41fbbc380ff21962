"""The prefilter and the look-up of words leave out no text that an expression is found in, and most of the
others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import re2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sluice.detection.content.compiled_expressions import Expressions, Lexicon
from sluice.detection.content.required_words import RequiredWords, list_clauses
from sluice.detection.content.text import Prefilter, words_and_signs
from tests.unit.detection.content import shipped

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

CLASSES = {
    "drop": ["ignor(?:e|ing)", "disregard", r"forget(?:\W+about)?", "忽略"],
    "lead": ["^", "[.!?]", r"\bplease\b"],
}
LEXICON = Lexicon(CLASSES)
LITERALS = [
    "act",
    "as",
    "a",
    "1",
    "забудь",
    "忽略",
    " ",
    "-",
    ", ",
    "<",
    "{",
    r"\.",
    "s?",
    "a+",
    "-?",
    "(?:the )?",
]
EDGES = [
    r"\b",
    "^",
    "(?:$)",
    r"\W+",
    r"\W*",
    r"\s+",
    r"\s?",
    "[ -]",
    r"(?:\W+|$)",
    "(?:$lead)",
    "(?:$gap)",
    "(?:$sep)",
]
OPEN = [r"\w+", r"\w*", r"\S+", ".", "[a-d]", "[^.]", "[ac]", r"(?:\W+\w+){0,3}?", r"(?:\W+\w+)*"]
CHOICES = ["(?:$drop)", "(?:a|act|be)", r"(?:an? |\bthe\W+)?"]
PIECES = [*LITERALS, *EDGES, *OPEN, *CHOICES]
WORDS = ["act", "as", "a", "1", "забудь", "忽略", "ignore", "forget", "about", "please", "the", "b", "acts"]
SIGNS = [" ", " ", " ", "-", ", ", "", ".\n", "<", "{", "  ", "\n"]
MANY = "|".join(f"word{number}" for number in range(40))


def expressions() -> SearchStrategy[str]:
    some = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)
    either = st.lists(some, min_size=1, max_size=3).map("|".join).map("(?:{})".format)
    return st.lists(st.one_of(some, either), min_size=1, max_size=4).map("".join)


texts = st.lists(st.sampled_from(WORDS + SIGNS), max_size=12).map("".join)


def may_hold(expression: str, text: str) -> bool:
    prefilter = Prefilter([LEXICON.expand(expression).requirement.text])
    return bool(prefilter.always or prefilter.candidates(words_and_signs(text.casefold().encode())))


@given(expressions(), st.lists(texts, min_size=1, max_size=8))
@example(r"act\b", ["act忽略"])
@example(r"忽略a\b", ["忽略act"])
@settings(max_examples=400)
def test_no_text_that_an_expression_is_found_in_is_left_out(expression: str, some: list[str]) -> None:
    try:
        compiled = re2.compile(f"(?mi){LEXICON.expand(expression).searched}")
    except re2.error:
        return
    for text in some:
        assert may_hold(expression, text) or not compiled.search(text), (expression, text)


def is_looked_up(expression: str, text: str) -> bool:
    return bool(
        RequiredWords(list_clauses([LEXICON.expand(expression).requirement.text])).find_met(text.encode())
    )


@given(expressions(), st.lists(texts.filter(str.isascii), min_size=1, max_size=8))
@example(r"act(?:\W|)as", ["actas", "act as", "act-as"])
@example(r"(?:act\w+|a)?s\b", ["acts", "s"])
@settings(max_examples=400)
def test_what_is_found_in_a_text_of_ascii_is_told_by_its_words(expression: str, some: list[str]) -> None:
    """Mend 22.23.5: the cheap question first, whose "no" is a proof."""
    try:
        compiled = re2.compile(f"(?mi){LEXICON.expand(expression).searched}")
    except re2.error:
        return
    for text in some:
        assert is_looked_up(expression, text) or not compiled.search(text), (expression, text)


class _Forgetful(dict[bytes, Any]):
    """Cleared by another thread after each question."""

    def __contains__(self, key: object) -> bool:
        found = super().__contains__(key)
        self.clear()
        return found

    def get(self, key: bytes, default: Any = None) -> Any:
        found = super().get(key, default)
        self.clear()
        return found


def test_words_forgotten_by_another_thread_in_between_are_looked_up_again() -> None:
    """Mend 22.26.2: a full table is cleared while another thread reads it."""
    words = RequiredWords(list_clauses([LEXICON.expand(r"act\b").requirement.text]))
    words._cached = _Forgetful()  # noqa: SLF001 - stands for the other thread
    assert [words.find_met(text) for text in (b"act as", b"act as", b"as", b"as")] == [1, 1, 0, 0]


def test_no_expression_of_the_shipped_library_is_found_in_a_text_that_lacks_its_words() -> None:
    """Mend 22.23.5: over attacks of ASCII."""
    library = shipped.sets()
    searched = Expressions(library.lexicon)
    places = [place for one in library.findings for place in searched.add(one.any, one.id)]
    words = RequiredWords(list_clauses(searched.requirements(places)))
    found = 0
    tables = ("override_attacks.txt", "poisoned_memories.txt", "breadth_attacks.txt")
    lines = [row.text.encode() for table in tables for row in shipped.rows(table)]
    for text in filter(bytes.isascii, lines):
        met = words.find_met(text)
        for number, place in enumerate(places):
            if searched.search(place, text, 0, len(text)):
                assert met >> number & 1, (number, text)
                found += 1
    assert found > len(lines)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (r"\bact\W+as\b", "A fact, as far as we know."),
        (r"\bact\W+as\b", "As they act."),
        (r"\bai\b", "He said it again."),
        (rf"\b(?:{MANY})\b\W+rules", "sword1 rules"),
        (rf"\brules\W+(?:{MANY})", "sword1 rules"),
        (r"<!--\W*ignore\b", "Ignore it."),
        (r"jail-?break(?:s|ing)?", "The break in the jail."),
        (r"\b$drop$gap(?:rules|orders)\b", "Forget the umbrella."),
        ("правила", "The rules."),
    ],
)
def test_words_are_told_from_parts_of_words_and_rows_of_words_from_others(expression: str, text: str) -> None:
    assert not may_hold(expression, text)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (r"\bact\W+as\b", "A fact, as far as we know."),
        (r"\bai\b", "He said it again."),
        (rf"\b(?:{MANY})\b\W+rules", "sword1 rules"),
        (r"<!--\W*ignore\b", "Ignore it."),
        (r"\b$drop$gap(?:rules|orders)\b", "Forget the umbrella."),
        ("правила", "The rules."),
        (r"(?:ignore|drop)\W+it", "ignored it"),
    ],
)
def test_a_text_without_a_word_that_is_required_needs_no_search(expression: str, text: str) -> None:
    """Mend 22.23.5: most texts are answered by a look-up."""
    assert not is_looked_up(expression, text)


@pytest.mark.parametrize("expression", [r"\w+", r"\bact\b|\d+", "$lead?", "(?:act)?"])
def test_an_expression_that_demands_nothing_may_be_in_any_text(expression: str) -> None:
    assert may_hold(expression, "")


def test_a_text_is_written_as_its_words_and_its_rare_signs() -> None:
    words, _, signs = words_and_signs("it's <b>done</b>, забудь!".encode()).partition(b"\n")
    assert words == " it s b done b забудь ".encode()
    assert set(re.findall(rb"\x01(.)\x01", signs)) == {b"<", b">"}
