"""Which tables a statement acts on, under which names, and the texts that it hands on.

Temporary tables of the text itself are told from others. Texts go to SQL itself (EXEC, PREPARE, DO), or to a
shell (xp_cmdshell, COPY PROGRAM).
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple

from sluice.detection.commands.sql.rows import Table
from sluice.text.name_words import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sluice.detection.commands.sql.tokens import SqlToken

_BEFORE_TABLE = vocabulary("FROM USING UPDATE JOIN INTO MERGE DELETE TABLE TRUNCATE ONLY")
_PASSED_OVER = vocabulary("INTO TABLE ONLY IF NOT EXISTS FROM LOW_PRIORITY QUICK IGNORE")
_NO_ALIAS = vocabulary(
    "SET WHERE USING ON FROM JOIN INNER LEFT RIGHT FULL CROSS WHEN ORDER LIMIT RETURNING OUTPUT OPTION",
    "SELECT VALUES CASCADE RESTRICT RESTART CONTINUE NATURAL WITH",
)
_TEMPORARY = frozenset(["TEMP", "TEMPORARY"])
_EMPTYING = frozenset(["DROP", "TRUNCATE", "DELETE", "UPDATE"])
_TEMPORARY_SCHEMAS = frozenset(["PG_TEMP", "TEMPDB", "TEMP"])


class Named(NamedTuple):
    """A table as a statement names it: its path in upper case, "#" kept, and its alias there."""

    path: tuple[str, ...]
    alias: str

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path[-1]


def table_of(tokens: Sequence[SqlToken]) -> Table:
    """The table of whose rows the statement chooses, and every name that it has in it."""
    named = list(_find_tables(tokens))
    if not named:
        return Table("", frozenset())
    target = next((table.name for table in named[1:] if table.alias == named[0].name), named[0].name)
    aliases = {table.alias for table in named if table.name == target and table.alias}
    return Table(target.lower(), frozenset(name.lower() for name in aliases | {target}))


def _find_tables(tokens: Sequence[SqlToken]) -> Iterator[Named]:
    """The tables after FROM, USING, JOIN and their like, up to WHERE, outside parentheses."""
    depth, expected, index = 0, False, 0
    while index < len(tokens):
        token = tokens[index]
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.upper == "WHERE":
            return
        if depth == 0 and token.upper in _BEFORE_TABLE | _PASSED_OVER:
            expected = True
        elif depth == 0 and expected and (token.kind in ("word", "name") or token.text == "#"):
            named, index = _table_at(tokens, index)
            yield named
            expected = index < len(tokens) and tokens[index].text == ","
            continue
        elif depth == 0 and token.text != ",":
            expected = False
        index += 1


def _table_at(tokens: Sequence[SqlToken], index: int) -> tuple[Named, int]:
    path: list[str] = []
    mark = ""
    while index < len(tokens):
        token = tokens[index]
        if token.text == "#":
            mark = "#"
        elif token.kind in ("word", "name"):
            path += (mark + token.text.upper()).split(".")
            mark = ""
            if index + 1 >= len(tokens) or tokens[index + 1].text != ".":
                index += 1
                break
        elif token.text != ".":
            break
        index += 1
    alias, index = _alias_at(tokens, index)
    return Named(tuple(path) or ("",), alias), index


def _alias_at(tokens: Sequence[SqlToken], index: int) -> tuple[str, int]:
    if index < len(tokens) and tokens[index].upper == "AS":
        index += 1
    token = tokens[index] if index < len(tokens) else None
    if token is None or token.kind not in ("word", "name") or token.upper in _NO_ALIAS:
        return "", index
    return token.text.upper(), index + 1


class TemporaryTables:
    """The temporary tables that a text made so far: each may be dropped once, and emptied until then.

    A name hides a lasting table until its temporary one is gone, and none with a schema's name before it.
    """

    def __init__(self) -> None:
        self._made: set[str] = set()

    def note(self, tokens: Sequence[SqlToken]) -> None:
        """`CREATE TEMP TABLE x`, `SELECT ... INTO TEMP x`."""
        words = [token.upper for token in tokens]
        if words[0] == "CREATE" and "TABLE" in words[1:4] and not _TEMPORARY.isdisjoint(words[1:4]):
            self._made.update(named.name for named in islice(_find_tables(tokens[words.index("TABLE") :]), 1))
        elif words[0] == "SELECT":
            for index, word in enumerate(words[:-2]):
                if word == "INTO" and words[index + 1] in _TEMPORARY:
                    start = index + 2 + (words[index + 2] == "TABLE")
                    self._made.update(
                        table.name for table in _find_tables([tokens[index], *tokens[start : start + 1]])
                    )

    def only(self, tokens: Sequence[SqlToken]) -> bool:
        """Whether it drops, empties or changes nothing but temporary tables; a drop takes them away."""
        verb = tokens[0].upper
        if verb not in _EMPTYING:
            return False
        named = list(_find_tables(tokens))
        if not named or not all(map(self._is_temporary, named)):
            return False
        if verb == "DROP":
            self._made.difference_update(table.name for table in named)
        return True

    def _is_temporary(self, named: Named) -> bool:
        if named.name[:1] == "#" and (len(named.path) == 1 or named.path[0] == "TEMPDB"):
            return True
        if len(named.path) > 1:
            return named.path[0] in _TEMPORARY_SCHEMAS and len(named.path) == 2  # noqa: PLR2004 - schema and table
        return named.name in self._made


class HandedOn(NamedTuple):
    """A text within SQL that something reads as a program."""

    text: str
    language: Literal["sql", "shell"]
    how: str


_TO_SHELL = vocabulary(
    "XP_CMDSHELL PROGRAM SYS_EXEC SYS_EVAL SYSTEM SHELL SHELLEXEC DBMS_SCHEDULER SP_OAMETHOD",
)
_TO_SQL = vocabulary(
    "EXEC EXECUTE PREPARE IMMEDIATE SP_EXECUTESQL DO DBLINK DBLINK_EXEC OPENQUERY OPENROWSET",
    "QUERY_TO_XML ITERATE RUNMANY DOIT EXECUTE_IMMEDIATE PG_EXECUTE CURSOR_TO_XML DBMS_SQL.PARSE",
    "XP_EXECRESULTSET",
)
_JOINTS = frozenset(["||", "+", ",", "CONCAT", "(", "CHAR", "CHR", "NCHAR", ")"])
_SHORTEST = 4
"""Shorter strings say nothing that a pattern knows."""
MOST_HANDED_ON = 16
"""The most texts that are taken from one text."""
_LARGEST_CHARACTER = 0x10FFFF
_HEX = re.compile(r"(?:0x)?((?:[0-9a-f]{2})+)", re.IGNORECASE)


def find_handed_on(tokens: Sequence[SqlToken]) -> Iterator[HandedOn]:
    """Strings of a text that runs strings, pieces put together; hex and CHAR() codes read."""
    words = {token.upper.rpartition(".")[2] for token in tokens if token.kind == "word"}
    to_shell, to_sql = words & _TO_SHELL, words & _TO_SQL
    if not (to_shell or to_sql):
        return
    texts = [text for text in dict.fromkeys(_build_texts(tokens)) if len(text) >= _SHORTEST]
    for text in sorted(texts, key=len, reverse=True)[:MOST_HANDED_ON]:
        if to_sql:
            yield HandedOn(text, "sql", min(to_sql).lower())
        if to_shell:
            yield HandedOn(text, "shell", min(to_shell).lower())


def _build_texts(tokens: Sequence[SqlToken]) -> Iterator[str]:
    """Each string alone, and each run of strings that operators or CONCAT put together."""
    run: list[str] = []
    for token in tokens:
        piece = _piece(token)
        if piece is not None:
            yield piece
            run.append(piece)
        elif token.upper not in _JOINTS:
            if len(run) > 1:
                yield "".join(run)
            run = []
    if len(run) > 1:
        yield "".join(run)


def _piece(token: SqlToken) -> str | None:
    if token.kind in ("string", "name"):
        return token.text
    if token.kind == "number" and token.text.isdigit():
        code = int(token.text) if len(token.text) <= len(str(_LARGEST_CHARACTER)) else 0
        return chr(code) if ord(" ") <= code < ord("\x7f") else None
    hexed = _HEX.fullmatch(token.text) if token.text[:1] in "xX0" else None
    return bytes.fromhex(hexed[1]).decode("latin-1").replace("\x00", "") if hexed else None
