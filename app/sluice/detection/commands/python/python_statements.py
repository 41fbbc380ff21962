"""Statements: what they bind, and the blocks within them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from sluice.detection.commands.python.python_values import UNKNOWN, PythonValue, known, word
from sluice.detection.commands.shell import Command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sluice.detection.commands.python.python_walk import Walker


MOST_ELEMENTS = 8
"""Members of a known list for which a loop's body is read."""


def of_elements(iterable: PythonValue) -> tuple[PythonValue, ...]:
    """What a loop over the value goes through: its members, or one that stands for each."""
    if iterable.keys:
        return tuple(PythonValue(key) for key in iterable.keys)
    if iterable.items:
        return iterable.items
    return (UNKNOWN._replace(feeds=iterable.feeds, every=iterable.every),)


def each(walker: Walker, elements: tuple[PythonValue, ...]) -> Iterator[PythonValue]:
    """The elements, as many as the work that is left allows; meanwhile the tests of a loop count anew."""
    around = walker.around
    for place, element in enumerate(elements[:MOST_ELEMENTS]):
        if place and not walker.may_repeat:
            return
        walking, tests = around.walking, around.tests
        if _of_many(element):
            around.walking, around.tests = walking + 1, []
        yield element
        around.walking, around.tests = walking, tests


def _of_many(element: PythonValue) -> bool:
    return element.every or any(_of_many(one) for one in element.items or ())


def bind(walker: Walker, target: ast.expr, value: PythonValue) -> None:
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
        bind(walker, target.value, PythonValue(feeds=value.feeds, every=value.every))
    elif isinstance(target, ast.Subscript):
        _member(walker, target, value)


def _several(walker: Walker, targets: list[ast.expr], value: PythonValue) -> None:
    items = value.items if value.items and not value.keys else ()
    for place, target in enumerate(targets):
        known = place < len(items) and not any(isinstance(one, ast.Starred) for one in targets[: place + 1])
        bind(walker, target, items[place] if known else PythonValue(feeds=value.feeds, every=value.every))


def _member(walker: Walker, target: ast.Subscript, value: PythonValue) -> None:
    whole, key = walker.value(target.value), walker.value(target.slice)
    if whole.name == "os.environ":
        walker.found.command(Command("", assigned=((word(key), word(value)),)))
    elif isinstance(target.value, ast.Name) and value.feeds:
        before = walker.scope.find(target.value.id) or UNKNOWN
        feeds = tuple(dict.fromkeys(before.feeds + value.feeds))
        walker.scope.set(target.value.id, before._replace(feeds=feeds))


_LEAVING = (ast.Continue, ast.Return, ast.Break, ast.Raise)


def guard(statement: ast.stmt) -> ast.expr | None:
    """The test after which what comes next runs for some only: `if name != "x": continue`."""
    return (
        statement.test if isinstance(statement, ast.If) and isinstance(statement.body[-1], _LEAVING) else None
    )


def _import(walker: Walker, node: ast.Import) -> None:
    for alias in node.names:
        walker.scope.imported(alias.name, None, alias.asname)


def _import_from(walker: Walker, node: ast.ImportFrom) -> None:
    for alias in node.names:
        walker.scope.imported(node.module or "", alias.name, alias.asname)


def _assign(walker: Walker, node: ast.Assign) -> None:
    value = walker.value(node.value)
    for target in node.targets:
        bind(walker, target, value)


def _annotated(walker: Walker, node: ast.AnnAssign) -> None:
    if node.value is not None:
        bind(walker, node.target, walker.value(node.value))


def _augmented(walker: Walker, node: ast.AugAssign) -> None:
    before, added = walker.value(node.target), walker.value(node.value)
    if before.items is not None and added.items is not None:
        bind(walker, node.target, before._replace(items=before.items + added.items))
        return
    both = before.text is not None and added.text is not None and isinstance(node.op, ast.Add)
    text = f"{before.text}{added.text}" if both else None
    bind(walker, node.target, known(text, before, added, name=before.name))


def _expression(walker: Walker, node: ast.Expr) -> None:
    walker.value(node.value)


def _if(walker: Walker, node: ast.If) -> None:
    branch: ast.If | None = node
    rest: list[ast.stmt] = []
    while branch is not None:
        if not (isinstance(branch.test, ast.Constant) and not branch.test.value):
            with_tests(walker, branch.test, branch.body)
        rest = branch.orelse
        only = rest[0] if len(rest) == 1 else None
        branch = only if isinstance(only, ast.If) else None
    walker.body(rest)


def with_tests(walker: Walker, test: ast.expr, body: list[ast.stmt]) -> None:
    """A block that runs where the test holds: what is tested to be a text is that text there."""
    around = walker.around
    walker.value(test)
    name, before = _told(walker, test), UNKNOWN
    if name:
        before = walker.scope.get(name)
        bind(walker, ast.Name(name), walker.value(test.comparators[0]))  # type: ignore[attr-defined]
    tests = around.tests
    around.tests = [*tests, test] if around.walking else tests
    walker.body(body)
    around.tests = tests
    if name:
        bind(walker, ast.Name(name), before)


def _told(walker: Walker, test: ast.expr) -> str:
    if not (
        isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and isinstance(test.ops[0], ast.Eq)
    ):
        return ""
    is_text = isinstance(test.comparators[0], ast.Constant) and isinstance(test.comparators[0].value, str)
    return test.left.id if is_text and walker.scope.get(test.left.id).every else ""


def _while(walker: Walker, node: ast.While) -> None:
    walker.value(node.test)
    walker.body(node.body)
    walker.body(node.orelse)


def _for(walker: Walker, node: ast.For | ast.AsyncFor) -> None:
    elements = of_elements(walker.value(node.iter))
    for element in each(walker, elements):
        bind(walker, node.target, element)
        walker.body(node.body)
    walker.body(node.orelse)


def _with(walker: Walker, node: ast.With | ast.AsyncWith) -> None:
    for item in node.items:
        value = walker.value(item.context_expr)
        if item.optional_vars is not None:
            bind(walker, item.optional_vars, value)
    walker.body(node.body)


def _try(walker: Walker, node: ast.Try) -> None:
    walker.body(node.body)
    for handler in node.handlers:
        walker.body(handler.body)
    walker.body(node.orelse)
    walker.body(node.finalbody)


def _match(walker: Walker, node: ast.Match) -> None:
    walker.value(node.subject)
    for case in node.cases:
        walker.body(case.body)


def _function(walker: Walker, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    walker.functions.defined(node)


def _class(walker: Walker, node: ast.ClassDef) -> None:
    walker.functions.class_defined(node)


def _return(walker: Walker, node: ast.Return) -> None:
    walker.functions.returned(walker.value(node.value))


def _asserted(walker: Walker, node: ast.Assert) -> None:
    walker.value(node.test)


def _raised(walker: Walker, node: ast.Raise) -> None:
    walker.value(node.exc)


STATEMENTS: dict[type[ast.stmt], Callable[..., None]] = {
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Expr: _expression,
    ast.If: _if,
    ast.While: _while,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.TryStar: _try,
    ast.Match: _match,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Return: _return,
    ast.Assert: _asserted,
    ast.Raise: _raised,
}
