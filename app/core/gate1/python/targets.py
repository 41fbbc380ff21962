"""Assignments: names, attributes, members of the environment, several at once."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from app.core.gate1.python.values import UNKNOWN, Value, word
from app.core.gate1.shell import Command

if TYPE_CHECKING:
    from app.core.gate1.python.walker import Walker


def bind(walker: Walker, target: ast.expr, value: Value) -> None:
    """`target = value`."""
    if isinstance(target, ast.Name):
        walker.scope.set(target.id, value)
    elif isinstance(target, ast.Attribute):
        walker.value(target.value)
        if isinstance(target.value, ast.Name):
            walker.scope.set(f"{target.value.id}.{target.attr}", value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _several(walker, target.elts, value)
    elif isinstance(target, ast.Starred):
        bind(walker, target.value, Value(feeds=value.feeds, every=value.every))
    elif isinstance(target, ast.Subscript):
        _member(walker, target, value)


def _several(walker: Walker, targets: list[ast.expr], value: Value) -> None:
    items = value.items if value.items and not value.keys else ()
    for place, target in enumerate(targets):
        known = place < len(items) and not any(isinstance(one, ast.Starred) for one in targets[: place + 1])
        bind(walker, target, items[place] if known else Value(feeds=value.feeds, every=value.every))


def _member(walker: Walker, target: ast.Subscript, value: Value) -> None:
    whole, key = walker.value(target.value), walker.value(target.slice)
    if whole.name == "os.environ":
        walker.found.command(Command("", assigned=((word(key), word(value)),)))
    elif isinstance(target.value, ast.Name) and value.feeds:
        before = walker.scope.find(target.value.id) or UNKNOWN
        feeds = tuple(dict.fromkeys(before.feeds + value.feeds))
        walker.scope.set(target.value.id, before._replace(feeds=feeds))
