"""The linear scan in front of Python's parser.

`ast.parse` cannot be interrupted: 8 KiB of `a;` take it 32 ms, of `a or ` 31 ms, and as many unary or binary
operators in one expression raise RecursionError, at a depth that depends on the caller's stack. Its time goes by
tokens and its depth by operators, so the marks between words are bounded; 8 KiB of ordinary code have 1 000 to
1 600 of them.
"""

from __future__ import annotations

import re

from app.core.gate1.scan import nesting

MOST_CHARACTERS = 8192
MOST_NESTING = 40
"""Brackets within brackets."""
MOST_MARKS = 2000
"""Operators, brackets and separators, words that are operators included."""
_MARKS = str.maketrans("", "", ";,.()[]{}:=+-*/%|&^<>~@\"'")
_WORDS = re.compile(r"\b(?:or|and|in|is|not|if|lambda|await|for|global|except)\b")


def python_bounds(text: str) -> str | None:
    """Why `text` may not be parsed; None where it may. Linear in the text, quotes are not looked at."""
    if len(text) > MOST_CHARACTERS:
        return f"{len(text)} characters of Python are too many to parse"
    if "\0" in text:
        return "a null byte in Python"
    marks = len(text) - len(text.translate(_MARKS)) + len(_WORDS.findall(text))
    if marks > MOST_MARKS:
        return f"{marks} operators are too many to parse"
    return "brackets are nested too deep to parse" if nesting(text) > MOST_NESTING else None
