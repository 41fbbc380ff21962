"""A tolerant lexer for many languages at once: names with their paths, strings, brackets, signs. Linear."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["name", "string", "template", "regex", "number", "open", "close", "end", "sign"]


class Token(NamedTuple):
    """`text` without quotes for strings; of a name the whole path as written (`File::delete`, `.forEach`)."""

    kind: Kind
    text: str


_TOKENS = re.compile(
    r""" (?P<skip>[ \t\r]+|//[^\n]*|/\*.*?(?:\*/|\Z)|\#(?![{\[])[^\n]*|\\\n) |
    (?P<string>[rbfu@$]{0,2}\"\"\".*?(?:\"\"\"|\Z)|[rbfu@$]{0,2}'''.*?(?:'''|\Z)
    |[rbfu@]?\"(?:[^\"\\\n]|\\.)*(?:\"|\Z|(?=\n))|[rbfu@]?'(?:[^'\\\n]|\\.)*(?:'|\Z|(?=\n))) |
    (?P<template>`(?:[^`\\]|\\.)*(?:`|\Z)|%x[({\[][^)}\]]*[)}\]]|qx[({/][^)}/]*[)}/]) | (?P<name>(?:(?:\??\.
    |::|->)\s*|[$@%&]{1,2})?[^\W\d][\w$]*[!?]?(?:\s*(?:\??\.|::|-
    >)\s*(?:[^\W\d][\w$]*[!?]?|\$(?=`)))*|\$(?=`)) | (?P<number>\d[\w.]*) | (?P<open>[({\[]) |
    (?P<close>[)}\]]) | (?P<end>[;\n]) | (?P<sign>=>|:=|==+|!=+|<=|>=|&&|\|\||\.\.|[^\s\w])
    """,
    re.VERBOSE | re.DOTALL,
)
_GOES_ON = re.compile(r"\s*(?:\??\.(?!\.)|->|::|\+|\|\||&&)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_AROUND_NAME = re.compile(r"\s+")
_PARTS = re.compile(r"\?\.|::|->")
MOST_TOKENS = 1000
"""The most tokens of one piece of code."""


def tokens(text: str) -> Iterator[Token]:
    """All tokens but blanks and comments; a line's end where the next one does not go on with it."""
    for found in _TOKENS.finditer(text):
        kind = found.lastgroup
        if kind == "skip" or kind is None:
            continue
        raw = found.group()
        if kind == "string":
            yield Token("string", _unquoted(raw))
        elif kind == "template":
            yield Token("template", raw[1:-1] if raw[0] == "`" else raw[3:-1])
        elif kind == "name":
            yield Token("name", _PARTS.sub(".", _AROUND_NAME.sub("", raw)))
        elif kind == "end" and raw == "\n" and _GOES_ON.match(text, found.end()):
            continue
        else:
            yield Token(kind, raw)  # type: ignore[arg-type]


def _unquoted(raw: str) -> str:
    body = raw.lstrip("rbfuRBFU@$")
    is_raw = raw[:1] in "rR@" or "r" in raw[: len(raw) - len(body)]
    quote = body[:3] if body[:3] in ('"""', "'''") else body[:1]
    body = body[len(quote) :]
    body = body.removesuffix(quote)
    return body if is_raw or "\\" not in body else _ESCAPE.sub(_unescaped, body)


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "xu" and len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, code)
