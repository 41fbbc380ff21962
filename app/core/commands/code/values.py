"""What a piece of code says of a value: a text, a list, named options; put together as the code does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from app.core.commands.code.tokens import Token
from app.core.commands.python.values import HOLE, MOST_TEXT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Value(NamedTuple):
    """`text` with HOLE for unknown parts, None where nothing is known; `items` of a list; `options` by name.

    `name`: the path of what is named or was called; `lists`: its elements are the files below `text`.
    """

    text: str | None = None
    items: tuple[Value, ...] | None = None
    options: tuple[tuple[str, Value], ...] = ()
    name: str = ""
    lists: bool = False

    def option(self, *names: str) -> Value | None:
        """The option of one of these names, in lower case."""
        return next((value for name, value in self.options if name in names), None)


Node: TypeAlias = Token | Value
UNKNOWN = Value()
_INSERTED = re.compile(r"\$\{([^{}]*)\}|#\{([^{}]*)\}|(?<![\\$])\$([A-Za-z_]\w*)")
_PLUS = frozenset(["+", ".", "..", "~", "/", "&", "<>"])
_COMMA = frozenset([","])
_NAMED = frozenset([":", "=>", "="])
HOMES = {"process.env.home": "~", "os.homedir": "~", "env.home": "~", "dir.home": "~", "__dirname": "."}


def is_sign(node: Node, signs: frozenset[str]) -> bool:
    """Whether a node is one of the signs, and no text that looks like it."""
    return isinstance(node, Token) and node.kind == "sign" and node.text in signs


def known_as(name: str, variables: Mapping[str, Value]) -> Value:
    """What a name stands for."""
    plain = name.lstrip("$@%&")
    value = variables.get(plain)
    if value is not None:
        return value
    if plain.lower() in ("true", "false"):
        return Value(plain.lower())
    return Value(HOMES.get(plain.lower()), name=plain)


def filled(text: str, variables: Mapping[str, Value]) -> str:
    """A template with the values that are known put in for its names."""

    def insert(found: re.Match[str]) -> str:
        name = next(one for one in found.groups() if one is not None).strip()
        value = known_as(name, variables).text
        return HOLE if value is None else value

    return _INSERTED.sub(insert, text)[:MOST_TEXT] if "$" in text or "#{" in text else text


def put_together(nodes: Sequence[Node], variables: Mapping[str, Value]) -> Value:
    """One expression: what its parts are, joined where signs join texts; `recursive: true` as an option."""
    if len(nodes) > 2 and is_sign(nodes[1], _NAMED):  # noqa: PLR2004 - name, sign, value
        key = _key(nodes[0])
        if key:
            return Value(options=((key, put_together(nodes[2:], variables)),))
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
    return Value(text if len(text) <= MOST_TEXT else None)


def _key(node: Node) -> str:
    if isinstance(node, Value):
        return node.name.lower() if node.name and not node.items else ""
    return node.text.lstrip("$@:").lower() if node.kind in ("name", "string") else ""


def _value(node: Node, variables: Mapping[str, Value]) -> Value:
    if isinstance(node, Value):
        return node
    if node.kind == "string":
        return Value(filled(node.text, variables))
    if node.kind == "template":
        return Value(filled(node.text, variables))
    if node.kind == "number":
        return Value(node.text)
    if node.kind == "name" and node.text[:1] != ".":
        return known_as(node.text, variables)
    return UNKNOWN


def split(nodes: Sequence[Node], variables: Mapping[str, Value]) -> list[Value]:
    """The expressions between commas."""
    found: list[Value] = []
    start = 0
    for place in range(len(nodes) + 1):
        node = nodes[place] if place < len(nodes) else None
        if node is None or is_sign(node, _COMMA):
            part = [one for one in nodes[start:place] if not (isinstance(one, Token) and one.kind == "end")]
            if part:
                found.append(put_together(part, variables))
            start = place + 1
    return found


def options_of(values: Sequence[Value]) -> tuple[tuple[str, Value], ...]:
    """All that is named among some values; a word alone in braces is on (`{ recursive }`)."""
    return tuple(option for value in values for option in value.options)
