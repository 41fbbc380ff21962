"""The mutants of a file. Each changes one place in a function: a comparison, a number, a statement."""

from __future__ import annotations

import ast
import copy
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

from load import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator


class Mutant(NamedTuple):
    """`at`: which of the file's places, `function`: the outermost function or method by qualified name."""

    file: str
    at: int
    function: str
    line: int
    was: str
    now: str


FLIPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or,
    ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.BitOr: ast.BitAnd,
}  # fmt: skip


def changes(node: ast.AST) -> Iterator[ast.AST]:  # noqa: C901 - a table
    """What may stand in the node's place, each a new node."""
    match node:
        case ast.Compare(ops=[one]) if type(one) in FLIPPED:
            yield _replace_fields(node, ops=[FLIPPED[type(one)]()])
        case ast.BoolOp(op=one) | ast.BinOp(op=one) | ast.AugAssign(op=one) if type(one) in FLIPPED:
            yield _replace_fields(node, op=FLIPPED[type(one)]())
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield inner
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as number):
            yield ast.Constant(number + 1)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield _replace_fields(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.comprehension(ifs=[test, *rest]):
            yield _replace_fields(node, ifs=[ast.UnaryOp(ast.Not(), test), *rest])
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.Raise() | ast.Continue() | ast.Assert():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case _:
            return


def _replace_fields(node: Any, **fields: Any) -> ast.AST:
    made = copy.copy(node)
    for name, value in fields.items():
        setattr(made, name, value)
    return made  # type: ignore[no-any-return]


class _Changing(ast.NodeTransformer):
    """Counts the places of a module, and changes the one numbered `at`."""

    def __init__(self, file: str, at: int | None = None) -> None:
        self._file, self._at = file, at
        self._scope: list[str] = []
        self._in_function = False
        self._statement: ast.AST = ast.Pass()
        self.mutants: list[Mutant] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        if not self._in_function:
            self._scope.append(node.name)
        node.body = [self.visit(statement) for statement in node.body]
        if not self._in_function:
            self._scope.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if self._in_function:
            node.body = [self.visit(statement) for statement in node.body]
            return node
        self._scope.append(node.name)
        self._in_function = True
        node.body = [self.visit(statement) for statement in node.body]
        self._in_function = False
        self._scope.pop()
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = self.visit(node.value) if node.value is not None else None
        return node

    def visit(self, node: ast.AST) -> Any:
        if not self._in_function:
            return super().visit(node)
        outer, self._statement = self._statement, node if isinstance(node, ast.stmt) else self._statement
        result = node
        for change in changes(node):
            if len(self.mutants) == self._at:
                result = ast.copy_location(change, node)
            where = self._statement if isinstance(node, ast.operator | ast.comprehension) else node
            line = getattr(node, "lineno", getattr(self._statement, "lineno", 0))
            texts = _first(where), _first(change if where is node else self._statement)
            self.mutants.append(Mutant(self._file, len(self.mutants), ".".join(self._scope), line, *texts))
        if result is node:
            self.generic_visit(node) if not isinstance(node, ast.FunctionDef) else super().visit(node)
        self._statement = outer
        return result


def _first(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0]


def places(file: str) -> list[Mutant]:
    """All mutants of a file."""
    counting = _Changing(file)
    counting.visit(ast.parse((ROOT / file).read_bytes()))
    return counting.mutants


def compile_mutant(mutant: Mutant) -> CodeType:
    """The module with the mutant in it."""
    changing = _Changing(mutant.file, mutant.at)
    tree = ast.fix_missing_locations(changing.visit(ast.parse((ROOT / mutant.file).read_bytes())))
    return compile(tree, str(ROOT / mutant.file), "exec", dont_inherit=True)


def codes_in(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes_in(constant)
