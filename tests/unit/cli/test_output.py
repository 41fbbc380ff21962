"""Content on a reviewer's terminal: what a model would read is what the reviewer sees."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sluice.cli.output import MARGIN, quoted, visible


def printed(text: str, most: int = 10**6) -> str:
    out = io.StringIO()
    Console(file=out, force_terminal=False).print(quoted(text, most), soft_wrap=True, highlight=False)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "character"),
    [
        ("escape", "\x1b"),
        ("right-to-left override", "\u202e"),
        ("zero width space", "\u200b"),
        ("byte order mark", "\ufeff"),
        ("Unicode tag", "\U000e0041"),
        ("variation selector", "\ufe0f"),
        ("supplementary variation selector", "\U000e0155"),
        ("Hangul filler", "\u3164"),
        ("blank Braille pattern", "\u2800"),
        ("combining grapheme joiner", "\u034f"),
        ("carriage return", "\r"),
        ("line separator", "\u2028"),
        ("lone surrogate", "\ud800"),
    ],
)
def test_what_cannot_be_seen_stands_as_its_code_point(name: str, character: str) -> None:
    assert visible(f"a{character}b").plain == f"a<U+{ord(character):04X}>b", name


def test_what_can_be_seen_stays_in_every_script() -> None:
    for text in ("Grüße", "你好 世界", "مرحبا", "नमस्ते", "🙂", "[red]no markup[/]", "back\\slash"):
        assert printed(text) == f"{MARGIN}{text}\n"


def test_no_line_of_a_content_can_pass_for_one_of_ours() -> None:
    assert printed("first\napproved by carol") == f"{MARGIN}first\n{MARGIN}approved by carol\n"


def test_a_long_content_is_cut_with_how_much_is_left() -> None:
    assert printed("x" * 50, 10) == f"{MARGIN}{'x' * 10}\n{MARGIN}… 40 characters more\n"


@given(st.text(max_size=60))
def test_nothing_unprintable_ever_reaches_the_terminal(text: str) -> None:
    assert all(line.isprintable() for line in quoted(text, 100).plain.split("\n"))
