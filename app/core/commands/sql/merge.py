"""MERGE: which rows its condition pairs, and what it does with them (SQL:2016; Oracle, T-SQL, BigQuery)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from app.core.commands.sql.rows import Table
from app.core.commands.sql.tokens import SqlToken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from app.core.commands.sql.statement import Where

_NARROWING = frozenset(["WHERE", "LIMIT", "GROUP BY", "HAVING", "JOIN", "TOP"])


def pairing(tokens: Sequence[SqlToken]) -> Sequence[SqlToken]:
    """The condition after ON."""
    start = next(_at_top(tokens, "ON"), None)
    if start is None:
        return ()
    end = next((place for place in _at_top(tokens, "WHEN") if place > start), len(tokens))
    return tokens[start + 1 : end]


def with_itself(tokens: Sequence[SqlToken], table: Table) -> Table:
    """The table with the name of a source that is all of it: `USING (SELECT * FROM t) s`."""
    start = next(_at_top(tokens, "USING"), None)
    end = next(_at_top(tokens, "ON"), len(tokens))
    if start is None or start + 1 >= end or tokens[start + 1].text != "(":
        return table
    source = tokens[start + 1 : end]
    words = [one.text.upper() for one in source]
    reads_itself = any(before == "FROM" and after.lower() == table.name for before, after in pairwise(words))
    if not reads_itself or not _NARROWING.isdisjoint(words):
        return table
    return Table(table.name, table.names | {source[-1].text.lower()})


def plainly(tokens: Sequence[SqlToken], judge: Callable[[Sequence[SqlToken]], Where]) -> list[SqlToken]:
    """Without the conditions of its branches that are always true; Oracle's `DELETE WHERE` as a branch."""
    plain: list[SqlToken] = []
    place = 0
    branch = 0
    while place < len(tokens):
        token = tokens[place]
        if token.upper == "WHEN":
            branch = place
        if branch and token.upper == "AND" and _is_condition(tokens, place):
            end = _end(tokens, place + 1, "THEN")
            if judge(tokens[place + 1 : end]) != "always_true":
                plain += tokens[place:end]
            place = end
            continue
        if branch and token.upper == "WHERE" and tokens[place - 1].upper == "DELETE":
            end = _end(tokens, place + 1, "WHEN")
            if judge(tokens[place + 1 : end]) == "always_true":
                plain.insert(-1, SqlToken("word", "THEN", "THEN", token.start, token.start))
            else:
                plain += tokens[place:end]
            place = end
            continue
        plain.append(token)
        place += 1
    return plain


def _is_condition(tokens: Sequence[SqlToken], place: int) -> bool:
    """Whether it is the AND that follows `[NOT] MATCHED [BY SOURCE]`."""
    return tokens[place - 1].upper in ("MATCHED", "SOURCE", "TARGET")


def _end(tokens: Sequence[SqlToken], start: int, word: str) -> int:
    return start + next(_at_top(tokens[start:], word), len(tokens) - start)


def _at_top(tokens: Sequence[SqlToken], word: str) -> Iterator[int]:
    """Where the word stands outside parentheses and CASE."""
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token.text == "(") - (token.text == ")")
        depth += (token.upper == "CASE") - (token.upper == "END")
        if depth == 0 and token.upper == word:
            yield place
