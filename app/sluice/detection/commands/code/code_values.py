"""A tolerant lexer for many languages at once, and what a piece of code says of a value.

Tokens are names with their paths, strings, brackets and signs, in linear time. A value is a text, a list,
named options; put together as the code does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from sluice.detection.commands.python.python_values import HOLE, MOST_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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


class CodeValue(NamedTuple):
    """`text` with HOLE for unknown parts, None where nothing is known; `items` of a list; `options` by name.

    `name`: the path of what is named or was called; `lists`: its elements are the files below `text`.
    """

    text: str | None = None
    items: tuple[CodeValue, ...] | None = None
    options: tuple[tuple[str, CodeValue], ...] = ()
    name: str = ""
    lists: bool = False

    def option(self, *names: str) -> CodeValue | None:
        """The option of one of these names, in lower case."""
        return next((value for name, value in self.options if name in names), None)


Node: TypeAlias = Token | CodeValue
UNKNOWN = CodeValue()
_INSERTED = re.compile(r"\$\{([^{}]*)\}|#\{([^{}]*)\}|(?<![\\$])\$([A-Za-z_]\w*)")
_PLUS = frozenset(["+", ".", "..", "~", "/", "&", "<>"])
_COMMA = frozenset([","])
_NAMED = frozenset([":", "=>", "="])
HOMES = {"process.env.home": "~", "os.homedir": "~", "env.home": "~", "dir.home": "~", "__dirname": "."}


def is_sign(node: Node, signs: frozenset[str]) -> bool:
    """Whether a node is one of the signs, and no text that looks like it."""
    return isinstance(node, Token) and node.kind == "sign" and node.text in signs


def known_as(name: str, variables: Mapping[str, CodeValue]) -> CodeValue:
    """What a name stands for."""
    plain = name.lstrip("$@%&")
    value = variables.get(plain)
    if value is not None:
        return value
    if plain.lower() in ("true", "false"):
        return CodeValue(plain.lower())
    return CodeValue(HOMES.get(plain.lower()), name=plain)


def filled(text: str, variables: Mapping[str, CodeValue]) -> str:
    """A template with the values that are known put in for its names."""

    def insert(found: re.Match[str]) -> str:
        name = next(one for one in found.groups() if one is not None).strip()
        value = known_as(name, variables).text
        return HOLE if value is None else value

    return _INSERTED.sub(insert, text)[:MOST_TEXT] if "$" in text or "#{" in text else text


def put_together(nodes: Sequence[Node], variables: Mapping[str, CodeValue]) -> CodeValue:
    """One expression: what its parts are, joined where signs join texts; `recursive: true` as an option."""
    if len(nodes) > 2 and is_sign(nodes[1], _NAMED):  # noqa: PLR2004 - name, sign, value
        key = _key(nodes[0])
        if key:
            return CodeValue(options=((key, put_together(nodes[2:], variables)),))
    parts = [_value(one, variables) for one in nodes if not is_sign(one, _PLUS)]
    if not parts:
        return UNKNOWN
    if len(parts) == 1:
        return parts[0]
    joins = any(is_sign(one, _PLUS) for one in nodes)
    first = next((one for one in reversed(parts) if one.items is not None or one.lists or one.name), parts[0])
    if not joins or all(one.text is None for one in parts):
        texts = [one for one in parts if one.text is not None]
        return first if first.items is not None or not texts else texts[-1]
    text = "".join(HOLE if one.text is None else one.text for one in parts)
    return CodeValue(text if len(text) <= MOST_TEXT else None)


def _key(node: Node) -> str:
    if isinstance(node, CodeValue):
        return node.name.lower() if node.name and not node.items else ""
    return node.text.lstrip("$@:").lower() if node.kind in ("name", "string") else ""


def _value(node: Node, variables: Mapping[str, CodeValue]) -> CodeValue:
    if isinstance(node, CodeValue):
        return node
    if node.kind == "string":
        return CodeValue(filled(node.text, variables))
    if node.kind == "template":
        return CodeValue(filled(node.text, variables))
    if node.kind == "number":
        return CodeValue(node.text)
    if node.kind == "name" and node.text[:1] != ".":
        return known_as(node.text, variables)
    return UNKNOWN


def split(nodes: Sequence[Node], variables: Mapping[str, CodeValue]) -> list[CodeValue]:
    """The expressions between commas."""
    found: list[CodeValue] = []
    start = 0
    for place in range(len(nodes) + 1):
        node = nodes[place] if place < len(nodes) else None
        if node is None or is_sign(node, _COMMA):
            part = [one for one in nodes[start:place] if not (isinstance(one, Token) and one.kind == "end")]
            if part:
                found.append(put_together(part, variables))
            start = place + 1
    return found


def options_of(values: Sequence[CodeValue]) -> tuple[tuple[str, CodeValue], ...]:
    """All that is named among some values; a word alone in braces is on (`{ recursive }`)."""
    return tuple(option for value in values for option in value.options)
