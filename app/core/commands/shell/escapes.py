"""Quoting and escapes of the shell's words (Bash manual, 3.1.2 "Quoting" and 3.5.1 "Brace Expansion")."""

from __future__ import annotations

import re
from itertools import islice, product

MOST_BRACE_WORDS = 32
"""Words that one brace expansion may give: nobody names more targets by hand, and products grow fast."""

_ANSI_C = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_BACKSLASH = re.compile(r"\\(.)", re.DOTALL)
_IN_QUOTES = re.compile(r"\\([$`\"\\\n])")
_WINDOWS = re.compile(r"(?:[A-Za-z]:|%\w+%|HK[A-Z_]+:?|\\)\\|.*\\[A-Za-z]\w+\\", re.IGNORECASE)
_BRACES = re.compile(r"\{([^{}\s]*,[^{}\s]*)\}")
_LEADING = re.compile(r"(^|[;&|(\n]\s*)\{([^{}\s]*,[^{}\s]*)\}")
_LETTERS = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "e": "\x1b",
    "E": "\x1b",
}
_MOST_CODE_POINT = 0x10FFFF


def ansi_c(text: str) -> str:
    r"""The inside of `$'...'` with `\n`, `\x41`, `\101`, `\u0041` and the like replaced."""
    return _ANSI_C.sub(lambda match: _character(match[1]), text)


def unescaped(text: str) -> str:
    """An unquoted word without its backslashes; a Windows path keeps them."""
    if "\\" not in text:
        return text
    joined = text.replace("\\\n", "")
    return joined if _WINDOWS.match(joined) else _BACKSLASH.sub(r"\1", joined)


def unescaped_in_quotes(text: str) -> str:
    """The inside of double quotes: a backslash only escapes dollar, backtick, quote, backslash, newline."""
    if "\\" not in text:
        return text
    return _IN_QUOTES.sub(lambda match: "" if match[1] == "\n" else match[1], text)


def braces(word: str) -> list[str]:
    """The words of `a{b,c}d`, at most MOST_BRACE_WORDS; a word without braces as it is."""
    parts = _BRACES.split(word)
    if len(parts) == 1:
        return [word]
    choices = [part.split(",") if place % 2 else [part] for place, part in enumerate(parts)]
    return ["".join(one) for one in islice(product(*choices), MOST_BRACE_WORDS)]


def without_leading_braces(text: str) -> str:
    """`{rm,-rf,/}` where a command begins, written out: the grammar takes such a brace for a group's."""
    return _LEADING.sub(lambda match: match[1] + match[2].replace(",", " "), text)


def _character(escape: str) -> str:
    first = escape[0]
    if first in "xuU" and len(escape) > 1:
        return chr(min(int(escape[1:], 16), _MOST_CODE_POINT))
    if first.isdigit() and first < "8":
        return chr(int(escape, 8) & 0xFF)
    if first == "c" and len(escape) > 1:
        return chr(ord(escape[1]) & 0x1F)
    return _LETTERS.get(first, escape)
