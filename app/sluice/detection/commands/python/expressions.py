"""Expressions: what is known of their value."""

from __future__ import annotations

import ast
import posixpath
from typing import TYPE_CHECKING, Protocol

from sluice.detection.commands.python import strings
from sluice.detection.commands.python.values import (
    HOLE,
    PATH,
    UNKNOWN,
    PythonValue,
    join,
    member,
    merge,
    word,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp

MOST_REPEATED = 1000
"""Times that a text is repeated; more often than that it is not known."""
_MOST_BITS = 64


class Reader(Protocol):
    """Reads the program that an expression stands in."""

    def value(self, node: ast.expr | None) -> PythonValue:
        """What is known of an expression; what it calls is found on the way."""

    def name(self, name: str) -> PythonValue:
        """What is known of a name."""

    def attribute(self, node: ast.Attribute, base: PythonValue) -> PythonValue:
        """What is known of an attribute."""

    def bind(self, target: ast.expr, value: PythonValue) -> None:
        """`target = value`."""

    def each(self, iterable: PythonValue) -> Iterator[PythonValue]:
        """What a loop over the value goes through."""


def _any(reader: Reader, node: ast.expr) -> PythonValue:
    """Of a choice, a comparison and others: the most telling of their parts."""
    values = [reader.value(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    if not isinstance(node, ast.BoolOp | ast.IfExp):
        return UNKNOWN
    telling = [value for value in values if value.feeds] or [value for value in values if value != UNKNOWN]
    return telling[0] if telling else UNKNOWN


def _constant(_: Reader, node: ast.Constant) -> PythonValue:
    value = node.value
    if isinstance(value, str):
        return PythonValue(value)
    if isinstance(value, bytes):
        return PythonValue(strings.decode_text(value))
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < _MOST_BITS:
        return PythonValue(str(value), "int")
    return PythonValue(None, "bool" if value is True else "")


def _attribute(reader: Reader, node: ast.Attribute) -> PythonValue:
    base = reader.value(node.value)
    if base.name == PATH and node.attr == "parent":
        return base._replace(text=posixpath.dirname(word(base)) or ".")
    if base.name == PATH and node.attr in {"name", "stem", "path"}:
        return join(word(base) if node.attr == "path" else posixpath.basename(word(base)), base)
    return reader.attribute(node, base)


def _sequence(reader: Reader, node: ast.List | ast.Tuple | ast.Set) -> PythonValue:
    items: list[PythonValue] = []
    for element in node.elts:
        value = reader.value(element)
        items += value.items or (value,) if isinstance(element, ast.Starred) else (value,)
    return PythonValue(items=tuple(items), feeds=merge(items))


def _dict(reader: Reader, node: ast.Dict) -> PythonValue:
    names = tuple(reader.value(key).text or "" for key in node.keys)
    items = tuple(map(reader.value, node.values))
    return PythonValue(items=items, keys=names, feeds=merge(items))


def _join(reader: Reader, node: ast.JoinedStr) -> PythonValue:
    parts = (part.value if isinstance(part, ast.FormattedValue) else part for part in node.values)
    values = [reader.value(part) for part in parts]
    return join("".join(map(word, values)), *values)


def _unary(reader: Reader, node: ast.UnaryOp) -> PythonValue:
    value = reader.value(node.operand)
    is_number = isinstance(node.op, ast.USub) and value.name == "int"
    return PythonValue(f"-{value.text}", "int") if is_number else UNKNOWN


def _name(reader: Reader, node: ast.NamedExpr) -> PythonValue:
    value = reader.value(node.value)
    reader.bind(node.target, value)
    return value


def _inner(reader: Reader, node: ast.Await | ast.Starred | ast.YieldFrom) -> PythonValue:
    return reader.value(node.value)


def _lambda(reader: Reader, node: ast.Lambda) -> PythonValue:
    return PythonValue(feeds=reader.value(node.body).feeds)


def _subscript(reader: Reader, node: ast.Subscript) -> PythonValue:
    base = reader.value(node.value)
    if isinstance(node.slice, ast.Slice):
        return _slice(base, node.slice)
    index = reader.value(node.slice)
    if base.name == "os.environ":
        return PythonValue(f"${{{index.text or 'unknown'}}}")
    value = _member(reader, base, index)
    return (
        PythonValue(None, f"{base.name}[]" if base.name else "", feeds=base.feeds) if value is None else value
    )


def _member(reader: Reader, base: PythonValue, index: PythonValue) -> PythonValue | None:
    if index.text is None:
        return None
    if base.name == "globals()":
        return reader.name(index.text)
    if index.text in base.keys:
        return member(base, index.text)
    position = int(index.text) if index.name == "int" else _BEYOND
    items = base.items if base.items and not base.keys else tuple(map(PythonValue, base.text or ""))
    return items[position] if -len(items) <= position < len(items) else None


_BEYOND = 1 << 62


def _slice(base: PythonValue, node: ast.Slice) -> PythonValue:
    if base.text is None:
        return base
    bounds = (node.lower, node.upper, node.step)
    try:
        cut = slice(*(None if bound is None else ast.literal_eval(bound) for bound in bounds))
        text = None if HOLE in base.text else base.text[cut]
    except (ValueError, TypeError):
        text = None
    return PythonValue(text, feeds=base.feeds)


def _binary(reader: Reader, node: ast.BinOp) -> PythonValue:
    """Texts put together, paths joined, bits set; of other operations what both sides hold."""
    left, right = reader.value(node.left), reader.value(node.right)
    match node.op:
        case ast.Add():
            return _sum(left, right)
        case ast.Div() if PATH in {left.name, right.name}:
            return join(posixpath.join(word(left), word(right)), left, right, name=PATH)
        case ast.Mod() if left.text is not None and left.name != "int":
            return _format(left, right)
        case ast.Mult() if "int" in {left.name, right.name}:
            text, times = (left, right) if right.name == "int" else (right, left)
            count = int(times.text or 0)
            if text.text is not None and text.name != "int" and 0 <= count <= MOST_REPEATED:
                return join(text.text * count, left, right)
        case ast.BitOr() if left.name and right.name:
            return _either(left, right)
    return PythonValue(feeds=merge((left, right)))


def _either(left: PythonValue, right: PythonValue) -> PythonValue:
    if left.name == right.name == "int":
        return PythonValue(str(int(left.text or 0) | int(right.text or 0)), "int")
    return PythonValue(None, f"{left.name}|{right.name}")


def _sum(left: PythonValue, right: PythonValue) -> PythonValue:
    if left.items is not None and right.items is not None:
        return PythonValue(items=left.items + right.items, feeds=merge((left, right)))
    if left.name == right.name == "int" or left.text is None is right.text:
        return PythonValue(feeds=merge((left, right)))
    return join(word(left) + word(right), left, right)


def _format(left: PythonValue, right: PythonValue) -> PythonValue:
    args = right.items if right.items is not None else (right,)
    first, *pieces = (left.text or "").replace("%%", "%").replace("%d", "%s").replace("%r", "%s").split("%s")
    filled = [*map(word, args[: len(pieces)]), *[HOLE] * (len(pieces) - len(args))]
    text = first + "".join(filling + piece for filling, piece in zip(filled, pieces, strict=True))
    return join(text, left, *args)


def _comprehend(reader: Reader, node: Comprehension, index: int = 0) -> PythonValue:
    if index == len(node.generators):
        if isinstance(node, ast.DictComp):
            reader.value(node.key)
            return reader.value(node.value)
        return reader.value(node.elt)
    generator = node.generators[index]
    results: list[PythonValue] = []
    for element in reader.each(reader.value(generator.iter)):
        reader.bind(generator.target, element)
        for test in generator.ifs:
            reader.value(test)
        results.append(_comprehend(reader, node, index + 1))
    return PythonValue(items=tuple(results), feeds=merge(results))


_READERS: dict[type[ast.expr], Callable[..., PythonValue]] = {
    ast.Constant: _constant,
    ast.Attribute: _attribute,
    ast.JoinedStr: _join,
    ast.BinOp: _binary,
    ast.List: _sequence,
    ast.Tuple: _sequence,
    ast.Set: _sequence,
    ast.Dict: _dict,
    ast.Subscript: _subscript,
    ast.UnaryOp: _unary,
    ast.ListComp: _comprehend,
    ast.SetComp: _comprehend,
    ast.GeneratorExp: _comprehend,
    ast.DictComp: _comprehend,
    ast.NamedExpr: _name,
    ast.Await: _inner,
    ast.Starred: _inner,
    ast.YieldFrom: _inner,
    ast.Lambda: _lambda,
}


def value_of(reader: Reader, node: ast.expr) -> PythonValue:
    """What is known of an expression that is no name and no call."""
    return _READERS.get(type(node), _any)(reader, node)
