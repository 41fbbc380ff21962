"""Content on a reviewer's terminal: what a model would read is what the reviewer sees."""

from __future__ import annotations

import ast
import io
import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner

from sluice.cli.ledger.record_words import describe_policy
from sluice.cli.main import cli
from sluice.cli.output import MARGIN, WholeConsole, make_visible, quote
from sluice.gateway.pages.rendering import LONGEST, write_visible
from sluice.text.plurals import count_noun

if TYPE_CHECKING:
    from collections.abc import Iterator

APP = Path(__file__).resolve().parents[3] / "app" / "sluice"


def print_text(text: str, most: int = 10**6) -> str:
    out = io.StringIO()
    Console(file=out, force_terminal=False).print(quote(text, most), soft_wrap=True, highlight=False)
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
    assert make_visible(f"a{character}b").plain == f"a<U+{ord(character):04X}>b", name


def test_what_can_be_seen_stays_in_every_script() -> None:
    for text in ("Grüße", "你好 世界", "مرحبا", "नमस्ते", "🙂", "[red]no markup[/]", "back\\slash"):
        assert print_text(text) == f"{MARGIN}{text}\n"


def test_no_line_of_a_content_can_pass_for_one_of_ours() -> None:
    assert print_text("first\napproved by carol") == f"{MARGIN}first\n{MARGIN}approved by carol\n"


def test_a_long_content_is_cut_with_how_much_is_left() -> None:
    assert print_text("x" * 50, 10) == f"{MARGIN}{'x' * 10}\n{MARGIN}… 40 characters more\n"


@given(st.text(max_size=60))
def test_nothing_unprintable_ever_reaches_the_terminal(text: str) -> None:
    assert all(line.isprintable() for line in quote(text, 100).plain.split("\n"))


def test_what_another_program_reads_is_not_cut_at_the_width_of_no_terminal() -> None:
    """Mend 22.24: a table in a pipe has its cells whole; a terminal and COLUMNS still count."""
    table = Table("id", "reason")
    table.add_row("verdict:gate.actions.proposed:3:17", "x" * 120)

    def pipe(environment: dict[str, str]) -> str:
        out = io.StringIO()
        WholeConsole(file=out, _environ=environment).print(table)
        return out.getvalue()

    assert "x" * 120 in pipe({})
    assert "x" * 120 not in pipe({"COLUMNS": "60"})


@pytest.mark.parametrize("verb", ["mcp", "grader", "policy", "keys"])
def test_help_says_when_one_uses_the_verb(verb: str) -> None:
    """Mend 22.24."""
    assert "Use it " in CliRunner().invoke(cli, [verb, "--help"]).stdout


@pytest.mark.parametrize(
    ("number", "records", "characters", "entries"),
    [(1, "1 record", "1 character", "1 entry"), (2, "2 records", "2 characters", "2 entries")],
)
def test_a_number_has_its_noun_in_what_is_printed(
    number: int, records: str, characters: str, entries: str
) -> None:
    """Mend 22.24: it said "1 characters more" and "1 entries"."""
    assert [count_noun(n, "entry", "entries") for n in (0, number)] == ["0 entries", entries]
    assert count_noun(number, "record") == records
    text = "a" * (LONGEST + number)
    assert f"… {characters} more" in write_visible(text)
    assert f"… {characters} more" in print_text(text, LONGEST)
    assert f" {entries}, " in describe_policy({"entries": number})


def _bare_numbers(path: Path) -> Iterator[str]:
    """Lines in which a length stands before a plural without asking whether it is one."""
    for node in ast.walk(ast.parse(path.read_text())):
        parts = node.values if isinstance(node, ast.JoinedStr) else []
        for number, noun in itertools.pairwise(parts):
            is_length = isinstance(number, ast.FormattedValue) and ast.unparse(number.value).startswith(
                "len("
            )
            if (
                is_length
                and isinstance(noun, ast.Constant)
                and re.match(r"(\[/\])? [a-z]+s\b", str(noun.value))
            ):
                yield f"{path.name}:{noun.lineno}: {noun.value!r}"


def test_no_message_writes_a_length_before_a_plural_by_itself() -> None:
    """Mend 22.24: a new message takes `counted` too. The demo knows how much it has."""
    folders = ("cli", "offline", "verifier", "notify", "gateway")
    files = [path for one in folders for path in (APP / one).rglob("*.py") if path.parent.name != "demo"]
    assert len(files) > len(folders)
    assert [line for path in files for line in _bare_numbers(path)] == []
