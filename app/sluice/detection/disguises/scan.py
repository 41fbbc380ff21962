"""The linear scan before any parser: bytes, nesting and repetition, so that no parser call can stall.

Parsers cannot be interrupted. tree-sitter-bash is quadratic on `a=(` repeated (21 ms at 1 KB, 21 s at 64 KB),
sqlglot's recursion fails at 45 parentheses or fewer, and 64 KB of SQL take it 690 ms. What is past a bound is
judged by linear expressions alone, and the result is then at least an escalation.
"""

from __future__ import annotations

import re

PARSED_CHARS = 3072
"""The longest text that a parser is given."""
PARSED_NESTING = 24
"""The deepest nesting of brackets that a parser is given."""
UNFOLDED_CHARS = 3072
"""A longer text is not unfolded, nor more than so many characters of an action's disguises read."""
_BRACKETS = re.compile(r"[()\[\]{}]+")
_STEP = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def exceed_bounds(text: str) -> str | None:
    """Which bound the text passes, None where a parser may read it."""
    if len(text) > PARSED_CHARS:
        return f"a text of {len(text)} characters is too long to parse"
    opened = text.count("(") + text.count("[") + text.count("{")
    if opened > PARSED_NESTING and measure_nesting(text) > PARSED_NESTING:
        return "brackets are nested too deep to parse"
    return None


def measure_nesting(text: str) -> int:
    """The deepest nesting of brackets, counted without regard to quotes: never less than it is."""
    depth = deepest = 0
    for run in _BRACKETS.findall(text):
        for bracket in run:
            depth = max(0, depth + _STEP[bracket])
            deepest = max(deepest, depth)
    return deepest
