"""The linear scan in front of Python's parser.

`ast.parse` cannot be interrupted: 8 KiB of `a;` take it 32 ms, of `a or ` 31 ms, and as many unary or binary
operators in one expression raise RecursionError, at a depth that depends on the caller's stack. Its time goes
by tokens and its depth by operators, so the marks between words are bounded; of the standard library's code
8 KiB have 1 070 of them at the median and 1 920 at the 95th percentile.
"""

from __future__ import annotations

from app.core.gate1.scan import nesting

MOST_CHARACTERS = 8192
MOST_NESTING = 40
"""Brackets within brackets."""
MOST_MARKS = 2000
"""Operators, brackets and separators, words that are operators included."""
MOST_STATEMENTS = 500
"""Lines that are not blank, and semicolons: half of the library's longest have 260 in 8 KiB."""
MOST_WORDS = 400
"""Words that are operators or begin a clause; where the parser fails it reads them once more."""
_MARKS = str.maketrans("", "", ";,.()[]{}:=+-*/%|&^<>~@\"'\n")
_WORDS = (
    "or ",
    "and ",
    "in ",
    "is ",
    "not ",
    "if ",
    "lambda",
    "await ",
    "for ",
    "global ",
    "except",
    "case ",
    "print ",
)


def python_bounds(text: str) -> str | None:
    """Why `text` may not be parsed; None where it may. Linear in the text, quotes are not looked at."""
    if len(text) > MOST_CHARACTERS:
        return f"{len(text)} characters of Python are too many to parse"
    if "\0" in text:
        return "a null byte in Python"
    words = sum(map(text.count, _WORDS))
    marks = len(text) - len(text.translate(_MARKS)) + words
    if marks > MOST_MARKS or words > MOST_WORDS:
        return f"{marks} operators are too many to parse"
    statements = text.count("\n") - text.count("\n\n") + text.count(";")
    if statements > MOST_STATEMENTS:
        return f"{statements} statements are too many to parse"
    return "brackets are nested too deep to parse" if nesting(text) > MOST_NESTING else None
