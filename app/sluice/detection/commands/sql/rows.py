"""Conditions that hold for every row of one table, though they name its columns.

`id > 0`, `id IS NOT NULL`, `a.id = b.id` of the same table twice, `id >= (SELECT MIN(id) FROM t)`,
`created_at <= now()`, `d < '2999-12-31'`: the ways to satisfy a client that wants a WHERE clause (MySQL
Reference Manual, `sql_safe_updates`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp

from sluice.text.name_words import vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable

LEAST_KEY = 1
"""Generated keys begin here (SQL:2016, identity columns), so that all are at least as large."""
LARGEST_KEY = 1e9
"""A key range up to here or beyond bounds nothing."""
BEFORE_ALL_DATA, AFTER_ALL_DATA = 1971, 2099
"""Years: what is dated after the first (the epoch's) or before the second is everything."""
_KEYS = frozenset(["id", "_id", "rowid", "ctid", "oid", "pk", "uuid", "guid", "_rowid_", "uid"])
_CREATED = ("created", "inserted", "create_", "insert_")
_NOW = vocabulary("now sysdate getdate getutcdate sysdatetime utc_timestamp clock_timestamp")
_YEAR = re.compile(r"(\d{4})-\d\d")
_AT_LEAST = (exp.GT, exp.GTE)
_AT_MOST = (exp.LT, exp.LTE)
_REFLEXIVE = (exp.EQ, exp.NullSafeEQ, exp.GTE, exp.LTE)
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
}
_OF_THE_ROW = (exp.Column, exp.Placeholder, exp.Parameter, exp.SessionParameter, exp.Star)


class Table(NamedTuple):
    """The table whose rows are chosen, in lower case, and the names under which a clause speaks of them."""

    name: str
    names: frozenset[str]

    def read_in(self, origin: Any) -> Table | None:
        """This table as a query's FROM names it, None where it reads another."""
        if not isinstance(origin, exp.Table) or not self.name or origin.name.lower() != self.name:
            return None
        return Table(self.name, self.names | {origin.alias_or_name.lower()})


def is_rowless(node: exp.Expr) -> bool:
    """Whether the condition is the same for all rows: it names no column and no parameter."""
    if isinstance(node, (exp.Paren, exp.Not)):
        return is_rowless(node.this)
    if isinstance(node, exp.Connector):
        return is_rowless(node.left) and is_rowless(node.right)
    if isinstance(node, exp.Binary) and not isinstance(node, (exp.Like, exp.Is)):
        sides = (node.left, node.right)
        if any(isinstance(side, exp.Null) for side in sides) or all(
            isinstance(side, exp.Literal) for side in sides
        ):
            return False
    return all(_counts_rows(function) for function in node.find_all(*_OF_THE_ROW))


def _counts_rows(node: exp.Expr) -> bool:
    """`(SELECT count(*) FROM t) > 0`: its star is no column of the row."""
    return isinstance(node, exp.Star) and node.find_ancestor(exp.Count) is not None


def selects(select: exp.Select, wanted: exp.Expr) -> bool:
    """Whether a query gives the very columns that are looked for in it."""
    columns = wanted.expressions if isinstance(wanted, exp.Tuple) else [wanted.unnest()]
    expressions = select.expressions
    return [_column(column) for column in expressions] == [
        _column(column) for column in columns
    ] and None not in map(_column, columns)


def _column(node: exp.Expr) -> str | None:
    return node.name.lower() if isinstance(node, exp.Column) else None


def may_hold_of_every_row(column: str, constant: str) -> bool:
    """Whether a comparison of these needs a closer look; columns in upper case."""
    return column.rpartition(".")[2].endswith(("ID", "PK", "_ID_")) or _YEAR.match(constant) is not None


def holds_of_every_row(node: exp.Expr, table: Table) -> bool | None:
    """True where the predicate holds for all rows of the table, else None."""
    if isinstance(node, exp.Not):
        inner = node.this
        null = isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null)
        return True if null and _is_key(inner.this, table) else None
    if isinstance(node, exp.Between):
        return _includes_all(node, table)
    left, right = node.args["this"], node.args["expression"]
    if _is_same(left, right, table) and isinstance(node, _REFLEXIVE):
        return True
    if isinstance(node, exp.NEQ):
        number = _number(right)
        return True if _is_key(left, table) and number is not None and number < LEAST_KEY else None
    kind = type(node)
    mirrored = _MIRRORED.get(kind)
    if mirrored is None:
        return None
    as_written = _bounds_nothing(kind, left, right, table)
    return True if as_written or _bounds_nothing(mirrored, right, left, table) else None


def _bounds_nothing(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr, table: Table) -> bool:
    return any(rule(kind, left, right, table) for rule in _RULES)


def _key_range(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr, table: Table) -> bool:
    number = _number(right)
    if number is None or not _is_key(left, table):
        return False
    least = number < LEAST_KEY or (kind is exp.GTE and number == LEAST_KEY)
    return least if kind in _AT_LEAST else number >= LARGEST_KEY


def _never_negative(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr, _table: Table) -> bool:
    number = _number(right)
    if number is None or not isinstance(left, (exp.Length, exp.Abs)):
        return False
    return kind in _AT_LEAST and (number < 0 or (kind is exp.GTE and number == 0))


def _all_dates(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr, _table: Table) -> bool:
    if not isinstance(left, exp.Column):
        return False
    literal = right.find(exp.Literal)
    year = _YEAR.match(literal.name) if literal is not None and literal.is_string else None
    if year is not None:
        return int(year[1]) < BEFORE_ALL_DATA if kind in _AT_LEAST else int(year[1]) >= AFTER_ALL_DATA
    return kind in _AT_MOST and left.name.lower().startswith(_CREATED) and _is_now(right)


def _smallest_or_largest(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr, table: Table) -> bool:
    if kind not in (exp.GTE, exp.LTE):
        return False
    return _is_end(left, right, table, exp.Min if kind is exp.GTE else exp.Max)


_RULES: tuple[Callable[[type[exp.Expr], exp.Expr, exp.Expr, Table], bool], ...] = (
    _key_range,
    _never_negative,
    _all_dates,
    _smallest_or_largest,
)


def _includes_all(node: exp.Between, table: Table) -> bool | None:
    column, low, high = node.this, node.args["low"], node.args["high"]
    by_ends = _is_end(column, low, table, exp.Min) and _is_end(column, high, table, exp.Max)
    by_keys = _bounds_nothing(exp.GTE, column, low, table) and _bounds_nothing(exp.LTE, column, high, table)
    return True if by_ends or by_keys else None


def _is_end(column: exp.Expr, query: exp.Expr, table: Table, end: type[exp.Expr]) -> bool:
    """`(SELECT MIN(id) FROM t)` beside `id`, of the same table and without a condition."""
    select = query.this if isinstance(query, exp.Subquery) else None
    if not isinstance(select, exp.Select) or select.args.get("where") or not isinstance(column, exp.Column):
        return False
    origin = select.args.get("from_")
    return (
        origin is not None
        and table.read_in(origin.this) is not None
        and len(select.expressions) == 1
        and isinstance(select.expressions[0], end)
        and _column(select.expressions[0].this) == column.name.lower()
    )


def _is_same(left: exp.Expr, right: exp.Expr, table: Table) -> bool:
    """Whether both are one column of the table, under two of its names."""
    return (
        isinstance(left, exp.Column)
        and isinstance(right, exp.Column)
        and left.name.lower() == right.name.lower()
        and all(not column.table or column.table.lower() in table.names for column in (left, right))
    )


def _is_key(node: exp.Expr, table: Table) -> bool:
    """`id`, or `order_id` of a table `orders`."""
    if not isinstance(node, exp.Column):
        return False
    name = node.name.lower()
    return name in _KEYS or (name.endswith("_id") and table.name.startswith(name[:-3]))


def _is_now(node: exp.Expr) -> bool:
    if isinstance(node, (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentDatetime)):
        return True
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in _NOW


def _number(node: exp.Expr | None) -> float | None:
    if isinstance(node, exp.Neg):
        inner = _number(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Paren):
        return _number(node.this)
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    try:
        return float(str(node.this))
    except ValueError:
        return None
