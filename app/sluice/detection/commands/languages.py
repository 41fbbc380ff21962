"""As what a parameter is read, and the patterns over what has no grammar that Gate 1 reads.

Its key's words say it, then those of the tool's name, then the action type. What none of them says is a
`value`: it goes into something, so it is judged as an inserted value, and as SQL or as a command only if it
is one from its first word to its last. Text for people is `prose`: it may talk about anything. PowerShell,
cmd.exe and program code are judged by patterns over plain text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from pydantic import Field

from sluice.detection.commands.inspection import Described, Expression
from sluice.detection.library_model import LibraryError
from sluice.text.expression_sets import PatternError, PatternSet
from sluice.text.name_words import vocabulary, words_of

Language = Literal["shell", "sql", "code", "value", "prose"]
"""What a leaf is read as. `value`: anything that is neither a program nor a text for people."""


class TextPattern(Described):
    """An RE2 expression, searched without regard to case in leaves of the languages named."""

    pattern: Expression
    languages: list[Language] = Field(default=["shell", "code", "value"], min_length=1)


class TextPatterns:
    """Text patterns, compiled to one automaton for each language. `anywhere`: all of them, to be searched in
    several texts that line ends join."""

    __slots__ = ("_by_language", "anywhere")

    def __init__(self, patterns: list[TextPattern]) -> None:
        """Raises LibraryError with the path of the expression that does not compile."""
        try:
            self.anywhere = PatternSet([(pattern.id, f"(?m){pattern.pattern}") for pattern in patterns])
        except PatternError as error:
            name = patterns[error.index].id
            raise LibraryError(
                f"$.patterns.text[{error.index}].pattern: {name} does not compile: {error.message}"
            ) from None
        self._by_language = {
            language: _compile_language(patterns, language)
            for language in Language.__args__  # type: ignore[attr-defined]
        }

    def matches(self, text: str, language: Language) -> list[TextPattern]:
        """The patterns of that language which are found in the text."""
        patterns: list[TextPattern] = self._by_language[language].matches(text)
        return patterns


def _compile_language(patterns: list[TextPattern], language: Language) -> PatternSet[TextPattern]:
    return PatternSet([(pattern, pattern.pattern) for pattern in patterns if language in pattern.languages])


REMEMBERED_KEYS = 8192

_SHELL = vocabulary(
    "cmd cmds command commands commandline cmdline shell bash zsh sh terminal argv powershell pwsh exec",
)
_SQL = vocabulary("cypher sql statement statements ddl dml sqlquery rawsql tsql plsql psql hql")
_CODE = vocabulary(
    "code source snippet python javascript js ruby perl php node program notebook cell",
)
_SCRIPT = frozenset(["script", "scripts", "entrypoint", "userdata", "startup"])
_QUERY = frozenset(["query", "queries", "q", "expression"])
_PROSE = vocabulary(
    "message messages body text texts content contents subject title description comment comments note",
    "notes summary instruction instructions prompt reasoning caption reply question answer reason",
    "explanation bio review feedback transcript topic goal task label headline abstract story tweet",
    "post paragraph sentence document markdown html article essay greeting remark remarks details",
    "thought thoughts translation commit changelog readme letter",
)
_DATABASE = vocabulary(
    "sql db database databases postgres postgresql mysql mariadb sqlite sqlite3 mssql oracle snowflake",
    "bigquery redshift clickhouse duckdb psql warehouse athena presto trino hive cassandra cql",
    "databricks jdbc odbc neo cypher memgraph falkordb redisgraph graphdb",
)
_TERMINAL = vocabulary(
    "bash shell sh zsh terminal cmd command powershell pwsh console ssh cli exec subprocess",
)
_INTERPRETER = vocabulary("python node javascript ruby perl php code interpreter notebook repl jupyter")
_SEARCH_TOOL = vocabulary("web google bing internet browser arxiv wikipedia news duckduckgo youtube maps")
_OPEN_KEYS = frozenset(
    ["", "input", "args", "arguments", "argument", "value", "raw", "data", "line", "lines", "x"]
)


@lru_cache(maxsize=REMEMBERED_KEYS)
def language_of(tool_name: str, action_type: str, key: str) -> Language:
    """The language of a parameter of that key, given to that tool."""
    own = frozenset(words_of(key))
    tool = frozenset(words_of(tool_name))
    by_key = _judge_key(own, tool)
    if by_key is not None:
        return by_key
    if key.lower() in _OPEN_KEYS or own <= _OPEN_KEYS:
        return _judge_tool(tool, action_type)
    return "value"


@lru_cache(maxsize=REMEMBERED_KEYS)
def is_prose_key(key: str) -> bool:
    """Whether a parameter of that key is a text for people."""
    return not _PROSE.isdisjoint(words_of(key))


def _judge_key(own: frozenset[str], tool: frozenset[str]) -> Language | None:
    if own & _PROSE:
        return "prose"
    if own & _SHELL:
        return "shell"
    if own & _SQL:
        return "sql"
    if own & (_CODE | _SCRIPT):
        return "shell" if tool & _TERMINAL and not tool & _INTERPRETER else "code"
    if own & _QUERY and tool & _DATABASE:
        return "sql"
    return "prose" if tool & _SEARCH_TOOL and own & (_QUERY | {"search", "keywords", "keyword"}) else None


def _judge_tool(tool: frozenset[str], action_type: str) -> Language:
    if tool & _DATABASE:
        return "sql"
    if tool & _INTERPRETER:
        return "code"
    if tool & _TERMINAL or action_type == "CODE_EXECUTION":
        return "shell"
    return "value"
