"""What a SQL text does: its statements, each described on its own, and the texts that it hands on.

`phrase` is the statement as one line that expressions can be matched on: words in upper case, one blank
between tokens, `''` for each string, `name` for each quoted name, numbers and variables as written.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from sluice.detection.commands.sql.effects import TemporaryTables, find_handed_on, table_of
from sluice.detection.commands.sql.statement import find_pairing, name_source, plainly, statements
from sluice.detection.commands.sql.tokens import MOST_TOKENS, readings
from sluice.detection.commands.sql.where import always_true, compares_columns
from sluice.detection.disguises.scan import measure_nesting
from sluice.text.name_words import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sluice.detection.commands.sql.effects import HandedOn
    from sluice.detection.commands.sql.rows import Table
    from sluice.detection.commands.sql.statement import Where
    from sluice.detection.commands.sql.tokens import SqlToken

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
_WRITES = _WITH_CLAUSE | {"MERGE"}
_AFTER_CLAUSE = frozenset(["RETURNING", "ORDER BY", "LIMIT", "OPTION", "LOG"])


class SqlStatement(NamedTuple):
    """`object`: the kind of thing after DROP, CREATE, ALTER ("TABLE", "TEMPORARY TABLE"), else "".

    `where`: "none", "always_true" or "bounded" for DELETE, UPDATE and MERGE (what it pairs), else "unused".
    `functions`: the names in upper case that a parenthesis follows. A statement that only drops, empties or
    changes temporary tables of its text has the object "TEMPORARY TABLE", and no row of it is missed.
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
    sql_statements: list[SqlStatement] = []
    nested: list[HandedOn] = []
    clauses = _Clauses()
    for tokens in readings(text):
        if len(tokens) == MOST_TOKENS:
            clauses.inconclusive = f"more than {MOST_TOKENS} SQL tokens to read"
        temporary = TemporaryTables()
        sql_statements += (
            _describe(tokens[span.start : span.end], clauses, temporary) for span in statements(tokens)
        )
        nested += find_handed_on(tokens)
    return SqlReading(tuple(sql_statements), tuple(dict.fromkeys(nested)), clauses.inconclusive)


class _Clauses:
    """Parses WHERE clauses, so many and so long as the bounds allow."""

    def __init__(self) -> None:
        self._left = PARSED_CLAUSES
        self.inconclusive: str | None = None

    def judge(self, tokens: Sequence[SqlToken], table: Table) -> Where:
        """The clause of these tokens on that table: within bounds parsed, else unknown: counts as bounded."""
        if compares_columns(tokens):
            return "bounded"
        clause = " ".join(_source(token) for token in tokens)
        self._left -= 1
        if self._left < 0 or len(clause) > CLAUSE_BYTES or measure_nesting(clause) > CLAUSE_NESTING:
            self.inconclusive = "a WHERE clause is too long or too deep to parse"
            return "bounded"
        return "always_true" if always_true(clause, table) else "bounded"


def _describe(own: Sequence[SqlToken], clauses: _Clauses, temporary: TemporaryTables) -> SqlStatement:
    start = _write_after_with(own) or 0
    verb = "MERGE" if own[start].upper == "MERGE" else own[0].upper
    functions = frozenset(token.upper for token, after in pairwise(own) if after.text == "(")
    if temporary.only(own):
        return SqlStatement(verb, "TEMPORARY TABLE", "unused", functions, phrase(own[1:]))
    temporary.note(own)
    if verb == "MERGE":
        return _describe_merge(own[start:], clauses, functions)
    return SqlStatement(
        verb,
        _object(own) if verb in ("DROP", "CREATE", "ALTER", "REPLACE", "UNDROP") else "",
        _where(own[start:], clauses) if start or verb in _WITH_CLAUSE else "unused",
        functions,
        phrase(own),
    )


def _describe_merge(own: Sequence[SqlToken], clauses: _Clauses, functions: frozenset[str]) -> SqlStatement:
    table = name_source(own, table_of(own))
    condition = find_pairing(own)
    where = clauses.judge(condition, table) if condition else "none"
    plain = plainly(own, lambda tokens: clauses.judge(tokens, table))
    return SqlStatement("MERGE", "", where, functions, phrase(plain))


def _object(tokens: Sequence[SqlToken]) -> str:
    temporary = ""
    for token in tokens[1:]:
        if token.upper in ("TEMP", "TEMPORARY"):
            temporary = "TEMPORARY "
        elif token.upper not in _OBJECT_MODIFIERS:
            return temporary + token.upper
    return ""


def _write_after_with(tokens: Sequence[SqlToken]) -> int | None:
    """`WITH x AS (...) DELETE FROM ...`: where the verb comes after the named queries."""
    if tokens[0].upper != "WITH":
        return None
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.upper in _WRITES and tokens[index - 1].text == ")":
            return index
    return None


def _where(tokens: Sequence[SqlToken], clauses: _Clauses) -> Where:
    depth = 0
    clause: list[SqlToken] | None = None
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if clause is None and depth == 0 and token.upper == "WHERE":
            clause = []
        elif clause is not None and (depth < 0 or (depth == 0 and token.upper in _AFTER_CLAUSE)):
            break
        elif clause is not None:
            clause.append(token)
    return clauses.judge(clause, table_of(tokens)) if clause else "none"


def _source(token: SqlToken) -> str:
    if token.kind == "string":
        return "'" + token.text.replace("'", "''") + "'"
    return '"' + token.text.replace('"', '""') + '"' if token.kind == "name" else token.text


def phrase(tokens: Sequence[SqlToken]) -> str:
    """The tokens as one line that expressions can be matched on."""
    return " ".join(_spell(tokens))


def _spell(tokens: Sequence[SqlToken]) -> Iterator[str]:
    for token in tokens:
        if token.kind == "string":
            yield "''"
        else:
            yield "name" if token.kind == "name" else token.upper


MOST_STATEMENTS = 8
"""SQL texts taken from one piece of code."""
_STRING = (
    r"(?:\"\"\"(?P<a>.{4,2000}?)\"\"\"|'''(?P<b>.{4,2000}?)'''|\"(?P<c>(?:[^\"\\]|\\.){4,2000})\""
    r"|'(?P<d>(?:[^'\\]|\\.){4,2000})'|`(?P<e>[^`]{4,2000})`)"
)
_CALL = re.compile(
    r"\b(?:execute\w*|exec_driver_sql|read_sql\w*|raw\w*|query\w*|text|prepare\w*|sql|run|executeWrite|mysql_query|pg_query)"
    r"\s*\(\s*(?:\w+\s*,\s*)?(?:text\(\s*)?[fbru]{0,2}" + _STRING,
    re.DOTALL | re.IGNORECASE,
)


def sql_in_code(text: str) -> Iterator[str]:
    """The SQL texts that the code hands to a database, at most MOST_STATEMENTS."""
    for count, match in enumerate(_CALL.finditer(text)):
        if count == MOST_STATEMENTS:
            return
        yield next(group for group in match.groups() if group is not None)
