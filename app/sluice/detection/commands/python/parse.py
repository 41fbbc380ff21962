"""Python's own parser, without its warnings."""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from typing import NamedTuple

from sluice.detection.disguises.scan import measure_nesting


def parse(program: str) -> ast.Module | None:
    """The program's tree; None of what is not Python, or too deep for the parser."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(program)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None


_FENCE = re.compile(
    r"\A\s*```[ \t]*(?:python3?|py|ipython)?[ \t]*\n(.*?)(?:```\s*)?\Z", re.DOTALL | re.IGNORECASE
)
_PROMPT = re.compile(r"^(?:>>> ?|\.\.\. ?|In \[\d+\]: ?)", re.MULTILINE)
_CELL_SHELL = re.compile(r"\A\s*%%(?:bash|sh|script[ \t]+(?:ba|z)?sh|!)[^\n]*\n(.*)\Z", re.DOTALL)
_CELL = re.compile(r"\A\s*%%\w+[^\n]*\n")
_LINE = re.compile(
    r"^([ \t]*)(?:(\w+)[ \t]*=[ \t]*)?(?:!{1,2}|%(?:sx|system|sc)[ \t])([^=\n][^\n]*)$"
    r"|^([ \t]*)%[a-zA-Z][^\n]*$",
    re.MULTILINE,
)
_MAGIC = re.compile(r"(?:\A|\n)[ \t]*(?:\w+[ \t]*=[ \t]*)?[!%]")


class PythonSource(NamedTuple):
    """The program, and the shell texts that stood in it as a notebook's commands."""

    program: str
    shell: tuple[str, ...] = ()


def source(text: str) -> PythonSource:
    """IPython's `!command`, `%%bash` and magics taken out, doctest prompts and Markdown fences stripped."""
    fenced = _FENCE.match(text) if "```" in text else None
    text = fenced[1] if fenced else text
    if text[:1] in {" ", "\t", "\n"}:
        text = textwrap.dedent(text)
    if ">>>" in text or text.startswith("In ["):
        text = _PROMPT.sub("", text)
    if not _MAGIC.search(text):
        return PythonSource(text)
    cell = _CELL_SHELL.match(text)
    if cell:
        return PythonSource("", (cell[1],))
    shell: list[str] = []

    def plain(match: re.Match[str]) -> str:
        if match[3] is None:
            return f"{match[4]}pass"
        shell.append(match[3])
        return f"{match[1]}pass"

    return PythonSource(_LINE.sub(plain, _CELL.sub("", text)), tuple(shell))


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
    """Why `text` may not be parsed; None where it may. Linear in the text, quotes are not looked at.

    `ast.parse` cannot be interrupted: 8 KiB of `a;` take it 32 ms, of `a or ` 31 ms, and as many unary or
    binary operators in one expression raise RecursionError, at a depth that depends on the caller's stack.
    Its time goes by tokens and its depth by operators, so the marks between words are bounded; of the
    standard library's code 8 KiB have 1 070 of them at the median and 1 920 at the 95th percentile.
    """
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
    return "brackets are nested too deep to parse" if measure_nesting(text) > MOST_NESTING else None
