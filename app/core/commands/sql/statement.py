"""Statements of a token list: split first, each described alone, those inside others by their heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from app.core.foundation.words import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.core.commands.sql.tokens import SqlToken

Where = Literal["none", "always_true", "bounded", "unused"]


class Span(NamedTuple):
    """A statement's tokens within its text: from `start` up to `end`, indexes of the list."""

    start: int
    end: int


_OBJECTS = vocabulary(
    "TABLE DATABASE SCHEMA VIEW MATERIALIZED USER ROLE LOGIN FUNCTION PROCEDURE TRIGGER SEQUENCE",
    "TABLESPACE KEYSPACE CATALOG",
)
_INNER_HEADS = {
    "DROP": _OBJECTS,
    "TRUNCATE": frozenset(["TABLE"]),
    "DELETE": frozenset(["FROM"]),
    "ALTER": vocabulary("TABLE USER ROLE DATABASE SYSTEM LOGIN"),
    "CREATE": vocabulary("USER ROLE LOGIN"),
}
"""Two words that begin a statement wherever they stand together."""
_CALLS = frozenset(["EXEC", "EXECUTE", "CALL"])
_NOT_BEFORE_HEAD = vocabulary("ON FOR BEFORE AFTER OF OR OPTION INSTEAD GRANT REVOKE ALTER ADD AS , .")
"""After these the words name an event or a privilege (`ON DELETE`, `AFTER UPDATE`, `GRANT DROP`)."""
_NAMES_PRIVILEGES = frozenset(["GRANT", "REVOKE", "EXPLAIN", "DESCRIBE", "DESC", "COMMENT", "HELP", "SHOW"])
_SKIPPED_FIRST = frozenset(["BEGIN", "(", "{", ")", "}", "THEN", "ELSE", "DO", "LOOP", "$$"])
_DEEPER, _SHALLOWER = frozenset("({["), frozenset(")}]")


def statements(tokens: Sequence[SqlToken]) -> Iterator[Span]:
    """Every statement and every statement inside one."""
    start = 0
    for index, token in enumerate(tokens):
        if token.text == ";" and token.kind == "mark":
            yield from _inner(tokens, start, index)
            start = index + 1
    yield from _inner(tokens, start, len(tokens))


def _inner(tokens: Sequence[SqlToken], start: int, end: int) -> Iterator[Span]:
    while start < end and tokens[start].upper in _SKIPPED_FIRST:
        start += 1
    if start >= end:
        return
    heads = [start]
    if tokens[start].upper not in _NAMES_PRIVILEGES:
        heads += [index for index in range(start + 1, end) if _is_head(tokens, index, end)]
    for head, following in zip(heads, [*heads[1:], end], strict=True):
        yield Span(head, end if head == start else _closed(tokens, head, following))


def _is_head(tokens: Sequence[SqlToken], index: int, end: int) -> bool:
    word, before = tokens[index].upper, tokens[index - 1].upper
    seconds = _INNER_HEADS.get(word)
    if seconds is not None:
        return index + 1 < end and tokens[index + 1].upper in seconds and before not in _NOT_BEFORE_HEAD
    if word == "UPDATE":
        return before in ("(", ")", "BEGIN", "THEN", "ELSE", "DO", "LOOP", "AS") and _sets(tokens, index, end)
    return word in _CALLS and index + 1 < end and before not in _NOT_BEFORE_HEAD


def _sets(tokens: Sequence[SqlToken], index: int, end: int) -> bool:
    """`UPDATE name SET`, not the `UPDATE SET` of a MERGE or an upsert."""
    return tokens[index + 1].upper != "SET" if index + 1 < end else False


def _closed(tokens: Sequence[SqlToken], start: int, end: int) -> int:
    """Where the parenthesis that holds the statement closes, at the latest `end`."""
    depth = 0
    for index in range(start, end):
        text = tokens[index].upper
        depth += (text in _DEEPER) - (text in _SHALLOWER)
        if depth < 0:
            return index
    return end
