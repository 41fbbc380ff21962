"""Parameter expansion (Bash manual, 3.5.3), as far as the text itself tells a variable's value.

An unknown variable stays as `$NAME`, so that a pattern can see it (`rm -rf $DIR`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.core.commands.shell.scope import Scope

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


def expanded(text: str, scope: Scope) -> str:
    """The value of `$x` or `${x...}`; the text itself where it is not known, or too long by now."""
    value = _expanded(text, scope)
    return value if scope.may_expand(len(value)) else text


def _expanded(text: str, scope: Scope) -> str:
    plain = _PLAIN.match(text)
    if plain:
        return _value(plain[1], scope)
    for form, value in _FORMS:
        match = form.match(text)
        if match:
            return value(match, scope)
    return text


def _value(name: str, scope: Scope) -> str:
    if name == "IFS":
        return scope.variables.get("IFS", " ")
    if name == "*":
        name = "@"
    return scope.variables.get(name, "$" + name)


def _indirect(match: re.Match[str], scope: Scope) -> str:
    return _value(scope.variables.get(match[1], match[1]), scope)


def _sliced(match: re.Match[str], scope: Scope) -> str:
    value = scope.variables.get(match[1], _USUAL.get(match[1]))
    if value is None:
        return "$" + match[1]
    start = int(match[2])
    return value[start:] if match[3] is None else value[start:][: int(match[3])]


def _defaulted(match: re.Match[str], scope: Scope) -> str:
    name, operator, word = match[1], match[2], match[3]
    if name in scope.variables:
        return word if operator == "+" else scope.variables[name]
    if operator == "=":
        scope.variables[name] = word
    return "" if operator == "+" else word


def _replaced(match: re.Match[str], scope: Scope) -> str:
    value = _value(match[1], scope)
    times = value.count(match[2]) if "//" in match[0] else 1
    return value.replace(match[2], match[3], times) if scope.may_expand(times * len(match[3])) else value


def _trimmed(match: re.Match[str], scope: Scope) -> str:
    value, pattern = _value(match[1], scope), match[3].replace("*", "")
    return value.removeprefix(pattern) if match[2][0] == "#" else value.removesuffix(pattern)


def _cased(match: re.Match[str], scope: Scope) -> str:
    value = _value(match[1], scope)
    return value.lower() if match[2][0] == "," else value.upper()


_FORMS = (
    (_INDIRECT, _indirect),
    (_SLICE, _sliced),
    (_DEFAULT, _defaulted),
    (_TRIM, _trimmed),
    (_CASE, _cased),
    (_REPLACE, _replaced),
)
