"""The shipped command and SQL patterns, and what they say about a Python program."""

from __future__ import annotations

import json
from pathlib import Path

from sluice.detection.commands.python import read_python
from sluice.detection.commands.shell import ShellReading
from sluice.detection.commands.sql.sql_patterns import SqlPattern, SqlPatterns
from sluice.detection.commands.sql.sql_reading import read_sql
from tests.unit.detection.commands.shell_library import DIRECTORY, LIBRARY

_SQL = SqlPatterns(
    [SqlPattern.model_validate(one) for one in json.loads((DIRECTORY / "sql.json").read_bytes())["sql"]]
)
_PROGRAMS = Path(__file__).parent
_ALARMING = frozenset({"critical", "warn"})


def programs(name: str) -> dict[str, str]:
    """The programs of a text file, by the titles above them."""
    parts = (_PROGRAMS / name).read_text("utf-8").split("### ")[1:]
    return {title: program for title, _, program in (part.partition("\n") for part in parts)}


def hits(program: str) -> list[str]:
    """The ids of the patterns that would block or escalate it."""
    reading = read_python(program)
    found = [one.id for one in LIBRARY.matches(ShellReading(reading.commands)) if one.severity in _ALARMING]
    statements = [
        statement
        for nested in reading.nested
        if nested.language == "sql"
        for statement in read_sql(nested.text).statements
    ]
    return found + [
        one.id for statement in statements for one in _SQL.matches(statement) if one.severity in _ALARMING
    ]
