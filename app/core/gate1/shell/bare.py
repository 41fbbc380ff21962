"""A text without what its quotes hold and without its comments, for estimates: not a reading of the text."""

from __future__ import annotations

import re

_SINGLE = r"\$?'[^']*'"
_SUBSTITUTION = rf"""\$\((?:[^()"'\\]|\\.|"(?:[^"\\]|\\.)*"|{_SINGLE})*+\)"""
_DOUBLE = rf"""\"(?:[^\"\\$]|\\.|{_SUBSTITUTION}|\$)*+\""""
_COMMENT = r"(?:^|(?<=[\s;&|()]))#[^\n]*"
_QUOTED = re.compile(rf"\\.|{_SINGLE}|{_DOUBLE}|{_COMMENT}", re.DOTALL)
"""Double quotes with a substitution in them may hold double quotes again. The repeats are possessive: giving
back what they took could only cost time."""
_HERE_DOCUMENT = re.compile(r"(?<!<)<<(?!<)")


def bare(text: str) -> str:
    """`q` for each quoted text; double quotes with expansions in them stay whole.

    With a here-document all stays, since the quotes in one need not close.
    """
    return text if _HERE_DOCUMENT.search(text) else _QUOTED.sub(_placeholder, text)


def _placeholder(match: re.Match[str]) -> str:
    quoted = match[0]
    if quoted[0] == '"' and ("$" in quoted or "`" in quoted):
        return quoted
    return "" if quoted[0] == "#" else "q"
