"""Statements given to a database's cursor, connection or session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.commands.python.values import UNKNOWN, Value, word

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.commands.python.libraries.called import Called

_TAKING_STATEMENTS = (
    *(
        "execute",
        "executemany",
        "executescript",
        "exec_driver_sql",
        "raw",
        "sql",
        "read_sql",
        "read_sql_query",
        "query",
    ),
    *("fetch", "fetchrow", "fetchval", "command", "run", "cypher", "execute_query", "query_df", "raw_sql"),
)


def statement(call: Called) -> Value:
    """A method that takes a statement: what begins one is read as SQL."""
    text = call.arg(0, "sql", "query", "statement", "operation").text
    if text is not None:
        call.walker.found.sql(text, "python")
    return call.result()


def deleted(call: Called) -> Value:
    """Django's `Model.objects.all().delete()`: a table without a condition."""
    if call.base.name.endswith(".objects.all()"):
        call.walker.found.sql(f"DELETE FROM {word(UNKNOWN)}", "python")  # noqa: S608 - a statement that is judged, never run
    return call.result()


METHODS: dict[str, Callable[[Called], Value]] = {
    **dict.fromkeys(_TAKING_STATEMENTS, statement),
    "delete": deleted,
}
