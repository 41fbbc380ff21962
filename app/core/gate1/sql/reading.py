"""What a SQL text does: its statements, each described on its own, and the texts that it hands on.

`phrase` is the statement as one line that expressions can be matched on: words in upper case, one blank
between tokens, `''` for each string, `name` for each quoted name, numbers and variables as written.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from app.core.gate1.scan import nesting
from app.core.gate1.sql.handed_on import handed_on
from app.core.gate1.sql.statement import statements
from app.core.gate1.sql.tokens import MOST_TOKENS, readings
from app.core.gate1.sql.where import always_true, of_columns
from app.core.gate1.vocabulary import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.core.gate1.sql.handed_on import HandedOn
    from app.core.gate1.sql.lexer import SqlToken
    from app.core.gate1.sql.statement import Span, Where

CLAUSE_BYTES = 1024
"""The longest WHERE clause that is parsed: sqlglot takes 1 to 2 ms for that many."""
CLAUSE_NESTING = 12
"""The deepest. sqlglot fails from 45 parentheses on, or fewer, and backtracks before that."""
PARSED_CLAUSES = 8
"""The most clauses of one text that are parsed."""
_OBJECT_MODIFIERS = vocabulary(
    "OR REPLACE TEMP TEMPORARY GLOBAL LOCAL UNIQUE EXTERNAL FOREIGN UNLOGGED PUBLIC FORCE TRANSIENT",
    "VIRTUAL MATERIALIZED EDITIONABLE AGGREGATE CLUSTERED NONCLUSTERED FULLTEXT SPATIAL PLUGGABLE",
    "STORED",
)
_WITH_CLAUSE = frozenset(["DELETE", "UPDATE"])
_AFTER_CLAUSE = frozenset(["RETURNING", "ORDER BY", "LIMIT", "OPTION", "LOG"])


class SqlStatement(NamedTuple):
    """`object`: the kind of thing after DROP, CREATE, ALTER ("TABLE", "TEMPORARY TABLE"), else "".

    `where`: "none", "always_true" or "bounded" for DELETE and UPDATE, else "unused". `functions`: the names
    in upper case that a parenthesis follows.
    """

    verb: str
    object: str
    where: Where
    functions: frozenset[str]
    phrase: str


class SqlReading(NamedTuple):
    """`inconclusive` names the bound that stopped the reading of a clause, None where all was read."""

    statements: tuple[SqlStatement, ...]
    nested: tuple[HandedOn, ...]
    inconclusive: str | None


def read_sql(text: str) -> SqlReading:
    """Read a text that is within the scan's bounds. Raises nothing: what is no SQL gives odd statements."""
    found: list[SqlStatement] = []
    nested: list[HandedOn] = []
    clauses = _Clauses()
    for tokens in readings(text):
        if len(tokens) == MOST_TOKENS:
            clauses.inconclusive = f"more than {MOST_TOKENS} SQL tokens to read"
        found += (_described(tokens, span, clauses) for span in statements(tokens))
        nested += handed_on(tokens)
    return SqlReading(tuple(found), tuple(dict.fromkeys(nested)), clauses.inconclusive)


class _Clauses:
    """Parses WHERE clauses, so many and so long as the bounds allow."""

    def __init__(self) -> None:
        self._left = PARSED_CLAUSES
        self.inconclusive: str | None = None

    def judge(self, tokens: Sequence[SqlToken]) -> Where:
        """The clause of these tokens: within bounds parsed, else unknown, which counts as bounded."""
        if of_columns(tokens):
            return "bounded"
        clause = " ".join(_source(one) for one in tokens)
        self._left -= 1
        if self._left < 0 or len(clause) > CLAUSE_BYTES or nesting(clause) > CLAUSE_NESTING:
            self.inconclusive = "a WHERE clause is too long or too deep to parse"
            return "bounded"
        return "always_true" if always_true(clause) else "bounded"


def _described(tokens: Sequence[SqlToken], span: Span, clauses: _Clauses) -> SqlStatement:
    own = tokens[span.start : span.end]
    verb = own[0].upper
    return SqlStatement(
        verb,
        _object(own) if verb in ("DROP", "CREATE", "ALTER", "REPLACE", "UNDROP") else "",
        _where(own, clauses) if verb in _WITH_CLAUSE or _leads_to_write(own) else "unused",
        frozenset(one.upper for one, after in pairwise(own) if after.text == "("),
        phrase(own),
    )


def _object(tokens: Sequence[SqlToken]) -> str:
    temporary = ""
    for token in tokens[1:]:
        if token.upper in ("TEMP", "TEMPORARY"):
            temporary = "TEMPORARY "
        elif token.upper not in _OBJECT_MODIFIERS:
            return temporary + token.upper
    return ""


def _leads_to_write(tokens: Sequence[SqlToken]) -> bool:
    """`WITH x AS (...) DELETE FROM ...`: the verb comes after the named queries."""
    return tokens[0].upper == "WITH" and _write_after_with(tokens) is not None


def _write_after_with(tokens: Sequence[SqlToken]) -> int | None:
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.upper in _WITH_CLAUSE and tokens[index - 1].text == ")":
            return index
    return None


def _where(tokens: Sequence[SqlToken], clauses: _Clauses) -> Where:
    start = _write_after_with(tokens) or 0
    depth = 0
    clause: list[SqlToken] | None = None
    for token in tokens[start:]:
        depth += (token.text == "(") - (token.text == ")")
        if clause is None and depth == 0 and token.upper == "WHERE":
            clause = []
        elif clause is not None and (depth < 0 or (depth == 0 and token.upper in _AFTER_CLAUSE)):
            break
        elif clause is not None:
            clause.append(token)
    return clauses.judge(clause) if clause else "none"


def _source(token: SqlToken) -> str:
    if token.kind == "string":
        return "'" + token.text.replace("'", "''") + "'"
    return '"' + token.text.replace('"', '""') + '"' if token.kind == "name" else token.text


def phrase(tokens: Sequence[SqlToken]) -> str:
    """The tokens as one line that expressions can be matched on."""
    return " ".join(_spelled(tokens))


def _spelled(tokens: Sequence[SqlToken]) -> Iterator[str]:
    for token in tokens:
        if token.kind == "string":
            yield "''"
        else:
            yield "name" if token.kind == "name" else token.upper
