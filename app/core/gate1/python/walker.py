"""One walk over a program: what its names hold, and the commands that its calls stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.gate1.python.expressions import EXPRESSIONS
from app.core.gate1.python.found import Found
from app.core.gate1.python.functions import Functions
from app.core.gate1.python.scope import Scope
from app.core.gate1.python.statements import STATEMENTS, guards
from app.core.gate1.python.surroundings import Surroundings
from app.core.gate1.python.values import UNKNOWN, Value

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable

MOST_DEPTH = 100
"""Expressions and statements within each other, functions that are called included."""
MOST_VISITS = 6000
"""Nodes of the tree that are visited with repetition: loops over known lists, functions with their arguments."""


class Walker:
    """Visits each statement in order, functions where they are called, those never called at the end."""

    def __init__(self) -> None:
        self.found = Found()
        self.scope = Scope()
        self.functions = Functions(self)
        self.around = Surroundings()
        self.files: dict[str, Value] = {}
        """What the program wrote into the files that it names."""
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
        narrowed = self.around.narrowed
        for statement in statements:
            read = STATEMENTS.get(type(statement))
            if read is not None and self._enter():
                try:
                    read(self, statement)
                finally:
                    self._depth -= 1
            self.around.narrowed += guards(statement)
        self.around.narrowed = narrowed

    def _enter(self) -> bool:
        self._visits += 1
        if self._depth >= MOST_DEPTH:
            self.found.doubt("Python nested too deep to follow")
            return False
        self._depth += 1
        return True
