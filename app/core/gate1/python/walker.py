"""One walk over a program: what its names hold, and the commands that its calls stand for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from app.core.gate1.python.attributes import attribute
from app.core.gate1.python.bounds import python_bounds
from app.core.gate1.python.called import Called
from app.core.gate1.python.calls import known_call
from app.core.gate1.python.expressions import EXPRESSIONS
from app.core.gate1.python.found import Found
from app.core.gate1.python.functions import Functions
from app.core.gate1.python.parse import parsed
from app.core.gate1.python.scope import Scope
from app.core.gate1.python.statements import STATEMENTS, guard
from app.core.gate1.python.surroundings import Surroundings
from app.core.gate1.python.values import UNKNOWN, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_DEPTH = 100
"""Expressions and statements within each other, functions that are called included."""
MOST_INNER = 6
"""Programs within the program that are read."""
MOST_VISITS = 1500
"""Visits of nodes after which nothing is read again, neither a loop's body nor a function's."""


class Walker:
    """Visits each statement in order, functions where they are called, those never called at the end."""

    def __init__(self) -> None:
        self.found = Found()
        self.scope = Scope()
        self.functions = Functions(self)
        self.around = Surroundings()
        self.files: dict[str, Value] = {}
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

    def value(self, node: ast.expr | None) -> Value:
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

    def values(self, nodes: Iterable[ast.expr]) -> list[Value]:
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

    def attribute(self, node: ast.Attribute, base: Value) -> Value:
        """An attribute of what is known already."""
        own = self.scope.find(f"{node.value.id}.{node.attr}") if isinstance(node.value, ast.Name) else None
        return attribute(base, node.attr) if own is None else own

    def found_call(self, callee: Value, args: list[Value]) -> Value:
        """A call that somebody else makes: a thread, `map`, an unpickler."""
        own = self.functions.own(callee, "")
        if own is not None:
            return self.functions.call(own, args, {})
        return known_call(Called(self, callee.name, callee.name.rpartition(".")[2], UNKNOWN, args, {}))

    def inner(self, text: str) -> Value:
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
