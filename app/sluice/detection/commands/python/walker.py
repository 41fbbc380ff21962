"""One walk over a program: what its names hold, and the commands that its calls stand for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from sluice.detection.commands.python.calls import known_call
from sluice.detection.commands.python.expressions import EXPRESSIONS
from sluice.detection.commands.python.libraries.called import Called
from sluice.detection.commands.python.parse import of_python_two, parsed, python_bounds, source
from sluice.detection.commands.python.python_statements import STATEMENTS, bind, guard
from sluice.detection.commands.python.python_values import UNKNOWN, PythonScope, PythonValue, attribute
from sluice.detection.commands.python.python_walk import Loops, ProgramFindings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.detection.commands.python.python_walk import Function, Walker
    from sluice.detection.commands.shell.shell_reading import Command, Nested


MOST_CALLS_WITHIN = 4
"""How deep calls are followed from function to function."""
_OWN = "def "
_REDUCE = frozenset({"__reduce__", "__reduce_ex__"})


class Functions:
    """All functions and methods by their name; a method's name is enough to find it."""

    def __init__(self, walker: Walker) -> None:
        self._walker = walker
        self._functions: dict[str, Function] = {}
        self._classes: dict[str, ast.ClassDef] = {}
        self._unread: dict[Function, None] = {}
        self._read: set[Function] = set()
        self._running: list[str] = []
        self._returned: list[PythonValue] = []

    def defined(self, node: Function) -> None:
        """A function or method; its name means it from now on."""
        self._functions[node.name] = node
        if node not in self._read:
            self._unread[node] = None
        self._walker.scope.set(node.name, PythonValue(None, _OWN + node.name))
        for decorator in node.decorator_list:
            self._walker.value(decorator)

    def class_defined(self, node: ast.ClassDef) -> None:
        """A class: what its body binds, and its methods."""
        self._classes[node.name] = node
        scope = self._walker.scope
        self._walker.body(node.body)
        scope.set(node.name, PythonValue(None, _OWN + node.name))

    def returned(self, value: PythonValue) -> None:
        """What the function that is being read returns; the most telling counts."""
        if not self._running:
            return
        if self._running[-1] in _REDUCE and value.items and len(value.items) > 1:
            self._walker.found_call(value.items[0], list(value.items[1].items or ()))
        before = self._returned[-1]
        if before == UNKNOWN or value.feeds or (value.text is not None and not before.feeds):
            self._returned[-1] = value

    def own(self, callee: PythonValue, method: str) -> str | None:
        """The program's own function that is called, None where it is none."""
        name = callee.name.removeprefix(_OWN) if callee.name.startswith(_OWN) else ""
        if name in self._functions or name in self._classes:
            return name
        return method if not callee.name and method in self._functions else None

    def call(self, name: str, args: list[PythonValue], keywords: dict[str, PythonValue]) -> PythonValue:
        """Read a function's body with its parameters bound; what it returns."""
        if name in self._classes and name not in self._functions:
            self._made(name, args, keywords)
            return PythonValue(None, "")
        if name in self._running or len(self._running) >= MOST_CALLS_WITHIN or not self._walker.may_repeat:
            return UNKNOWN._replace(feeds=tuple(feed for one in args for feed in one.feeds)[:1])
        return self._run(self._functions[name], args, keywords)

    def uncalled(self) -> None:
        """Read the functions that nothing called: callbacks, threads, methods, what others will call."""
        while self._unread:
            self._run(next(iter(self._unread)), [], {})

    def _made(self, name: str, args: list[PythonValue], keywords: dict[str, PythonValue]) -> None:
        for node in self._classes[name].body:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                self._run(node, args, keywords)

    def _run(self, node: Function, args: list[PythonValue], keywords: dict[str, PythonValue]) -> PythonValue:
        walker, outer = self._walker, self._walker.scope
        self._unread.pop(node, None)
        self._read.add(node)
        walker.scope = outer.within()
        self._parameters(node.args, args, keywords)
        self._running.append(node.name)
        self._returned.append(UNKNOWN)
        walker.body(node.body)
        self._running.pop()
        walker.scope = outer
        return self._returned.pop()

    def _parameters(
        self, given: ast.arguments, args: list[PythonValue], keywords: dict[str, PythonValue]
    ) -> None:
        walker = self._walker
        names = [one.arg for one in (*given.posonlyargs, *given.args)]
        if names[:1] in (["self"], ["cls"]):
            names = names[1:]
        defaults = dict(zip(reversed(names), reversed(given.defaults), strict=False))
        defaults |= {
            one.arg: value for one, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value
        }
        for name, node in defaults.items():
            bind(walker, ast.Name(name), walker.value(node))
        for name in names:
            if name not in defaults:
                walker.scope.set(name, UNKNOWN)
        for name, value in [*zip(names, args, strict=False), *keywords.items()]:
            if value != UNKNOWN or name not in defaults:
                walker.scope.set(name, value)
        if given.vararg is not None:
            walker.scope.set(given.vararg.arg, PythonValue(items=tuple(args[len(names) :])))


MOST_DEPTH = 100
"""Expressions and statements within each other, functions that are called included."""
MOST_INNER = 6
"""Programs within the program that are read."""
MOST_VISITS = 1500
"""Visits of nodes after which nothing is read again, neither a loop's body nor a function's."""


class ProgramWalker:
    """Visits each statement in order, functions where they are called, those never called at the end."""

    def __init__(self) -> None:
        self.found = ProgramFindings()
        self.scope = PythonScope()
        self.functions = Functions(self)
        self.around = Loops()
        self.files: dict[str, PythonValue] = {}
        """What the program wrote into the files that it names."""
        self._inner = 0
        self._depth = 0
        self._visits = 0

    @property
    def may_repeat(self) -> bool:
        """Whether there is work left for reading a part once more with other values."""
        return self._visits < MOST_VISITS

    def program(self, tree: ast.Module) -> None:
        """The whole program."""
        self.body(tree.body)
        self.functions.uncalled()

    def value(self, node: ast.expr | None) -> PythonValue:
        """What is known of an expression; what it calls is found on the way."""
        if type(node) is ast.Name:
            return self.scope.get(node.id)
        if node is None:
            return UNKNOWN
        read = EXPRESSIONS.get(type(node))
        if read is None or not self._enter():
            return UNKNOWN
        try:
            return read(self, node)
        finally:
            self._depth -= 1

    def values(self, nodes: Iterable[ast.expr]) -> list[PythonValue]:
        """Several expressions, in their order."""
        return [self.value(node) for node in nodes]

    def body(self, statements: list[ast.stmt]) -> None:
        """A block: after `if ...: continue` the rest of it runs for some only."""
        tests = self.around.tests
        for statement in statements:
            read = STATEMENTS.get(type(statement))
            if read is not None and self._enter():
                try:
                    read(self, statement)
                finally:
                    self._depth -= 1
            test = guard(statement) if self.around.walking else None
            if test is not None:
                self.around.tests = [*self.around.tests, test]
        self.around.tests = tests

    def attribute(self, node: ast.Attribute, base: PythonValue) -> PythonValue:
        """An attribute of what is known already."""
        own = self.scope.find(f"{node.value.id}.{node.attr}") if isinstance(node.value, ast.Name) else None
        return attribute(base, node.attr) if own is None else own

    def found_call(self, callee: PythonValue, args: list[PythonValue]) -> PythonValue:
        """A call that other code makes: a thread, `map`, an unpickler."""
        own = self.functions.own(callee, "")
        if own is not None:
            return self.functions.call(own, args, {})
        return known_call(Called(self, callee.name, callee.name.rpartition(".")[2], UNKNOWN, args, {}))

    def inner(self, text: str) -> PythonValue:
        """A program within the program: read in the same scope; the value of its last expression."""
        tree = parsed(text.strip()) if python_bounds(text) is None and self._inner < MOST_INNER else None
        if tree is None:
            return UNKNOWN
        self._inner += 1
        self.body(tree.body[:-1])
        last = tree.body[-1:]
        if last and isinstance(last[0], ast.Expr):
            return self.value(last[0].value)
        self.body(last)
        return UNKNOWN

    def _enter(self) -> bool:
        self._visits += 1
        if self.found.full:
            return False
        if self._depth >= MOST_DEPTH:
            self.found.doubt("Python nested too deep to follow")
            return False
        self._depth += 1
        return True


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
    tree = None if past else parsed(program)
    if tree is None and not past:
        older = of_python_two(program)
        tree = None if older is None else parsed(older)
    if tree is None and not shell:
        return PythonReading(inconclusive=past)
    walker = ProgramWalker()
    for line in shell:
        walker.found.shell(line)
    if tree is not None:
        walker.program(tree)
    found = walker.found
    return PythonReading(
        tuple(found.commands), tuple(found.nested), past or found.inconclusive, parsed=tree is not None
    )
