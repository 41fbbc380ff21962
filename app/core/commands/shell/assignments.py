"""Variables that a text sets itself: assignments, declarations, loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.commands.shell.reading import Command
from app.core.commands.shell.words import raw, text_of, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from app.core.commands.shell.scope import Scope

MOST_ROUNDS = 2
"""Rounds of a `for` loop that are read, each with its value."""


def assign(node: Node, scope: Scope, *, keep: bool = True) -> tuple[str, str]:
    """Name and value of `NAME=value` or `NAME+=value`; kept for later words unless told otherwise."""
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    key = "" if name is None else raw(name)
    text = "" if value is None else _value(value, scope)
    if "+=" in (child.type for child in node.children):
        text = scope.variables.get(key, "") + text
    if keep:
        scope.variables[key] = text
    return key, text


def declared(node: Node, scope: Scope) -> Command:
    """`export`, `declare`, `local`, `readonly` as a command with its assignments."""
    words: list[str] = []
    assigned = []
    for child in node.children:
        if child.type == "variable_assignment":
            assigned.append(assign(child, scope))
            words.append("=".join(assigned[-1]))
        else:
            words.append(text_of(child, scope))
    return Command(words[0], tuple(words[1:]), via=scope.via, path=words[0], assigned=tuple(assigned))


def unset(node: Node, scope: Scope) -> Command:
    """`unset NAME...` as a command."""
    words = tuple(raw(child) for child in node.children)
    for name in words[1:]:
        scope.variables.pop(name, None)
    return Command(words[0], words[1:], via=scope.via, path=words[0])


def looped(node: Node, scope: Scope) -> Iterator[Node]:
    """The body of a `for` loop, once for each of its first values, with the variable set."""
    variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
    values = [word for one in node.children_by_field_name("value") for word in words_of(one, scope)]
    if body is None:
        return
    rounds: list[str | None] = [*values[:MOST_ROUNDS]]
    for value in rounds or [None]:
        if variable is not None and value is not None:
            scope.variables[raw(variable)] = value
        with scope.deeper() as within:
            if within:
                yield body


def _value(node: Node, scope: Scope) -> str:
    if node.type == "array":
        return " ".join(word for child in node.named_children for word in words_of(child, scope))
    return text_of(node, scope)
