"""SQL text to tokens, by sqlglot's tokenizer: strings, comments and quoted names are then no words.

Dialects quote in different ways, so one tolerant dialect takes them all. Where they contradict each other (a
backslash before a quote) the text is read both ways. What the tokenizer refuses, the tolerant lexer reads.
"""

from __future__ import annotations

import logging
import re
import threading
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from sqlglot import tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlglot.tokenizer_core import Token


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
    for match in TOKENS.finditer(text):
        kind = match.lastgroup
        if kind == "space" or kind is None:
            continue
        raw = match.group()
        if kind in ("string", "name"):
            yield SqlToken(kind, _unquote(raw), "", match.start(), match.end())  # type: ignore[arg-type]
        else:
            yield SqlToken(kind, raw, raw.upper(), match.start(), match.end())  # type: ignore[arg-type]


def _unquote(raw: str) -> str:
    return raw[1:-1] if len(raw) > 1 and raw[-1] == raw[0] else raw[1:]


logging.getLogger("sqlglot").setLevel(logging.ERROR)
"""It warns of each statement that it takes for a command: an input's matter, no news about the worker."""


MOST_TOKENS = 1200
"""The most tokens of one text; statements beyond are not read, which the reading says. 3 us each."""


class BackslashSql(Dialect):
    """All quotes of all dialects; backslashes escape, as in MySQL."""

    class Tokenizer(tokens.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()  # read on after EXECUTE, CALL, SHOW ..., not over it
        IDENTIFIERS = ['"', "`"]  # noqa: RUF012 - sqlglot's own spelling
        QUOTES = ["'"]  # noqa: RUF012 - the same
        STRING_ESCAPES = ["'", "\\"]  # noqa: RUF012 - the same


class StandardSql(Dialect):
    """The same, a backslash being a character like any other (standard SQL, Postgres, SQL Server)."""

    class Tokenizer(BackslashSql.Tokenizer):
        STRING_ESCAPES = ["'"]  # noqa: RUF012 - sqlglot's own spelling


class _Tokenizers(threading.local):
    """A tokenizer takes as long to make as to read a statement, so each thread keeps its own."""

    def __init__(self) -> None:
        self.backslash = BackslashSql().tokenizer()
        self.standard = StandardSql().tokenizer()


_TOKENIZERS = _Tokenizers()
_KINDS: dict[TokenType, Kind] = {
    **dict.fromkeys(
        (
            TokenType.STRING,
            TokenType.NATIONAL_STRING,
            TokenType.RAW_STRING,
            TokenType.BYTE_STRING,
            TokenType.UNICODE_STRING,
        ),
        "string",
    ),
    **dict.fromkeys((TokenType.NUMBER, TokenType.HEX_STRING, TokenType.BIT_STRING), "number"),
    TokenType.IDENTIFIER: "name",
}
_EXECUTABLE_COMMENT = re.compile(r"/\*M?!\d{0,6}(.*?)(?:\*/|\Z)", re.DOTALL)


def readings(text: str) -> Iterator[list[SqlToken]]:
    """One to three token lists: as written, with standard backslashes, with cut words joined (`DR/**/OP`)."""
    text = open_comments(text)
    yield _tokens(text, _TOKENIZERS.backslash)
    if "\\'" in text:
        yield _tokens(text, _TOKENIZERS.standard)
    if "/*" in text:
        joined = join_cut_words(text)
        if joined != text:
            yield _tokens(joined, _TOKENIZERS.backslash)


def open_comments(text: str) -> str:
    """The text with MySQL's executable comments opened: `/*!50000 DROP*/` is DROP."""
    return _EXECUTABLE_COMMENT.sub(r" \1 ", text) if "/*" in text else text


def join_cut_words(text: str) -> str:
    """The text with words joined that comments cut: `DR/**/OP` is what a filter makes of it. Linear."""
    pieces: list[str] = []
    done = looked = 0
    while (begin := text.find("/*", looked)) >= 0 and (close := text.find("*/", begin + 2)) >= 0:
        looked = close + 2
        if _is_in_word(text, begin - 1) and _is_in_word(text, looked):
            pieces.append(text[done:begin])
            done = looked
    return "".join((*pieces, text[done:])) if pieces else text


def _is_in_word(text: str, index: int) -> bool:
    return 0 <= index < len(text) and (text[index].isalnum() or text[index] == "_")


def _tokens(text: str, tokenizer: tokens.Tokenizer) -> list[SqlToken]:
    try:
        return [_token(token, text) for token in islice(tokenizer.tokenize(text), MOST_TOKENS)]
    except SqlglotError:
        return list(islice(sql_tokens(text), MOST_TOKENS))


def _token(token: Token, text: str) -> SqlToken:
    words, start, end = token.text, token.start, token.end + 1
    first = text[start]
    if end - start == len(words) and (first.isalpha() or first in "_$"):
        upper = words.upper()
        return SqlToken("word", words, " ".join(upper.split()) if " " in words else upper, start, end)
    if end - start == 1 and not first.isdigit():
        return SqlToken("mark", words, words, start, end)
    kind = _KINDS.get(token.token_type)
    if kind is None:
        kind = "word" if words[:1].isalpha() or words[:1] in "_$" else "mark"
    if kind in ("string", "name"):
        return SqlToken(kind, words, "", start, end)
    upper = words.upper()
    return SqlToken(kind, words, " ".join(upper.split()) if " " in text[start:end] else upper, start, end)
