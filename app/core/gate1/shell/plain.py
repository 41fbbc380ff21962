"""Splitting without a grammar: lines so plain that they need none, and texts that the grammar cannot read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,-]+(?: +[A-Za-z0-9_./:@%+,=-]+)*")
_KEYWORDS = frozenset(
    {
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "for",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "in",
        "function",
        "select",
        "time",
        "coproc",
        "export",
        "declare",
        "local",
        "readonly",
        "typeset",
        "unset",
    }
)
_TOKEN = re.compile(
    r"""(?P<end>\|\||&&|[;|&\n(){}]+)|(?P<word>(?:[^\s;|&(){}"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+)""",
    re.DOTALL,
)
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'", re.DOTALL)


def plain_words(text: str) -> tuple[str, ...] | None:
    """The words of a line without any quoting, expansion or operator; None where the grammar is needed."""
    if _PLAIN.fullmatch(text) is None:
        return None
    words = tuple(text.split(" "))
    if "" in words:
        words = tuple(filter(None, words))
    return None if words[0] in _KEYWORDS else words


def rough_commands(text: str) -> Iterator[tuple[str, ...]]:
    """The words of each command by operators and quotes alone: for text with errors, such as PowerShell."""
    words: list[str] = []
    for match in _TOKEN.finditer(text):
        if match["word"] is not None:
            words.append(_QUOTED.sub(lambda quoted: quoted[1] or quoted[2] or "", match["word"]))
        elif words:
            yield tuple(words)
            words = []
    if words:
        yield tuple(words)
