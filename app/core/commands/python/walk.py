"""What the readers of statements, expressions and calls ask of the walk that they are a part of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable

    from app.core.commands.python.found import Found, Surroundings
    from app.core.commands.python.scope import Scope
    from app.core.commands.python.values import Value

    Function = ast.FunctionDef | ast.AsyncFunctionDef


class OwnFunctions(Protocol):
    """The functions of the program itself."""

    def defined(self, node: Function) -> None:
        """A function or method; its name means it from now on."""

    def class_defined(self, node: ast.ClassDef) -> None:
        """A class: what its body binds, and its methods."""

    def returned(self, value: Value) -> None:
        """What the function that is being read returns."""

    def own(self, callee: Value, method: str) -> str | None:
        """The program's own function that is called, None where it is none."""

    def call(self, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
        """Read a function's body with its parameters bound; what it returns."""


class Walker(Protocol):
    """One walk over a program: what its names hold, and the commands that its calls stand for.

    `files`: what the program wrote into the files that it names.
    """

    scope: Scope
    files: dict[str, Value]

    @property
    def found(self) -> Found:
        """Collects what the program does."""

    @property
    def functions(self) -> OwnFunctions:
        """The program's own."""

    @property
    def around(self) -> Surroundings:
        """What stands around the statement that is being read."""

    @property
    def may_repeat(self) -> bool:
        """Whether there is work left for reading a part once more with other values."""

    def value(self, node: ast.expr | None) -> Value:
        """What is known of an expression; what it calls is found on the way."""

    def values(self, nodes: Iterable[ast.expr]) -> list[Value]:
        """Several expressions, in their order."""

    def body(self, statements: list[ast.stmt]) -> None:
        """A block of statements."""

    def attribute(self, node: ast.Attribute, base: Value) -> Value:
        """An attribute of what is known already."""

    def found_call(self, callee: Value, args: list[Value]) -> Value:
        """A call that somebody else makes."""

    def inner(self, text: str) -> Value:
        """A program within the program; the value of its last expression."""
