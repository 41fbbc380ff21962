"""Subscripts: members of lists, dictionaries, modules, parts of texts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from app.core.gate1.python.attributes import attribute
from app.core.gate1.python.values import HOLE, Value, entry

if TYPE_CHECKING:
    from app.core.gate1.python.walker import Walker

_NAMESPACE = ".__dict__"


def subscript(walker: Walker, node: ast.Subscript) -> Value:
    """What is known of `base[index]`."""
    base = walker.value(node.value)
    if isinstance(node.slice, ast.Slice):
        return _sliced(base, node.slice)
    index = walker.value(node.slice)
    found = _by_name(walker, base, index)
    if found is None and index.name == "int" and index.text is not None:
        found = _by_number(base, int(index.text))
    if found is not None:
        return found
    return Value(None, f"{base.name}[]" if base.name else "", feeds=base.feeds, every=base.every)


def _by_name(walker: Walker, base: Value, index: Value) -> Value | None:
    if base.name in {"os.environ", "os.environb"}:
        return Value(f"${{{index.text or 'unknown'}}}")
    if index.text is None:
        return None
    if base.name == "sys.modules":
        return Value(None, index.text)
    if base.name.endswith(_NAMESPACE):
        return attribute(Value(None, base.name.removesuffix(_NAMESPACE)), index.text)
    if base.name == "globals()":
        return walker.scope.get(index.text)
    return entry(base, index.text) if index.text in base.keys else None


def _by_number(base: Value, place: int) -> Value | None:
    if base.items and not base.keys and place < len(base.items):
        return base.items[place]
    return Value(base.text[place]) if base.text is not None and place < len(base.text) else None


def _sliced(base: Value, node: ast.Slice) -> Value:
    if base.text is None:
        return base
    bounds = [_number(one) for one in (node.lower, node.upper, node.step)]
    if _UNKNOWN_NUMBER in bounds or HOLE in base.text or bounds[2] == 0:
        return Value(feeds=base.feeds, every=base.every)
    return base._replace(text=base.text[slice(*bounds)])


_UNKNOWN_NUMBER = 1 << 62


def _number(node: ast.expr | None) -> int | None:
    if node is None:
        return None
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    if not (isinstance(inner, ast.Constant) and isinstance(inner.value, int)):
        return _UNKNOWN_NUMBER
    return -inner.value if negative else inner.value
