"""Expressions: what is known of their value."""

from __future__ import annotations

import ast
import posixpath
from typing import TYPE_CHECKING

from sluice.detection.commands.python import strings
from sluice.detection.commands.python.calls import call
from sluice.detection.commands.python.libraries.files import ENCRYPTED
from sluice.detection.commands.python.python_statements import bind, each, of_elements
from sluice.detection.commands.python.python_values import (
    HOLE,
    PATH,
    UNKNOWN,
    PythonValue,
    attribute,
    entry,
    known,
    listing,
    merged,
    word,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.detection.commands.python.python_walk import Walker

    Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


_NAMESPACE = ".__dict__"


def subscript(walker: Walker, node: ast.Subscript) -> PythonValue:
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
    return PythonValue(None, f"{base.name}[]" if base.name else "", feeds=base.feeds, every=base.every)


def _by_name(walker: Walker, base: PythonValue, index: PythonValue) -> PythonValue | None:
    if base.name in {"os.environ", "os.environb"}:
        return PythonValue(f"${{{index.text or 'unknown'}}}")
    if index.text is None:
        return None
    if base.name == "sys.modules":
        return PythonValue(None, index.text)
    if base.name.endswith(_NAMESPACE):
        return attribute(PythonValue(None, base.name.removesuffix(_NAMESPACE)), index.text)
    if base.name == "globals()":
        return walker.scope.get(index.text)
    return entry(base, index.text) if index.text in base.keys else None


def _by_number(base: PythonValue, place: int) -> PythonValue | None:
    if base.items and not base.keys and place < len(base.items):
        return base.items[place]
    return PythonValue(base.text[place]) if base.text is not None and place < len(base.text) else None


def _sliced(base: PythonValue, node: ast.Slice) -> PythonValue:
    if base.text is None:
        return base
    bounds = [_number(one) for one in (node.lower, node.upper, node.step)]
    if _UNKNOWN_NUMBER in bounds or HOLE in base.text or bounds[2] == 0:
        return PythonValue(feeds=base.feeds, every=base.every)
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


MOST_REPEATED = 1000
"""Times that a text is repeated; more often than that it is not known."""


def binary(walker: Walker, node: ast.BinOp) -> PythonValue:
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
    return PythonValue(None, names, feeds=sources, every=left.every or right.every)


def _either_bits(left: PythonValue, right: PythonValue) -> PythonValue:
    return PythonValue(str(int(left.text or "0") | int(right.text or "0")), "int")


def _sum(walker: Walker, node: ast.BinOp) -> PythonValue:
    parts: list[PythonValue] = []
    rest: ast.expr = node
    while isinstance(rest, ast.BinOp) and isinstance(rest.op, ast.Add):
        parts.append(walker.value(rest.right))
        rest = rest.left
    parts.append(walker.value(rest))
    parts.reverse()
    if all(part.items is not None and not part.keys for part in parts):
        return PythonValue(
            items=tuple(one for part in parts for one in part.items or ()), feeds=merged(parts)
        )
    if all(part.name == "int" for part in parts) or all(part.text is None for part in parts):
        return PythonValue(feeds=merged(parts), every=any(part.every for part in parts))
    return known("".join(word(part) for part in parts), *parts)


def _formatted(left: PythonValue, right: PythonValue) -> PythonValue:
    args = right.items if right.items is not None else (right,)
    pieces = (left.text or "").replace("%%", "%").replace("%d", "%s").replace("%r", "%s").split("%s")
    text = pieces[0]
    for place, piece in enumerate(pieces[1:]):
        text += (word(args[place]) if place < len(args) else HOLE) + piece
    return known(text, left, *args)


def _repeated(left: PythonValue, right: PythonValue) -> PythonValue:
    text, times = (left, right) if right.name == "int" else (right, left)
    if text.text is None or text.name == "int" or times.name != "int" or times.text is None:
        return PythonValue(feeds=merged((left, right)))
    count = int(times.text)
    return known(text.text * count if 0 <= count <= MOST_REPEATED else None, left, right)


def _constant(_: Walker, node: ast.Constant) -> PythonValue:
    value = node.value
    if isinstance(value, str):
        return PythonValue(value)
    if isinstance(value, bytes):
        return PythonValue(strings.as_text(value))
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 64:  # noqa: PLR2004 - longer ones take time to write out
        return PythonValue(str(value), "int")
    return PythonValue(None, "bool" if value is True else "")


def _attribute(walker: Walker, node: ast.Attribute) -> PythonValue:
    return walker.attribute(node, walker.value(node.value))


def _joined(walker: Walker, node: ast.JoinedStr) -> PythonValue:
    parts = [walker.value(one.value if isinstance(one, ast.FormattedValue) else one) for one in node.values]
    return known("".join(word(part) for part in parts), *parts)


def _boolean(walker: Walker, node: ast.BoolOp) -> PythonValue:
    return _best(walker.values(node.values))


def _conditional(walker: Walker, node: ast.IfExp) -> PythonValue:
    walker.value(node.test)
    return _best([walker.value(node.body), walker.value(node.orelse)])


def _best(values: list[PythonValue]) -> PythonValue:
    telling = [one for one in values if one.feeds] or [one for one in values if one != UNKNOWN]
    return telling[0] if telling else UNKNOWN


def _sequence(walker: Walker, node: ast.List | ast.Tuple | ast.Set) -> PythonValue:
    items: list[PythonValue] = []
    for one in node.elts:
        value = walker.value(one.value if isinstance(one, ast.Starred) else one)
        items += value.items or (value,) if isinstance(one, ast.Starred) else (value,)
    return PythonValue(items=tuple(items), feeds=merged(items), every=any(one.every for one in items))


def _dict(walker: Walker, node: ast.Dict) -> PythonValue:
    keys = [walker.value(key).text or "" for key in node.keys]
    items = walker.values(node.values)
    return PythonValue(items=tuple(items), keys=tuple(keys), feeds=merged(items))


def _unary(walker: Walker, node: ast.UnaryOp) -> PythonValue:
    value = walker.value(node.operand)
    if isinstance(node.op, ast.USub) and value.name == "int" and value.text is not None:
        return PythonValue(f"-{value.text}", "int")
    return UNKNOWN


def _comprehension(walker: Walker, node: Comprehension) -> PythonValue:
    return _generated(walker, node, 0)


def _generated(walker: Walker, node: Comprehension, place: int) -> PythonValue:
    if place == len(node.generators):
        if isinstance(node, ast.DictComp):
            walker.value(node.key)
            return walker.value(node.value)
        return walker.value(node.elt)
    generator = node.generators[place]
    results: list[PythonValue] = []
    for element in each(walker, of_elements(walker.value(generator.iter))):
        bind(walker, generator.target, element)
        walker.values(generator.ifs)
        walker.around.tests = [*walker.around.tests, *generator.ifs]
        results.append(_generated(walker, node, place + 1))
    return listing(*results)


def _compare(walker: Walker, node: ast.Compare) -> PythonValue:
    walker.values([node.left, *node.comparators])
    return UNKNOWN


def _named(walker: Walker, node: ast.NamedExpr) -> PythonValue:
    value = walker.value(node.value)
    bind(walker, node.target, value)
    return value


def _inner(walker: Walker, node: ast.Await | ast.Starred | ast.YieldFrom | ast.Yield) -> PythonValue:
    return walker.value(node.value)


def _lambda(walker: Walker, node: ast.Lambda) -> PythonValue:
    for one in node.args.args:
        walker.scope.set(one.arg, UNKNOWN)
    return PythonValue(feeds=walker.value(node.body).feeds)


def _slice(walker: Walker, node: ast.Slice) -> PythonValue:
    walker.values([one for one in (node.lower, node.upper, node.step) if one is not None])
    return UNKNOWN


EXPRESSIONS: dict[type[ast.expr], Callable[..., PythonValue]] = {
    ast.Constant: _constant,
    ast.Attribute: _attribute,
    ast.Call: call,
    ast.JoinedStr: _joined,
    ast.BinOp: binary,
    ast.BoolOp: _boolean,
    ast.IfExp: _conditional,
    ast.List: _sequence,
    ast.Tuple: _sequence,
    ast.Set: _sequence,
    ast.Dict: _dict,
    ast.Subscript: subscript,
    ast.UnaryOp: _unary,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.Compare: _compare,
    ast.NamedExpr: _named,
    ast.Await: _inner,
    ast.Starred: _inner,
    ast.Yield: _inner,
    ast.YieldFrom: _inner,
    ast.Lambda: _lambda,
    ast.Slice: _slice,
}
