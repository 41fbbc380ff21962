"""Expressions with words of any script.

RE2's \\w and \\W know ASCII alone. Here every character above ASCII is one of a word: normalised text has few
others there, and real Unicode classes would make each automaton hundreds of times as large.
"""

from __future__ import annotations

import re

_WORD = r"0-9A-Za-z_\x{80}-\x{10FFFF}"
_NO_WORD = r"\x00-/:-@\[-\^`{-\x7f"
_INSIDE = {r"\w": _WORD, r"\W": _NO_WORD}
_OUTSIDE = {r"\w": f"[{_WORD}]", r"\W": f"[^{_WORD}]"}
_PART = re.compile(
    r"\\[pP](?:\{\^?\w+\}|\w)|\\x(?:\{[0-9a-fA-F]+\}|[0-9a-fA-F]{2})|\\.|\[\^?\]?|.", re.DOTALL
)


def rewritten(expression: str) -> str:
    """The expression, in which \\w is any letter, digit, underscore or character above ASCII."""
    out: list[str] = []
    inside = False
    for part in _PART.findall(expression):
        out.append((_INSIDE if inside else _OUTSIDE).get(part, part))
        inside = part != "]" if inside else part[0] == "["
    return "".join(out)
