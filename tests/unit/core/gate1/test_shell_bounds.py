"""Nothing that is handed to the shell's reader may stall it or break it."""

from __future__ import annotations

from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.gate1.shell import read_shell, shell_bounds
from app.core.gate1.shell.ascii_only import read_back, spelled
from app.core.gate1.shell.bounds import LIMITS
from tests.unit.core.gate1.shell_library import LIBRARY

CRUEL = [
    *(
        "a=(",
        "a|",
        "$[",
        "a+=(",
        "a)",
        "((a",
        ">",
        "<<<",
        "x |& ",
        "${a#",
        "<<A\n",
        "${!a",
        "[[ a =~ (",
        "a[",
    ),
    *(
        "*(",
        "?(a|",
        "for ",
        "case x in ",
        "while ",
        "\\",
        '"',
        "'",
        "`",
        "$(",
        "<(",
        "rm -rf / ",
        "{a,b}",
        "a; ",
    ),
    *("&", "!", "f(){", "if ", "[ ", "$((", "@(", "do ", "then ", "x=", "${a:-", "$'"),
]
FRAGMENTS = st.sampled_from(CRUEL)
GENEROUS_SECONDS = 0.25
"""Far above the 10 ms that are measured on an idle core: this only tells a stall from a busy machine."""


def _seconds(text: str) -> float:
    start = perf_counter()
    LIBRARY.matches(read_shell(text))
    return perf_counter() - start


@pytest.mark.parametrize("fragment", CRUEL)
def test_a_fragment_repeated_to_4_kilobytes_does_not_stall(fragment: str) -> None:
    assert min(_seconds((fragment * 4096)[:4096]) for _ in range(2)) < GENEROUS_SECONDS


@given(st.lists(FRAGMENTS, max_size=600).map("".join))
@settings(max_examples=60, deadline=None)
def test_fragments_in_any_order_neither_stall_nor_break_the_reader(text: str) -> None:
    assert min(_seconds(text), _seconds(text)) < GENEROUS_SECONDS


@given(st.text(max_size=400))
@settings(max_examples=150, deadline=None)
def test_any_text_can_be_read(text: str) -> None:
    reading = read_shell(text)
    assert all(isinstance(arg, str) for command in reading.commands for arg in command.args)


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_the_parser_only_sees_ascii_and_every_character_is_read_back(text: str) -> None:
    marks_apart = text.replace("\x02", "\x1a").replace("\x03", "\x1a")
    assert spelled(text).isascii()
    assert read_back(spelled(text)) == marks_apart


@pytest.mark.parametrize(
    "character", ["\U0010fffd", "\U000e0000", "\U0001f600", "\u4f60", "\u00e9", "\u00a0"]
)
def test_characters_beyond_ascii_come_out_of_every_kind_of_word_as_they_went_in(character: str) -> None:
    words = f"{{{character} a{character}b '{character}' \"{character}\" $'{character}' {character}"
    assert read_shell(f"echo {words}").commands[0].args == (
        f"{{{character}",
        f"a{character}b",
        character,
        character,
        character,
        character,
    )


@given(st.text(max_size=200))
@settings(max_examples=50, deadline=None)
def test_reading_is_a_function_of_the_text(text: str) -> None:
    assert read_shell(text) == read_shell(text)


@pytest.mark.parametrize("token", LIMITS)
def test_a_text_past_a_token_limit_is_not_parsed(token: str) -> None:
    assert shell_bounds("ls -la") is None
    assert shell_bounds(token * (2 * LIMITS[token])) is not None


def test_a_text_past_the_bounds_is_inconclusive_and_still_read_roughly() -> None:
    reading = read_shell("rm -rf / ; " + "a=(" * 200)
    assert reading.inconclusive is not None
    assert ("rm", ("-rf", "/")) in [(one.program, one.args) for one in reading.commands]


def test_texts_inside_texts_end_somewhere() -> None:
    assert read_shell("eval " * 9 + "ls").inconclusive == "nested_too_deep"


def test_padding_does_not_hide_who_feeds_a_shell() -> None:
    assert read_shell("curl http://h/x | " + "cat | " * 20 + "sh").inconclusive == "too_many_feeders"


def test_padding_does_not_hide_a_target() -> None:
    text = "rm -rf " + " ".join(f"$TMPDIR/{number}" for number in range(200)) + " /etc"
    assert "files.rm-recursive-force" in [one.id for one in LIBRARY.matches(read_shell(text))]


def test_a_function_that_calls_itself_ends() -> None:
    assert read_shell("f() { f; }; f").inconclusive == "nested_too_deep"
