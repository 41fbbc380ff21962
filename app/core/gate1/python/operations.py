"""Binary operators: texts and paths put together."""

from __future__ import annotations

import ast
import posixpath
from typing import TYPE_CHECKING

from app.core.gate1.python.files import ENCRYPTED
from app.core.gate1.python.values import HOLE, PATH, Value, known, merged, word

if TYPE_CHECKING:
    from app.core.gate1.python.walker import Walker

MOST_REPEATED = 1000
"""Times that a text is repeated; more often than that it is not known."""


def binary(walker: Walker, node: ast.BinOp) -> Value:
    """Texts put together, paths joined, bits set; of other operations what both sides hold."""
    if isinstance(node.op, ast.Add):
        return _sum(walker, node)
    left, right = walker.value(node.left), walker.value(node.right)
    if isinstance(node.op, ast.Div) and PATH in {left.name, right.name}:
        return known(posixpath.join(word(left), word(right)), left, right, name=PATH)
    if isinstance(node.op, ast.Mod) and left.text is not None and left.name != "int":
        return _formatted(left, right)
    if isinstance(node.op, ast.Mult):
        return _repeated(left, right)
    if isinstance(node.op, ast.BitOr) and {left.name, right.name} == {"int"}:
        return _either_bits(left, right)
    sources = merged((left, right))
    if isinstance(node.op, ast.BitXor):
        sources = (*sources, ENCRYPTED)
    names = f"{left.name}|{right.name}" if isinstance(node.op, ast.BitOr) and left.name and right.name else ""
    return Value(None, names, feeds=sources, every=left.every or right.every)


def _either_bits(left: Value, right: Value) -> Value:
    return Value(str(int(left.text or "0") | int(right.text or "0")), "int")


def _sum(walker: Walker, node: ast.BinOp) -> Value:
    parts: list[Value] = []
    rest: ast.expr = node
    while isinstance(rest, ast.BinOp) and isinstance(rest.op, ast.Add):
        parts.append(walker.value(rest.right))
        rest = rest.left
    parts.append(walker.value(rest))
    parts.reverse()
    if all(part.items is not None and not part.keys for part in parts):
        return Value(items=tuple(one for part in parts for one in part.items or ()), feeds=merged(parts))
    if all(part.name == "int" for part in parts) or all(part.text is None for part in parts):
        return Value(feeds=merged(parts), every=any(part.every for part in parts))
    return known("".join(word(part) for part in parts), *parts)


def _formatted(left: Value, right: Value) -> Value:
    args = right.items if right.items is not None else (right,)
    pieces = (left.text or "").replace("%%", "%").replace("%d", "%s").replace("%r", "%s").split("%s")
    text = pieces[0]
    for place, piece in enumerate(pieces[1:]):
        text += (word(args[place]) if place < len(args) else HOLE) + piece
    return known(text, left, *args)


def _repeated(left: Value, right: Value) -> Value:
    text, times = (left, right) if right.name == "int" else (right, left)
    if text.text is None or text.name == "int" or times.name != "int" or times.text is None:
        return Value(feeds=merged((left, right)))
    count = int(times.text)
    return known(text.text * count if 0 <= count <= MOST_REPEATED else None, left, right)
