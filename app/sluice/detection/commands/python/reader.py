"""One flat visit of a program: all bodies in the order in which they stand, functions where they are called.

What its names hold is known as far as texts put together tell; what its calls do says call_table.py.
"""

from __future__ import annotations

import ast
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.detection.commands.python.call import PythonCall
from sluice.detection.commands.python.calls import evaluate
from sluice.detection.commands.python.expressions import value_of
from sluice.detection.commands.python.findings import ProgramFindings
from sluice.detection.commands.python.parse import parse, python_bounds, source
from sluice.detection.commands.python.values import (
    ASSUMED,
    UNKNOWN,
    PythonValue,
    attribute,
    canonical,
    merge,
    word,
)
from sluice.detection.commands.shell import Command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sluice.detection.commands.shell.shell_reading import Nested

    Function = ast.FunctionDef | ast.AsyncFunctionDef

MOST_CALLS_WITHIN = 4
"""How deep calls are followed from function to function."""
MOST_DEPTH = 100
"""Expressions and statements within each other, functions that are called included."""
MOST_INNER = 6
"""Programs within the program that are read."""
MOST_VISITS = 1500
"""Visits of nodes after which nothing is read again, neither a loop's body nor a function's."""
MOST_ELEMENTS = 8
"""Members of a known list for which a loop's body is read."""
_OWN, _CLASS = "def ", "class "


class ProgramReader(ProgramFindings):
    """Visits a program. `names`: what its names hold, where it is being read."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, PythonValue] = {}
        self._attributes: dict[str, PythonValue] = {}
        self._functions: dict[str, Function] = {}
        self._unread: dict[Function, None] = {}
        self._running: list[str] = []
        self._returned = UNKNOWN
        self._star = ""
        self._readers: dict[type[ast.stmt], Callable[[Any], None]] = {
            ast.Import: self._import,
            ast.ImportFrom: self._import,
            ast.FunctionDef: self._define,
            ast.AsyncFunctionDef: self._define,
            ast.ClassDef: self._define_class,
            ast.Assign: self._assign,
            ast.AnnAssign: self._annotate,
            ast.AugAssign: self._augment,
            ast.For: self._loop,
            ast.AsyncFor: self._loop,
            ast.Return: self._return,
        }
        self._inner_programs = self._depth = self._visits = 0

    def program(self, tree: ast.Module) -> None:
        """The whole program; at its end the functions that nothing called: callbacks, threads, methods."""
        self.body(tree.body)
        while self._unread:
            self._run(next(iter(self._unread)), [], {})

    def body(self, statements: list[ast.stmt]) -> None:
        """A block, each statement in its order."""
        for statement in statements:
            self._statement(statement)

    def value(self, node: ast.expr | None) -> PythonValue:
        """What is known of an expression; what it calls is found on the way."""
        if node is None:
            return UNKNOWN
        if isinstance(node, ast.Name):
            return self.name(node.id)
        with self._enter() as may:
            if not may:
                return UNKNOWN
            return self._call(node) if isinstance(node, ast.Call) else value_of(self, node)

    def name(self, name: str) -> PythonValue:
        """What is known of a name."""
        value = self.names.get(name) or ASSUMED.get(name)
        return value or (PythonValue(None, canonical(f"{self._star}.{name}")) if self._star else UNKNOWN)

    def attribute(self, node: ast.Attribute, base: PythonValue) -> PythonValue:
        """What is known of an attribute: what the program set, or a part of what has a name."""
        name = f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else ""
        return self._attributes.get(name) or attribute(base, node.attr)

    def inner(self, text: str) -> PythonValue:
        """A program within the program: read in the same scope; the value of its last expression."""
        tree = (
            parse(text.strip()) if python_bounds(text) is None and self._inner_programs < MOST_INNER else None
        )
        if tree is None:
            return UNKNOWN
        self._inner_programs += 1
        *before, last = tree.body or [ast.Pass()]
        self.body(before)
        if isinstance(last, ast.Expr):
            return self.value(last.value)
        self.body([last])
        return UNKNOWN

    def bind(self, target: ast.expr, value: PythonValue) -> None:
        """`target = value`."""
        match target:
            case ast.Name(id=name):
                self.names[name] = value
            case ast.Attribute(value=ast.Name(id=name), attr=attr):
                self._attributes[f"{name}.{attr}"] = value
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                items = value.items if value.items and not value.keys else ()
                for index, node in enumerate(targets):
                    self.bind(node, items[index] if index < len(items) else PythonValue(feeds=value.feeds))
            case ast.Starred(value=inner):
                self.bind(inner, PythonValue(feeds=value.feeds))
            case ast.Subscript(value=whole, slice=key) if self.value(whole).name == "os.environ":
                self.command(Command("", assigned=((word(self.value(key)), word(value)),)))

    def each(self, iterable: PythonValue) -> Iterator[PythonValue]:
        """What a loop over the value goes through, as far as the work that is left allows."""
        members = (
            tuple(map(PythonValue, iterable.keys)) or iterable.items or (PythonValue(feeds=iterable.feeds),)
        )
        for index, element in enumerate(members[:MOST_ELEMENTS]):
            if not index or self._visits < MOST_VISITS:
                yield element

    @contextmanager
    def _enter(self) -> Iterator[bool]:
        self._visits += 1
        may = not self.full
        if may and self._depth >= MOST_DEPTH:
            self.doubt("Python nested too deep to follow")
            may = False
        self._depth += 1
        try:
            yield may
        finally:
            self._depth -= 1

    def _statement(self, node: ast.stmt) -> None:
        with self._enter() as may:
            if may:
                self._readers.get(type(node), self._parts)(node)

    def _define(self, node: Function) -> None:
        self._functions[node.name] = node
        self._unread[node] = None
        self.names[node.name] = PythonValue(None, _OWN + node.name)

    def _define_class(self, node: ast.ClassDef) -> None:
        self.names[node.name] = PythonValue(None, _CLASS + node.name)
        self.body(node.body)

    def _assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.bind(target, value)

    def _annotate(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.value(node.value))

    def _augment(self, node: ast.AugAssign) -> None:
        self.bind(node.target, self.value(ast.BinOp(node.target, node.op, node.value)))

    def _loop(self, node: ast.For | ast.AsyncFor) -> None:
        for element in self.each(self.value(node.iter)):
            self.bind(node.target, element)
            self.body(node.body)
        self.body(node.orelse)

    def _return(self, node: ast.Return) -> None:
        value = self.value(node.value)
        if self._returned == UNKNOWN or value.feeds or value.text is not None:
            self._returned = value

    def _parts(self, node: ast.AST) -> None:
        """Of any other statement its expressions and the blocks within it."""
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.withitem):
                value = self.value(part.context_expr)
                if part.optional_vars is not None:
                    self.bind(part.optional_vars, value)
            elif isinstance(part, ast.expr):
                self.value(part)
            elif isinstance(part, ast.stmt):
                self._statement(part)
            else:
                self._parts(part)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self._star = getattr(node, "module", None) or ""
                continue
            if isinstance(node, ast.Import):
                whole = alias.name if alias.asname else alias.name.partition(".")[0]
            else:
                whole = f"{node.module or ''}.{alias.name}"
            self.names[alias.asname or whole.rpartition(".")[2]] = PythonValue(None, canonical(whole))

    def _call(self, node: ast.Call) -> PythonValue:
        method, base, callee = "", UNKNOWN, UNKNOWN
        if isinstance(node.func, ast.Attribute):
            method, base = node.func.attr, self.value(node.func.value)
            callee = self.attribute(node.func, base)
        else:
            callee = self.value(node.func)
        args: list[PythonValue] = []
        for argument in node.args:
            value = self.value(argument)
            args += value.items if isinstance(argument, ast.Starred) and value.items is not None else (value,)
        keywords = {keyword.arg or "**": self.value(keyword.value) for keyword in node.keywords}
        is_method = not callee.name or callee.name.startswith(_CLASS)
        own = self._functions.get(method if is_method else callee.name.removeprefix(_OWN))
        if own is not None and (is_method or callee.name.startswith(_OWN)):
            return self._call_own(own, args, keywords)
        return evaluate(PythonCall(self, callee.name, method, base, args, keywords))

    def _call_own(
        self, node: Function, args: list[PythonValue], keywords: dict[str, PythonValue]
    ) -> PythonValue:
        """Read a function's body with its parameters bound; what it returns."""
        may = node.name not in self._running and len(self._running) < MOST_CALLS_WITHIN
        if not may or self._visits >= MOST_VISITS:
            return PythonValue(feeds=merge(args))
        return self._run(node, args, keywords)

    def _run(self, node: Function, args: list[PythonValue], keywords: dict[str, PythonValue]) -> PythonValue:
        outer, returned = self.names, self._returned
        self._unread.pop(node, None)
        self.names, self._returned = dict(outer), UNKNOWN
        self._running.append(node.name)
        self._bind_parameters(node.args, args, keywords)
        self.body(node.body)
        self._running.pop()
        self.names, (self._returned, value) = outer, (returned, self._returned)
        return value

    def _bind_parameters(
        self, parameters: ast.arguments, args: list[PythonValue], keywords: dict[str, PythonValue]
    ) -> None:
        names = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
        names = names[1:] if names[:1] in (["self"], ["cls"]) else names
        for name in names:
            self.names[name] = UNKNOWN
        for name, node in zip(reversed(names), reversed(parameters.defaults), strict=False):
            self.names[name] = self.value(node)
        for kwonlyarg, default in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True):
            self.names[kwonlyarg.arg] = self.value(default)
        for name, value in [*zip(names, args, strict=False), *keywords.items()]:
            self.names[name] = value if value != UNKNOWN else self.names.get(name, UNKNOWN)
        if parameters.vararg is not None:
            self.names[parameters.vararg.arg] = PythonValue(items=tuple(args[len(names) :]))


class PythonReading(NamedTuple):
    """The commands that the program's calls stand for, in the order in which they are met.

    A library call without a counterpart is a command whose program is its dotted name in lower case.
    `nested`: texts in other languages. `parsed`: the text is Python; what is not gives an empty reading.
    `inconclusive` says why the reading may be incomplete.
    """

    commands: tuple[Command, ...] = ()
    nested: tuple[Nested, ...] = ()
    inconclusive: str | None = None
    parsed: bool = False


def read_python(text: str) -> PythonReading:
    """The reading of a text; one that is not Python, or passes a bound, gives next to nothing.

    The same text always gives the same reading.
    """
    program, shell = source(text)
    past = python_bounds(program)
    tree = None if past else parse(program)
    if tree is None and not shell:
        return PythonReading(inconclusive=past)
    reader = ProgramReader()
    for line in shell:
        reader.shell(line)
    if tree is not None:
        reader.program(tree)
    doubt = past or reader.inconclusive
    return PythonReading(tuple(reader.commands), tuple(reader.nested), doubt, parsed=tree is not None)
