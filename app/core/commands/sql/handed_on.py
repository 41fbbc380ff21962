"""Texts that SQL hands on: to itself (EXEC, PREPARE, DO), or to a shell (xp_cmdshell, COPY PROGRAM)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from app.core.foundation.words import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.core.commands.sql.tokens import SqlToken


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


def handed_on(tokens: Sequence[SqlToken]) -> Iterator[HandedOn]:
    """Strings of a text that runs strings, pieces put together; hex and CHAR() codes read."""
    words = {token.upper.rpartition(".")[2] for token in tokens if token.kind == "word"}
    to_shell, to_sql = words & _TO_SHELL, words & _TO_SQL
    if not (to_shell or to_sql):
        return
    texts = [text for text in dict.fromkeys(_built(tokens)) if len(text) >= _SHORTEST]
    for text in sorted(texts, key=len, reverse=True)[:MOST_HANDED_ON]:
        if to_sql:
            yield HandedOn(text, "sql", min(to_sql).lower())
        if to_shell:
            yield HandedOn(text, "shell", min(to_shell).lower())


def _built(tokens: Sequence[SqlToken]) -> Iterator[str]:
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
