"""The linear scan in front of the shell's parser.

tree-sitter-bash cannot be interrupted and takes time in the square of some tokens' number: at 1 KB 33 ms for
`a=(` repeated, 25 ms for `a|`, 11 ms for `$[`, 10 ms for `[[ a =~ (`, 8 ms for `>`, 7 ms for `a)`. The limits
give each token alone about 1 ms; together they may use a fifth more.
"""

from __future__ import annotations

MOST_CHARACTERS = 4096
"""The longest text that is parsed; longer ones take milliseconds even when they are harmless."""
MOST_LOAD = 1.2
"""Shares of the tokens' limits, added up; the panel's busiest script has 0.84."""
LIMITS = {
    "=(": 16,
    "(": 96,
    ")": 128,
    "((": 48,
    "$[": 20,
    "[": 128,
    "=~": 10,
    "|": 128,
    ">": 96,
    "<": 96,
    "<<": 24,
    "${": 128,
    "`": 96,
    ";": 256,
    "&": 192,
    "{": 192,
    "=": 256,
    "!": 192,
    '"': 400,
    "'": 400,
    "for ": 64,
    "while ": 64,
    "until ": 64,
    "select ": 64,
    "case ": 64,
    "function ": 64,
    "then ": 96,
    "do ": 96,
    " in ": 96,
}
"""How often each token may stand in one text, alone."""


def shell_bounds(text: str) -> str | None:
    """Why `text` may not be parsed; None where it may. Linear in the text, quotes are not looked at."""
    if len(text) > MOST_CHARACTERS:
        return f"a shell text of {len(text)} characters is too long to parse"
    load = sum(text.count(token) / limit for token, limit in LIMITS.items())
    return "a shell text repeats too many operators to parse" if load > MOST_LOAD else None
