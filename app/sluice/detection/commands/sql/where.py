"""Is a WHERE clause always true? sqlglot parses it; constants and columns compared with themselves decide.

`WHERE 1=1`, `'a' LIKE '%'`, `id = id`, `NOT FALSE`, `x IS NULL OR TRUE`, `id IN (SELECT id FROM t)` of the
same table, `id > 0`, and what names no column at all: the ways to write "all rows".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sluice.detection.commands.sql.rows import (
    Table,
    holds_of_every_row,
    is_rowless,
    may_hold_of_every_row,
    selects,
)
from sluice.detection.commands.sql.tokens import BackslashSql
from sluice.text.name_words import vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sluice.detection.commands.sql.tokens import SqlToken

_COMPARE: dict[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: lambda left, right: left == right,
    exp.NullSafeEQ: lambda left, right: left == right,
    exp.NEQ: lambda left, right: left != right,
    exp.GT: lambda left, right: left > right,
    exp.GTE: lambda left, right: left >= right,
    exp.LT: lambda left, right: left < right,
    exp.LTE: lambda left, right: left <= right,
}
_COMPLEMENT: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LTE,
    exp.LTE: exp.GT,
    exp.LT: exp.GTE,
    exp.GTE: exp.LT,
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
}
_NARROWING = ("group", "having", "offset", "joins", "qualify", "laterals", "sample")
"""Parts of a query by which it may give fewer rows than its table has."""
UNKNOWN_TABLE = Table("", frozenset())
_NO_COLUMNS = vocabulary(
    "TRUE FALSE CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP LOCALTIME LOCALTIMESTAMP CURRENT_USER",
    "SESSION_USER USER SYSDATE SYSTIMESTAMP",
)
COMPARISON = 3
"""Tokens of a comparison: its two sides and the sign between them."""
_SIGNS = frozenset(["=", "<", ">", "<=", ">=", "<>", "!="])
_REFLEXIVE = (exp.EQ, exp.NullSafeEQ, exp.GTE, exp.LTE)
_MATCHES_ALL = frozenset(["%", "%%", "*", ".*", "^", "^.*$", ""])


def compares_columns(tokens: Sequence[SqlToken]) -> bool:
    """Whether the clause is nothing but columns compared with constants, all of which must hold.

    `id = 4 AND name <> 'x'` depends on the row; no parser need be asked.
    """
    starts = range(0, len(tokens), COMPARISON + 1)
    joints = tokens[COMPARISON :: COMPARISON + 1]
    return (
        len(tokens) == (COMPARISON + 1) * len(starts) - 1
        and all(joint.upper == "AND" for joint in joints)
        and all(_is_of_column(*tokens[start : start + COMPARISON]) for start in starts)
    )


def _is_of_column(left: SqlToken, sign: SqlToken, right: SqlToken) -> bool:
    return (
        left.kind == "word"
        and left.upper not in _NO_COLUMNS
        and sign.text in _SIGNS
        and right.kind in ("string", "number")
        and (sign.text == "=" or not may_hold_of_every_row(left.upper, right.text))
    )


def always_true(clause: str, table: Table = UNKNOWN_TABLE) -> bool | None:
    """True or False; None where sqlglot cannot parse the clause. `table`: whose rows it chooses."""
    try:
        condition = sqlglot.parse_one(f"SELECT 1 WHERE {clause}", read=BackslashSql).find(exp.Where)
    except (SqlglotError, RecursionError):
        return None
    return condition is not None and _truth(condition.this, table) is True


def _truth(node: exp.Expr | None, table: Table) -> bool | None:
    """True or False for every row, None where it depends on the row. What names no column holds for all."""
    truth = _decide(node, table)
    return True if truth is None and node is not None and is_rowless(node) else truth


def _decide(node: exp.Expr | None, table: Table) -> bool | None:
    if isinstance(node, exp.Paren):
        return _decide(node.this, table)
    if isinstance(node, exp.Not):
        inner = _decide(node.this, table)
        return holds_of_every_row(node, table) if inner is None else not inner
    if isinstance(node, (exp.Or, exp.And, exp.Xor)):
        return _connect(node, _truth(node.left, table), _truth(node.right, table))
    return _predicate(node, table)


def _connect(node: exp.Connector, left: bool | None, right: bool | None) -> bool | None:
    if isinstance(node, exp.Xor):
        return None if left is None or right is None else left != right
    decisive = isinstance(node, exp.Or)
    if decisive in (left, right) or (decisive and _complements(node.left, node.right)):
        return decisive
    return None if left is None or right is None else not decisive


def _complements(left: exp.Expr, right: exp.Expr) -> bool:
    """`x OR NOT x`, `x > 5 OR x <= 5`."""
    return (
        (isinstance(right, exp.Not) and right.this == left)
        or (isinstance(left, exp.Not) and left.this == right)
        or (
            _COMPLEMENT.get(type(left)) is type(right)
            and left.args["this"] == right.args["this"]
            and left.args["expression"] == right.args["expression"]
        )
    )


def _predicate(node: exp.Expr | None, table: Table) -> bool | None:
    compare = _COMPARE.get(type(node))  # type: ignore[arg-type]
    if compare is not None and node is not None:
        answer = _compare_values(node, compare)
        return (holds_of_every_row(node, table) or _judge_any(node, table)) if answer is None else answer
    if isinstance(node, (exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike)):
        return True if _value(node.expression) in _MATCHES_ALL else None
    if isinstance(node, exp.In):
        return (
            True
            if any(expression == node.this for expression in node.expressions)
            else _judge_select(node, table)
        )
    if isinstance(node, exp.Between):
        return _read_between(node) or holds_of_every_row(node, table)
    if isinstance(node, exp.Exists):
        return _judge_query(node.this, table)
    constant = _value(node)
    return None if constant is None or isinstance(constant, str) else bool(constant)


def _judge_any(node: exp.Expr, table: Table) -> bool | None:
    """`id = ANY (SELECT id FROM t)`."""
    right = node.args["expression"]
    if not (isinstance(node, exp.EQ) and isinstance(right, exp.Any)):
        return None
    return _judge_select(exp.In(this=node.this.copy(), query=right.this.copy()), table)


def _judge_select(node: exp.In, table: Table) -> bool | None:
    query = node.args.get("query")
    select = query.this if isinstance(query, exp.Subquery) else query
    if not isinstance(select, exp.Select):
        return None
    answer = _judge_query(select, table)
    return answer if answer is not True or selects(select, node.this) else None


def _judge_query(select: Any, table: Table) -> bool | None:
    """Whether a query gives something for every row: all of the table's own, or anything at all."""
    if not isinstance(select, exp.Select):
        return None
    where, limit = select.args.get("where"), select.args.get("limit")
    if limit is not None:
        return False if _value(limit.args.get("expression")) == 0 else None
    if any(select.args.get(name) for name in _NARROWING):
        return None
    origin = select.args.get("from_")
    within = table if origin is None else table.read_in(origin.this)
    truth = None if where is None else _truth(where.this, within or table)
    if truth is False:
        return False
    of_all = origin is None or within is not None
    return True if of_all and (where is None or truth is True) else None


def _compare_values(node: exp.Expr, compare: Callable[[Any, Any], bool]) -> bool | None:
    left, right = _value(node.args["this"]), _value(node.args["expression"])
    if left is not None and right is not None and isinstance(left, str) is isinstance(right, str):
        return compare(left, right)
    return True if isinstance(node, _REFLEXIVE) and node.args["this"] == node.args["expression"] else None


def _read_between(node: exp.Between) -> bool | None:
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
