"""Expressions: what is known of their value."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from app.core.gate1.python import strings
from app.core.gate1.python.calls import call
from app.core.gate1.python.loops import each, of_elements
from app.core.gate1.python.members import subscript
from app.core.gate1.python.operations import binary
from app.core.gate1.python.targets import bind
from app.core.gate1.python.values import UNKNOWN, Value, known, listing, merged, word

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.gate1.python.walker import Walker

    Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


def _constant(_: Walker, node: ast.Constant) -> Value:
    value = node.value
    if isinstance(value, str):
        return Value(value)
    if isinstance(value, bytes):
        return Value(strings.as_text(value))
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 64:  # noqa: PLR2004 - longer ones take time to write out
        return Value(str(value), "int")
    return Value(None, "bool" if value is True else "")


def _attribute(walker: Walker, node: ast.Attribute) -> Value:
    return walker.attribute(node, walker.value(node.value))


def _joined(walker: Walker, node: ast.JoinedStr) -> Value:
    parts = [walker.value(one.value if isinstance(one, ast.FormattedValue) else one) for one in node.values]
    return known("".join(word(part) for part in parts), *parts)


def _boolean(walker: Walker, node: ast.BoolOp) -> Value:
    return _best(walker.values(node.values))


def _conditional(walker: Walker, node: ast.IfExp) -> Value:
    walker.value(node.test)
    return _best([walker.value(node.body), walker.value(node.orelse)])


def _best(values: list[Value]) -> Value:
    telling = [one for one in values if one.feeds] or [one for one in values if one != UNKNOWN]
    return telling[0] if telling else UNKNOWN


def _sequence(walker: Walker, node: ast.List | ast.Tuple | ast.Set) -> Value:
    items: list[Value] = []
    for one in node.elts:
        value = walker.value(one.value if isinstance(one, ast.Starred) else one)
        items += value.items or (value,) if isinstance(one, ast.Starred) else (value,)
    return Value(items=tuple(items), feeds=merged(items), every=any(one.every for one in items))


def _dict(walker: Walker, node: ast.Dict) -> Value:
    keys = [walker.value(key).text or "" for key in node.keys]
    items = walker.values(node.values)
    return Value(items=tuple(items), keys=tuple(keys), feeds=merged(items))


def _unary(walker: Walker, node: ast.UnaryOp) -> Value:
    value = walker.value(node.operand)
    if isinstance(node.op, ast.USub) and value.name == "int" and value.text is not None:
        return Value(f"-{value.text}", "int")
    return UNKNOWN


def _comprehension(walker: Walker, node: Comprehension) -> Value:
    return _generated(walker, node, 0)


def _generated(walker: Walker, node: Comprehension, place: int) -> Value:
    if place == len(node.generators):
        if isinstance(node, ast.DictComp):
            walker.value(node.key)
            return walker.value(node.value)
        return walker.value(node.elt)
    generator = node.generators[place]
    results: list[Value] = []
    for element in each(walker, of_elements(walker.value(generator.iter))):
        bind(walker, generator.target, element)
        walker.values(generator.ifs)
        walker.around.tests = [*walker.around.tests, *generator.ifs]
        results.append(_generated(walker, node, place + 1))
    return listing(*results)


def _compare(walker: Walker, node: ast.Compare) -> Value:
    walker.values([node.left, *node.comparators])
    return UNKNOWN


def _named(walker: Walker, node: ast.NamedExpr) -> Value:
    value = walker.value(node.value)
    bind(walker, node.target, value)
    return value


def _inner(walker: Walker, node: ast.Await | ast.Starred | ast.YieldFrom | ast.Yield) -> Value:
    return walker.value(node.value)


def _lambda(walker: Walker, node: ast.Lambda) -> Value:
    for one in node.args.args:
        walker.scope.set(one.arg, UNKNOWN)
    return Value(feeds=walker.value(node.body).feeds)


def _slice(walker: Walker, node: ast.Slice) -> Value:
    walker.values([one for one in (node.lower, node.upper, node.step) if one is not None])
    return UNKNOWN


EXPRESSIONS: dict[type[ast.expr], Callable[..., Value]] = {
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
