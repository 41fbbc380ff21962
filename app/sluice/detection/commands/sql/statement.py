"""Statements of a token list: split first, each described alone, those inside others by their heads.

Of MERGE: which rows its condition pairs, and what it does with them (SQL:2016; Oracle, T-SQL, BigQuery).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from sluice.detection.commands.sql.rows import Table
from sluice.detection.commands.sql.tokens import SqlToken
from sluice.text.name_words import vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
CHANGING_VERBS = vocabulary(
    "DELETE UPDATE INSERT REPLACE MERGE UPSERT DROP TRUNCATE ALTER CREATE RENAME PURGE GRANT REVOKE "
    "COPY LOAD",
    "EXEC EXECUTE CALL DO DECLARE BACKUP RESTORE IMPORT UNDROP",
)
"""Of statements that change data or what may be done with it."""
SPLITTING_WORDS = frozenset([*_INNER_HEADS, "UPDATE", *_CALLS, *_SKIPPED_FIRST])
"""Without one of these a text of words is one statement from its first word to its last."""
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
        yield Span(head, end if head == start else _find_close(tokens, head, following))


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


def _find_close(tokens: Sequence[SqlToken], start: int, end: int) -> int:
    """Where the parenthesis that holds the statement closes, at the latest `end`."""
    depth = 0
    for index in range(start, end):
        text = tokens[index].upper
        depth += (text in _DEEPER) - (text in _SHALLOWER)
        if depth < 0:
            return index
    return end


_NARROWING = frozenset(["WHERE", "LIMIT", "GROUP BY", "HAVING", "JOIN", "TOP"])


def find_pairing(tokens: Sequence[SqlToken]) -> Sequence[SqlToken]:
    """The condition after ON."""
    start = next(_find_at_top(tokens, "ON"), None)
    if start is None:
        return ()
    end = next((index for index in _find_at_top(tokens, "WHEN") if index > start), len(tokens))
    return tokens[start + 1 : end]


def name_source(tokens: Sequence[SqlToken], table: Table) -> Table:
    """The table with the name of a source that is all of it: `USING (SELECT * FROM t) s`."""
    start = next(_find_at_top(tokens, "USING"), None)
    end = next(_find_at_top(tokens, "ON"), len(tokens))
    if start is None or start + 1 >= end or tokens[start + 1].text != "(":
        return table
    source = tokens[start + 1 : end]
    words = [token.text.upper() for token in source]
    reads_itself = any(before == "FROM" and after.lower() == table.name for before, after in pairwise(words))
    if not reads_itself or not _NARROWING.isdisjoint(words):
        return table
    return Table(table.name, table.names | {source[-1].text.lower()})


def plainly(tokens: Sequence[SqlToken], judge: Callable[[Sequence[SqlToken]], Where]) -> list[SqlToken]:
    """Without the conditions of its branches that are always true; Oracle's `DELETE WHERE` as a branch."""
    plain: list[SqlToken] = []
    index = 0
    branch = 0
    while index < len(tokens):
        token = tokens[index]
        if token.upper == "WHEN":
            branch = index
        if branch and token.upper == "AND" and _is_condition(tokens, index):
            end = _end(tokens, index + 1, "THEN")
            if judge(tokens[index + 1 : end]) != "always_true":
                plain += tokens[index:end]
            index = end
            continue
        if branch and token.upper == "WHERE" and tokens[index - 1].upper == "DELETE":
            end = _end(tokens, index + 1, "WHEN")
            if judge(tokens[index + 1 : end]) == "always_true":
                plain.insert(-1, SqlToken("word", "THEN", "THEN", token.start, token.start))
            else:
                plain += tokens[index:end]
            index = end
            continue
        plain.append(token)
        index += 1
    return plain


def _is_condition(tokens: Sequence[SqlToken], index: int) -> bool:
    """Whether it is the AND that follows `[NOT] MATCHED [BY SOURCE]`."""
    return tokens[index - 1].upper in ("MATCHED", "SOURCE", "TARGET")


def _end(tokens: Sequence[SqlToken], start: int, word: str) -> int:
    return start + next(_find_at_top(tokens[start:], word), len(tokens) - start)


def _find_at_top(tokens: Sequence[SqlToken], word: str) -> Iterator[int]:
    """Where the word stands outside parentheses and CASE."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.text == "(") - (token.text == ")")
        depth += (token.upper == "CASE") - (token.upper == "END")
        if depth == 0 and token.upper == word:
            yield index
