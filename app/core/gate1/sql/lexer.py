"""A tolerant lexer for pieces of SQL: what a statement's own tokenizer refuses (open quotes, cut comments).

It serves the judgement of inserted values, and reads on where sqlglot's tokenizer gives up.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["word", "name", "string", "number", "variable", "operator", "mark", "comment"]


class SqlToken(NamedTuple):
    """`text` without quotes for strings and names; `upper` is it in upper case for words, else as written."""

    kind: Kind
    text: str
    upper: str
    start: int
    end: int


TOKENS = re.compile(
    r"""
      (?P<word>[^\W\d][\w$]*(?:(?:\.{1,2}|\s*/\*\*/\s*\.\s*)[^\W\d][\w$]*)*)
    | (?P<space>[\s\x00]+|/\*.*?\*/|(?:--|\#)[^\n]*\n(?=.))
    | (?P<comment>--.*|\#(?=\s|\Z).*|/\*.*)
    | (?P<string>'(?:[^'\\]|''|\\.)*(?:'|\\?\Z)|"(?:[^"\\]|""|\\.)*(?:"|\\?\Z))
    | (?P<name>`[^`]*(?:`|\Z))
    | (?P<number>0x[0-9a-f]+\b|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)
    | (?P<variable>@@?[\w$]+)
    | (?P<operator>\|\||&&|[<>!:]=|<=>|<>|:=|[=<>+*/%^&|~!-])
    | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
"""Every character of any text is in one token. `space`: also comments that end before the text does."""


def sql_tokens(text: str) -> Iterator[SqlToken]:
    """All tokens of any text but white space and comments that end before the text does. Linear."""
    for found in TOKENS.finditer(text):
        kind = found.lastgroup
        if kind == "space" or kind is None:
            continue
        raw = found.group()
        if kind in ("string", "name"):
            yield SqlToken(kind, _unquoted(raw), "", found.start(), found.end())  # type: ignore[arg-type]
        else:
            yield SqlToken(kind, raw, raw.upper(), found.start(), found.end())  # type: ignore[arg-type]


def _unquoted(raw: str) -> str:
    return raw[1:-1] if len(raw) > 1 and raw[-1] == raw[0] else raw[1:]
