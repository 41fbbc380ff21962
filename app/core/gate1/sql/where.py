"""Is a WHERE clause always true? sqlglot parses it; constants and columns compared with themselves decide.

`WHERE 1=1`, `'a' LIKE '%'`, `id = id`, `NOT FALSE`, `x IS NULL OR TRUE`: the ways to write "all rows".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from app.core.gate1.sql.tokens import BackslashSql

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.core.gate1.sql.lexer import SqlToken

_COMPARE: dict[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: lambda left, right: left == right,
    exp.NullSafeEQ: lambda left, right: left == right,
    exp.NEQ: lambda left, right: left != right,
    exp.GT: lambda left, right: left > right,
    exp.GTE: lambda left, right: left >= right,
    exp.LT: lambda left, right: left < right,
    exp.LTE: lambda left, right: left <= right,
}
COMPARISON = 3
"""Tokens of a comparison: its two sides and the sign between them."""
_SIGNS = frozenset(["=", "<", ">", "<=", ">=", "<>", "!="])
_REFLEXIVE = (exp.EQ, exp.NullSafeEQ, exp.GTE, exp.LTE)
_MATCHES_ALL = frozenset(["%", "%%", "*", ".*", "^", "^.*$", ""])


def of_columns(tokens: Sequence[SqlToken]) -> bool:
    """Whether the clause is nothing but columns compared with constants, all of which must hold.

    `id = 4 AND name <> 'x'` depends on the row; no parser need be asked.
    """
    starts = range(0, len(tokens), COMPARISON + 1)
    joints = tokens[COMPARISON :: COMPARISON + 1]
    return (
        len(tokens) == (COMPARISON + 1) * len(starts) - 1
        and all(one.upper == "AND" for one in joints)
        and all(_of_column(*tokens[start : start + COMPARISON]) for start in starts)
    )


def _of_column(left: SqlToken, sign: SqlToken, right: SqlToken) -> bool:
    return (
        left.kind == "word"
        and left.upper not in ("TRUE", "FALSE")
        and sign.text in _SIGNS
        and right.kind in ("string", "number")
    )


def always_true(clause: str) -> bool | None:
    """True or False; None where sqlglot cannot parse the clause."""
    try:
        condition = sqlglot.parse_one(f"SELECT 1 WHERE {clause}", read=BackslashSql).find(exp.Where)
    except (SqlglotError, RecursionError):
        return None
    return condition is not None and _truth(condition.this) is True


def _truth(node: exp.Expr | None) -> bool | None:
    """True or False for every row, None where it depends on the row."""
    if isinstance(node, exp.Paren):
        return _truth(node.this)
    if isinstance(node, exp.Not):
        inner = _truth(node.this)
        return None if inner is None else not inner
    if isinstance(node, (exp.Or, exp.And, exp.Xor)):
        return _connected(node, _truth(node.left), _truth(node.right))
    return _predicate(node)


def _connected(node: exp.Connector, left: bool | None, right: bool | None) -> bool | None:
    if isinstance(node, exp.Xor):
        return None if left is None or right is None else left != right
    decisive = isinstance(node, exp.Or)
    if decisive in (left, right) or (decisive and _complements(node.left, node.right)):
        return decisive
    return None if left is None or right is None else not decisive


def _complements(left: exp.Expr, right: exp.Expr) -> bool:
    """`x OR NOT x`."""
    return (isinstance(right, exp.Not) and right.this == left) or (
        isinstance(left, exp.Not) and left.this == right
    )


def _predicate(node: exp.Expr | None) -> bool | None:
    compare = _COMPARE.get(type(node))  # type: ignore[arg-type]
    if compare is not None and node is not None:
        return _compared(node, compare)
    if isinstance(node, (exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike)):
        return True if _value(node.expression) in _MATCHES_ALL else None
    if isinstance(node, exp.In):
        return True if any(one == node.this for one in node.expressions) else None
    if isinstance(node, exp.Between):
        return _between(node)
    if isinstance(node, exp.Exists):
        inner = node.this
        return True if isinstance(inner, exp.Select) and inner.args.get("from_") is None else None
    constant = _value(node)
    return None if constant is None or isinstance(constant, str) else bool(constant)


def _compared(node: exp.Expr, compare: Callable[[Any, Any], bool]) -> bool | None:
    left, right = _value(node.args["this"]), _value(node.args["expression"])
    if left is not None and right is not None and isinstance(left, str) is isinstance(right, str):
        return compare(left, right)
    return True if isinstance(node, _REFLEXIVE) and node.args["this"] == node.args["expression"] else None


def _between(node: exp.Between) -> bool | None:
    value, low, high = (_value(node.args.get(name)) for name in ("this", "low", "high"))
    if isinstance(value, float) and isinstance(low, float) and isinstance(high, float):
        return low <= value <= high
    return None


_ARITHMETIC: dict[type[exp.Expr], Callable[[float, float], float]] = {
    exp.Add: lambda left, right: left + right,
    exp.Sub: lambda left, right: left - right,
    exp.Mul: lambda left, right: left * right,
}


def _value(node: exp.Expr | None) -> float | str | None:
    """A constant's value, None for all else."""
    if isinstance(node, exp.Boolean):
        return float(node.this)
    if isinstance(node, exp.Paren):
        return _value(node.this)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _number(str(node.this))
    if isinstance(node, exp.Neg):
        inner = _value(node.this)
        return -inner if isinstance(inner, float) else None
    arithmetic = _ARITHMETIC.get(type(node))  # type: ignore[arg-type]
    if arithmetic is None or node is None:
        return None
    left, right = _value(node.args["this"]), _value(node.args["expression"])
    return arithmetic(left, right) if isinstance(left, float) and isinstance(right, float) else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
