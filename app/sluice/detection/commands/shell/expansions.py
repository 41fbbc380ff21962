"""Quoting, escapes, braces and parameter expansion (Bash manual, 3.1.2, 3.5.1, 3.5.3).

A variable's value is known as far as the text itself tells it. An unknown variable stays as `$NAME`, so that
a pattern can see it (`rm -rf $DIR`).
"""

from __future__ import annotations

import re
from itertools import islice, product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluice.detection.commands.shell.shell_reading import ShellScope

MOST_BRACE_WORDS = 64
"""How many words one brace expansion may give. People do not name more targets, and products grow fast."""

_ANSI_C = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_BACKSLASH = re.compile(r"\\(.)", re.DOTALL)
_IN_QUOTES = re.compile(r"\\([$`\"\\\n])")
_WINDOWS = re.compile(r"(?:[A-Za-z]:|%\w+%|HK[A-Z_]+:?|\\)\\|.*\\[A-Za-z]\w+\\", re.IGNORECASE)
_BRACES = re.compile(r"\{([^{}\s]*,[^{}\s]*)\}")
_RANGE = re.compile(r"\{(-?\d{1,9}|[A-Za-z])\.\.(-?\d{1,9}|[A-Za-z])(?:\.\.-?\d{1,9})?\}")
_LEADING = re.compile(r"(^|[;&|(\n]\s*)\{([^{}\s]*,[^{}\s]*)\}")
_OPENED_BOTH_WAYS = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.|(<>)""", re.DOTALL)
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


def drop_backslashes(text: str) -> str:
    """An unquoted word without its backslashes; a Windows path keeps them."""
    if "\\" not in text:
        return text
    joined = text.replace("\\\n", "")
    return joined if _WINDOWS.match(joined) else _BACKSLASH.sub(r"\1", joined)


def drop_backslashes_in_quotes(text: str) -> str:
    """The inside of double quotes: a backslash only escapes dollar, backtick, quote, backslash, newline."""
    if "\\" not in text:
        return text
    return _IN_QUOTES.sub(lambda match: "" if match[1] == "\n" else match[1], text)


def braces(word: str) -> list[str]:
    """The words of `a{b,c}d`, `{a,{b,c}}` and `{a..c}`, at most MOST_BRACE_WORDS, each once; a word without
    braces as it is."""
    words, done = [word], False
    while not done:
        expanded_once = [expanded for each in words for expanded in _expand_innermost(each)]
        if len(expanded_once) >= MOST_BRACE_WORDS:
            return expanded_once[:MOST_BRACE_WORDS]
        done, words = expanded_once == words, list(dict.fromkeys(expanded_once))
    return words


def _expand_innermost(word: str) -> list[str]:
    parts = _BRACES.split(_RANGE.sub(_list_range, word))
    choices = [
        list(dict.fromkeys(part.split(","))) if index % 2 else [part] for index, part in enumerate(parts)
    ]
    return ["".join(choice) for choice in islice(product(*choices), MOST_BRACE_WORDS)]


def _list_range(match: re.Match[str]) -> str:
    """`{a..c}` as `{a,b,c}`; one that mixes letters and numbers is none. A long one stays as it is:
    numbers hide nothing."""
    first, last = match[1], match[2]
    if first.isalpha() != last.isalpha():
        return match[0]
    start, end = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
    if abs(end - start) >= MOST_BRACE_WORDS:
        return match[0]
    step = 1 if start <= end else -1
    listed = [chr(value) if first.isalpha() else str(value) for value in range(start, end + step, step)]
    return listed[0] if len(listed) == 1 else "{" + ",".join(listed) + "}"


def write_in_grammar(text: str) -> str:
    """The text in the words of the grammar: `{rm,-rf,/}` where a command begins, which it takes for a group's
    brace, is written out, and `<>`, which it does not know, becomes `>>`: the file may be written."""
    text = _LEADING.sub(lambda match: match[1] + match[2].replace(",", " "), text)
    return _OPENED_BOTH_WAYS.sub(lambda match: ">>" if match[1] else match[0], text)


def _character(escape: str) -> str:
    first = escape[0]
    if first in "xuU" and len(escape) > 1:
        return chr(min(int(escape[1:], 16), _MOST_CODE_POINT))
    if first.isdigit() and first < "8":
        return chr(int(escape, 8) & 0xFF)
    if first == "c" and len(escape) > 1:
        return chr(ord(escape[1]) & 0x1F)
    return _LETTERS.get(first, escape)


_PLAIN = re.compile(r"\$\{?([A-Za-z_]\w*|[0-9@*#?!$-])\}?$")
_INDIRECT = re.compile(r"\$\{!([A-Za-z_]\w*)\}$")
_SLICE = re.compile(r"\$\{([A-Za-z_]\w*):\s*(-?\d+)(?::(\d+))?\}$")
_DEFAULT = re.compile(r"\$\{([A-Za-z_]\w*):?([-=+])([^}]*)\}$")
_REPLACE = re.compile(r"\$\{([A-Za-z_]\w*)//?([^/}]+)/?([^}]*)\}$")
_TRIM = re.compile(r"\$\{([A-Za-z_]\w*)(##?|%%?)([^}]*)\}$")
_CASE = re.compile(r"\$\{([A-Za-z_]\w*)(,,?|\^\^?)\}$")
_USUAL = {
    "IFS": " ",
    "HOME": "/root",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PWD": "/",
    "SHELL": "/bin/bash",
}
"""What a slice of a variable of every environment gives: `${HOME:0:1}` is a usual way to write `/`."""
_SET_ELSEWHERE = frozenset([*_USUAL, "USER", "LOGNAME", "TERM", "LANG", "HOSTNAME", "OLDPWD", "UID", "EUID"])
"""Variables that are set although the text does not set them."""


def expand(text: str, scope: ShellScope) -> str:
    """The value of `$x` or `${x...}`; the text itself where it is not known, or too long by now."""
    value = _expand_word(text, scope)
    return value if scope.may_expand(len(value)) else text


def _expand_word(text: str, scope: ShellScope) -> str:
    plain = _PLAIN.match(text)
    if plain:
        return _value(plain[1], scope)
    for form, value in _FORMS:
        match = form.match(text)
        if match:
            return value(match, scope)
    return text


def _value(name: str, scope: ShellScope) -> str:
    if name == "IFS":
        return scope.variables.get("IFS", " ")
    if name == "*":
        name = "@"
    return scope.variables.get(name, "$" + name)


def _indirect(match: re.Match[str], scope: ShellScope) -> str:
    return _value(scope.variables.get(match[1], match[1]), scope)


def _slice(match: re.Match[str], scope: ShellScope) -> str:
    value = scope.variables.get(match[1], _USUAL.get(match[1]))
    if value is None:
        return "$" + match[1]
    start = int(match[2])
    return value[start:] if match[3] is None else value[start:][: int(match[3])]


def _take_default(match: re.Match[str], scope: ShellScope) -> str:
    """A variable that the text does not set may be set or not: `${x:+rm}` and `${x:-rm}` may both be `rm`."""
    name, operator, word = match[1], match[2], match[3]
    if name in scope.variables:
        return word if operator == "+" else scope.variables[name]
    if name in _SET_ELSEWHERE:
        return word if operator == "+" else "$" + name
    if operator == "=":
        scope.variables[name] = word
    return word


def _replace(match: re.Match[str], scope: ShellScope) -> str:
    value = _value(match[1], scope)
    if value.startswith("$"):
        return value
    times = value.count(match[2]) if "//" in match[0] else 1
    return value.replace(match[2], match[3], times) if scope.may_expand(times * len(match[3])) else value


def _trim(match: re.Match[str], scope: ShellScope) -> str:
    value, pattern = _value(match[1], scope), match[3].replace("*", "")
    if value.startswith("$"):
        return value
    return value.removeprefix(pattern) if match[2][0] == "#" else value.removesuffix(pattern)


def _change_case(match: re.Match[str], scope: ShellScope) -> str:
    value = _value(match[1], scope)
    return value.lower() if match[2][0] == "," else value.upper()


_FORMS = (
    (_INDIRECT, _indirect),
    (_SLICE, _slice),
    (_DEFAULT, _take_default),
    (_TRIM, _trim),
    (_CASE, _change_case),
    (_REPLACE, _replace),
)
